//! More than fits: the oldest gives way, every loss is counted, and reports stay right.

use prost::Message as _;
use serde_json::Value as Json;

use crate::harness::{Here, Sender, Site, await_until};
use crate::packets::{oversized, request};

/// Scripts of all raw rows, newest first.
fn raw_scripts(site: &Site) -> Vec<String> {
    let page = site.json("/api/v1/requests?limit=0");
    let rows = page["rows"].as_array().unwrap();
    rows.iter().map(|row| row["script_name"].as_str().unwrap().to_owned()).collect()
}

fn sum(rows: &[Json], column: &str) -> u64 {
    rows.iter().map(|row| row[column].as_u64().unwrap()).sum()
}

/// The merger comes rarely and the temporary pool is tiny: most is overwritten, all of it is
/// counted, the newest stays.
#[test]
fn a_full_temporary_pool_gives_up_the_oldest_and_counts_them() {
    let here = Here::start(&[
        "ingest.listen=127.0.0.1:0,[::1]:0",
        "ingest.receivers=2",
        "ingest.temp_pool_size=64",
        "ingest.temp_pool_bytes=256KiB",
        "ingest.stats_gathering_period=2s",
    ]);
    let mut sender = Sender::with_sources(&here.site, &here.site.udp, 6);
    let mut sent = 0;
    for flood in 0..3 {
        for number in 0..5_000 {
            let mut packet = request("h", "s", &format!("/{flood}/{number}"));
            // Every third has a nested request, which counts as one of its own.
            if number % 3 == 0 {
                packet.requests.push(crate::packets::nested("h", "s", "/nested"));
            }
            sent += 1 + packet.requests.len() as u64;
            sender.send_from(number, &packet.encode_to_vec());
        }
    }
    // The newest is worth most. It is the newest only once the receivers have all that came before.
    sender.settle();
    sent += 1;
    sender.send(&request("h", "s", "/last").encode_to_vec());
    let status = sender.at_rest();
    status.assert_accounted();
    assert_eq!(status.count("requests_decoded"), sent);
    assert_eq!(status.count("requests_invalid"), 0);
    let (merged, lost) = (status.count("requests_merged"), status.count("requests_overwritten"));
    assert!(lost > sent / 2, "{lost} of {sent} lost, {merged} merged");
    // One number says it, with what the kernel dropped, in SQL and on every page.
    let all = status.count("lost");
    assert_eq!(all, lost + status.count("kernel_drops") + status.count("receive_errors"));
    let in_sql = here.site.json("/api/v1/reports/status")["rows"][0]["lost"].as_u64();
    assert_eq!(in_sql, Some(all));
    let page = |path: &str| here.site.get(path).body.replace(',', "");
    let line = format!("Trouble with pinbad: {all} packets or requests lost in the last ");
    assert_has!(page("/reports") => line);
    assert_has!(page("/daemon") => format!("Yes {all}"));
    assert!(merged >= 64, "{merged}");
    assert!(
        status.sockets().iter().filter(|socket| socket.count("requests_overwritten") > 0).count()
            > 1
    );
    // What was merged is in the reports, no more and no less.
    assert_eq!(here.site.json("/api/v1/info")["req_count"].as_u64(), Some(merged));
    assert_eq!(sum(&here.site.rows("report_by_script_name"), "req_count"), merged);
    assert!(raw_scripts(&here.site).contains(&"/last".to_owned()));
    here.stop();
}

/// Raw rows are a cyclic pool: the oldest requests leave with their timers, and reports do not
/// notice.
#[test]
fn a_full_request_pool_evicts_the_oldest_and_reports_keep_them() {
    let here = Here::start(&["pool.request_pool_size=1000", "pool.timer_pool_size=100000"]);
    let status = here.site.send((0..5_000).map(|number| request("h", "s", &format!("/{number}"))));
    status.assert_accounted();
    for (name, count) in [
        ("requests_merged", 5_000),
        ("timers_merged", 10_000),
        ("request_rows", 1_000),
        ("timer_rows", 2_000),
        ("rows_evicted", 4_000),
    ] {
        assert_eq!(status.count(name), count, "{name}: {status:?}");
    }
    let scripts = raw_scripts(&here.site);
    let newest: Vec<_> = (4_000..5_000).rev().map(|number| format!("/{number}")).collect();
    assert_eq!(scripts, newest);
    // The first is gone, and its number says so.
    let detail = here.site.get("/api/v1/requests/1").problem(404);
    assert!(detail.contains("expired"), "{detail}");
    assert_eq!(here.site.rows("report_by_script_name").len(), 5_000);
    let info = here.site.json("/api/v1/info");
    assert_members!(info => {"req_count": 5_000, "time_total": 625});
    here.stop();
}

#[test]
fn a_full_timer_pool_evicts_whole_requests() {
    let here = Here::start(&["pool.request_pool_size=1000", "pool.timer_pool_size=500"]);
    let status = here.site.send((0..800).map(|number| request("h", "s", &format!("/{number}"))));
    status.assert_accounted();
    // Two timers each: 250 requests have room, and no more of them stay.
    assert_eq!(status.count("request_rows"), 250, "{status:?}");
    assert_eq!(status.count("timer_rows"), 500);
    assert_eq!(status.count("rows_evicted"), 550);
    let page = here.site.json("/api/v1/requests?limit=0");
    for row in page["rows"].as_array().unwrap() {
        let request = here.site.json(&format!("/api/v1/requests/{}", row["id"]));
        let timers = request["timers"].as_array().unwrap();
        assert_eq!((timers.len(), &row["timers_cnt"]), (2, &Json::from(2)), "{request}");
    }
    assert_eq!(raw_scripts(&here.site)[249], "/550");
    assert_eq!(here.site.rows("report_by_script_name").len(), 800);
    here.stop();
}

/// One request with four times as many timers as the pool has rows: it counts, whatever becomes of
/// its rows.
#[test]
fn a_request_with_more_timers_than_the_pool_holds_counts_all_the_same() {
    let here = Here::start(&[
        "pool.request_pool_size=1000",
        "pool.timer_pool_size=500",
        r#"report=[{name = "g", comment = "tag_info:group"}]"#,
    ]);
    let mut sender = Sender::new(&here.site);
    sender.send(&request("h", "s", "/before").encode_to_vec());
    sender.send(&oversized(2_000));
    sender.send(&request("h", "s", "/after").encode_to_vec());
    let status = sender.at_rest();
    status.assert_accounted();
    assert_eq!(status.count("timers_merged"), 2_006);
    assert!(status.count("timer_rows") <= 500, "{status:?}");
    assert_eq!(sum(&here.site.rows("report_by_script_name"), "req_count"), 3);
    assert_eq!(sum(&here.site.rows("g"), "hit_count"), 3 * 3 + 2_000);
    assert_eq!(raw_scripts(&here.site)[0], "/after");
    here.stop();
}

#[test]
fn without_a_request_pool_there_are_reports_and_no_raw_rows() {
    let here = Here::start(&[
        "pool.request_pool_size=0",
        r#"report=[{name = "g", comment = "tag_info:group"}]"#,
    ]);
    let status =
        here.site.send((0..2_000).map(|number| request("h", "s", &format!("/{}", number % 10))));
    status.assert_accounted();
    assert_eq!(status.count("requests_merged"), 2_000);
    assert_eq!(status.count("request_rows") + status.count("timer_rows"), 0);
    assert_eq!(status.count("rows_evicted"), 0);
    assert_eq!(here.site.rows("report_by_script_name").len(), 10);
    assert_eq!(sum(&here.site.rows("g"), "hit_count"), 6_000);
    for target in ["/api/v1/requests", "/api/v1/requests/1"] {
        let reply = here.site.get(target);
        let detail = reply.problem(reply.status);
        assert!((400..500).contains(&reply.status), "{reply:?}");
        assert!(detail.contains("pool.request_pool_size"), "{detail}");
    }
    here.stop();
}

/// Names without end: memory has its bounds, sums stay exact, and what has no row of its own is in
/// `(other)`.
#[test]
fn names_without_end_fold_into_other_and_sums_stay_exact() {
    let here = Here::start(&[
        "pool.words_memory=1MiB",
        "pool.request_pool_size=1000",
        "reports.rows_max=50",
        "reports.memory=4MiB",
    ]);
    let mut sender = Sender::new(&here.site);
    let requests = 20_000;
    for number in 0..requests {
        let name = format!("{number:0>200}");
        sender.send(&request(&name, &name, &name).encode_to_vec());
    }
    let status = sender.at_rest();
    status.assert_accounted();
    assert_eq!(status.count("requests_merged"), requests);
    assert!(status.count("report_memory_bytes") <= status.count("report_memory_bytes_max"));
    for report in "report_by_script_name report_by_hostname report_by_hostname_server_and_script \
         report_by_status"
        .split(' ')
    {
        let rows = here.site.rows(report);
        assert!(rows.len() <= 51, "{report}: {}", rows.len());
        assert_eq!(sum(&rows, "req_count"), requests, "{report}");
        let time: f64 = rows.iter().map(|row| row["req_time_total"].as_f64().unwrap()).sum();
        assert!((time - requests as f64 / 8.0).abs() < 1e-6, "{report}: {time}");
        let other = rows.iter().any(|row| row["index_value"].as_str().unwrap().contains("(other)"));
        assert_eq!(other, report != "report_by_status", "{report}");
    }
    assert_eq!(here.site.json("/api/v1/info")["req_count"].as_u64(), Some(requests));
    here.stop();
}

/// Overload passes: with a pool that was flooded the next packets are merged as ever.
#[test]
fn after_a_flood_nothing_is_lost_any_more() {
    let here = Here::start(&["ingest.temp_pool_size=64", "ingest.stats_gathering_period=200ms"]);
    let mut sender = Sender::new(&here.site);
    let packet = request("h", "s", "/flood").encode_to_vec();
    for _ in 0..10_000 {
        sender.send(&packet);
    }
    let flooded = sender.at_rest();
    flooded.assert_accounted();
    assert!(flooded.count("requests_overwritten") > 0, "{flooded:?}");
    let ready =
        await_until("ready again", || here.site.get("/readyz"), |reply| reply.status == 200);
    assert_eq!(ready.json()["status"], "ready");
    for _ in 0..20 {
        sender.send(&request("h", "s", "/calm").encode_to_vec());
        sender.at_rest();
    }
    let status = sender.at_rest();
    assert_eq!(status.count("requests_overwritten"), flooded.count("requests_overwritten"));
    let calm = here.site.json("/api/v1/reports/report_by_script_name?script_name=/calm");
    assert_eq!(calm["rows"][0]["req_count"], 20);
    here.stop();
}
