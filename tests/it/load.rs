//! `pinbad load` against the daemon: every packet that it says it sent is accounted for, and the
//! sums are the same. And `pinbad demo`: a full screen for a newcomer.

use serde_json::Value as Json;

use crate::harness::{Program, Site, await_condition, pinbad, run};
use crate::reports::REPORTS;

/// Packets of a run.
const COUNT: u64 = 100_000;

/// Runs `pinbad load` to its end and gives its totals.
fn load(site: &Site, arguments: &[&str]) -> Json {
    // A debug build merges more slowly than packets come; they wait in the ring, and until they are
    // there in the socket's buffer. Where the system allows only a small one, the receiver has to
    // keep up by itself.
    let granted = site.status().sockets()[0].count("recv_buffer_granted_bytes");
    let rate = if granted > 32 << 20 { "50000" } else { "5000" };
    let said = run(pinbad()
        .args(["load", "--format", "json", "--rate", rate, "--target"])
        .arg(site.udp[0].to_string())
        .args(arguments));
    assert_eq!(said.code, Some(0), "{said:?}");
    serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"))
}

fn micros(seconds: &Json) -> u64 {
    (seconds.as_f64().unwrap() * 1e6).round() as u64
}

fn bytes(kib: &Json) -> u64 {
    (kib.as_f64().unwrap() * 1024.0).round() as u64
}

#[test]
fn what_load_says_it_sent_is_what_the_daemon_shows() {
    let program = Program::serve(&[
        r#"report=[{name = "groups", comment = "tag_info:group"}]"#,
        // All of it may wait, however slow receiver and merger are.
        "ingest.recv_buffer=256MB",
        "ingest.temp_pool_size=300000",
        "ingest.temp_pool_bytes=300MB",
    ]);
    let site = &program.site;
    let count = COUNT.to_string();
    let sent =
        load(site, &["--count", &count, "--timers", "2", "--request-tags", "2", "--seed", "7"]);
    let totals = &sent["totals"];
    let total = |name: &str| totals[name].as_u64().unwrap_or_else(|| panic!("{name} in {sent:#}"));
    assert_eq!((total("packets"), &sent["missed"]), (COUNT, &Json::from(0)), "{sent:#}");

    let status = site.at_rest(COUNT);
    status.assert_accounted();
    for (name, expected) in [
        ("datagrams_accepted", COUNT),
        ("requests_merged", total("requests")),
        ("timers_merged", total("timers")),
        ("received_bytes", total("bytes")),
        ("kernel_drops", 0),
        ("requests_overwritten", 0),
        ("requests_invalid", 0),
        ("datagrams_invalid", 0),
    ] {
        assert_eq!(status.count(name), expected, "{name}: {status:?} {sent:#}");
    }

    let info = site.json("/api/v1/info");
    assert_eq!(info["req_count"].as_u64(), Some(total("requests")));
    assert_eq!(micros(&info["time_total"]), total("request_time_us"), "{info}");
    assert_eq!(micros(&info["ru_utime_total"]), total("ru_utime_us"), "{info}");
    assert_eq!(micros(&info["ru_stime_total"]), total("ru_stime_us"), "{info}");
    assert_eq!(bytes(&info["kbytes_total"]), total("document_bytes"), "{info}");

    // Report by report: as many rows as there were different keys, and sums that come to the same.
    let distinct = |name: &str| totals["distinct"][name].as_u64().unwrap();
    for (report, keys) in cases![
        "report_by_hostname" => distinct("hosts");
        "report_by_server_name" => distinct("servers");
        "report_by_script_name" => distinct("scripts");
        "report_by_hostname_server_and_script" => distinct("hosts_servers_scripts");
        "report_by_schema" => distinct("schemas");
        "report_by_status" => totals["statuses"].as_object().unwrap().len() as u64;
    ] {
        let rows = site.rows(report);
        let sum = |value: &dyn Fn(&Json) -> u64| rows.iter().map(value).sum::<u64>();
        assert_eq!(rows.len() as u64, keys, "{report}");
        assert_eq!(sum(&|row| row["req_count"].as_u64().unwrap()), COUNT, "{report}");
        assert_eq!(
            sum(&|row| micros(&row["req_time_total"])),
            total("request_time_us"),
            "{report}"
        );
        assert_eq!(sum(&|row| bytes(&row["traffic_total"])), total("document_bytes"), "{report}");
    }
    for row in site.rows("report_by_status") {
        let status = row["status"].to_string();
        assert_eq!(row["req_count"], totals["statuses"][&status], "{row}");
    }
    // Every timer has the tag `group`.
    let groups = site.rows("groups");
    let hits: u64 = groups.iter().map(|row| row["hit_count"].as_u64().unwrap()).sum();
    let value: u64 = groups.iter().map(|row| micros(&row["timer_value"])).sum();
    assert_eq!((hits, value), (total("timer_hits"), total("timer_value_us")));
}

/// Nested requests count as their own, and the same seed sends the same.
#[test]
fn nested_requests_are_accounted_for_and_a_seed_repeats() {
    let program = Program::serve(&["ingest.receivers=2", "ingest.recv_buffer=64MB"]);
    let arguments = ["--count", "2000", "--nested", "5", "--timers", "1", "--seed", "3"];
    let first = load(&program.site, &arguments);
    let second = load(&program.site, &arguments);
    assert_eq!(first["totals"], second["totals"]);
    assert_eq!(first["totals"]["requests"], 12_000, "{first:#}");
    let status = program.site.at_rest(4_000);
    status.assert_accounted();
    assert_eq!(status.count("requests_merged"), 24_000);
    let time = micros(&program.site.json("/api/v1/info")["time_total"]);
    assert_eq!(Some(time), first["totals"]["request_time_us"].as_u64().map(|us| 2 * us));
}

#[test]
fn demo_fills_every_report_and_ends_as_serve_does() {
    let mut program = Program::start(&["demo", "--rate", "500"], &[]);
    let site = program.site.clone();
    await_condition("all 18 reports have rows", || {
        let list = site.json("/api/v1/reports");
        let empty: Vec<String> = list["reports"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|report| report["rows"] == 0)
            .map(|report| report["name"].as_str().unwrap().to_owned())
            .filter(|name| REPORTS.iter().any(|(report, _, _)| report == name))
            .collect();
        if empty.is_empty() { Ok(()) } else { Err(empty) }
    });
    // Enough to look around in: several scripts, servers and hosts, requests with timers and tags,
    // not all of them well.
    await_condition("a shop at work", || {
        let scripts = site.rows("report_by_script_name").len();
        let hosts = site.rows("report_by_hostname").len();
        let statuses = site.rows("report_by_status").len();
        let page = site.json("/api/v1/requests?limit=100");
        let with_timers =
            page["rows"].as_array().unwrap().iter().filter(|row| row["timers_cnt"] != 0);
        let seen = (scripts, hosts, statuses, with_timers.count());
        let full = seen.0 >= 5 && seen.1 >= 2 && seen.2 >= 2 && seen.3 >= 10;
        if full { Ok(()) } else { Err(seen) }
    });
    assert_eq!(site.json("/readyz")["status"], "ready");
    program.signal("INT");
    let (status, _) = program.wait();
    assert_eq!(status.code(), Some(0));
}
