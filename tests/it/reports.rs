//! The 18 base reports and `info`: their columns in Pinba's order, and every value against a
//! recount of the packets.
//!
//! The recount decodes with prost and adds up whole microseconds; it knows nothing of ticks,
//! families or groups.

use std::collections::BTreeMap;

use pinbad::input::pinba::model::Request;
use prost::Message as _;
use serde_json::Value as Json;

use crate::harness::{Here, Sender};
use crate::packets::{corpus, corpus_names, request};

/// Columns before the keys of each report.
const FRONT: [&str; 14] = [
    "req_count",
    "req_per_sec",
    "req_time_total",
    "req_time_percent",
    "req_time_per_sec",
    "ru_utime_total",
    "ru_utime_percent",
    "ru_utime_per_sec",
    "ru_stime_total",
    "ru_stime_percent",
    "ru_stime_per_sec",
    "traffic_total",
    "traffic_percent",
    "traffic_per_sec",
];
/// Columns after the keys.
const BACK: [&str; 4] =
    ["memory_footprint_total", "memory_footprint_percent", "req_time_median", "index_value"];

/// Name, key columns, and how `index_value` is made of them: the names of keys in braces.
pub(crate) const REPORTS: [(&str, &[&str], &str); 18] = cases![
    "report_by_script_name" => &["script_name"], "{script_name}";
    "report_by_server_name" => &["server_name"], "{server_name}";
    "report_by_hostname" => &["hostname"], "{hostname}";
    "report_by_server_and_script" => &["server_name", "script_name"], "{server_name}/{script_name}";
    "report_by_hostname_and_script" => &["hostname", "script_name"], "{hostname}/{script_name}";
    "report_by_hostname_and_server" => &["hostname", "server_name"], "{hostname}/{server_name}";
    "report_by_hostname_server_and_script" => &["hostname", "server_name", "script_name"],
        "{hostname}:{server_name}/{script_name}";
    "report_by_status" => &["status"], "{status}";
    "report_by_script_and_status" => &["script_name", "status"], "{status}:{script_name}";
    "report_by_server_and_status" => &["server_name", "status"], "{status}{server_name}";
    "report_by_hostname_and_status" => &["hostname", "status"], "{status}{hostname}";
    "report_by_hostname_script_and_status" => &["hostname", "script_name", "status"],
        "{status}{hostname}/{script_name}";
    "report_by_schema" => &["schema"], "{schema}";
    "report_by_script_and_schema" => &["script_name", "schema"], "{schema}:{script_name}";
    "report_by_server_and_schema" => &["server_name", "schema"], "{schema}:{server_name}";
    "report_by_hostname_and_schema" => &["hostname", "schema"], "{schema}:{hostname}";
    "report_by_hostname_script_and_schema" => &["hostname", "script_name", "schema"],
        "{schema}/{hostname}/{script_name}";
    "report_by_hostname_status_and_schema" => &["hostname", "status", "schema"],
        "{status}:{schema}/{hostname}";
];

/// One request as it counts.
#[derive(Debug, Clone)]
struct Counted {
    keys: BTreeMap<&'static str, String>,
    time_us: u64,
    utime_us: u64,
    stime_us: u64,
    document: u64,
    footprint: u64,
}

impl Counted {
    fn of(packet: &Request) -> Self {
        let cut = |text: &[u8], max: usize| {
            let text = std::str::from_utf8(text).unwrap();
            assert!(text.is_ascii() || text.len() <= max);
            text.chars().take(max).collect::<String>()
        };
        let micros = |seconds: f32| (f64::from(seconds) * 1e6).round_ties_even() as u64;
        Self {
            keys: BTreeMap::from([
                ("hostname", cut(packet.hostname(), 255)),
                ("server_name", cut(packet.server_name(), 255)),
                ("script_name", cut(packet.script_name(), 512)),
                ("schema", cut(packet.schema(), 255)),
                ("status", packet.status().to_string()),
            ]),
            time_us: micros(packet.request_time()),
            utime_us: micros(packet.ru_utime()),
            stime_us: micros(packet.ru_stime()),
            document: packet.document_size().into(),
            footprint: packet.memory_footprint().into(),
        }
    }
}

/// Sums over some requests.
#[derive(Debug, Default, Clone)]
struct Sums {
    count: u64,
    time_us: u64,
    utime_us: u64,
    stime_us: u64,
    document: u64,
    footprint: u64,
    times: Vec<u64>,
}

impl Sums {
    fn add(&mut self, one: &Counted) {
        self.count += 1;
        self.time_us += one.time_us;
        self.utime_us += one.utime_us;
        self.stime_us += one.stime_us;
        self.document += one.document;
        self.footprint += one.footprint;
        self.times.push(one.time_us);
    }

    /// The sample of Pinba's rank for the median, seconds.
    fn median(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        times[(times.len() / 2).max(1) - 1] as f64 / 1e6
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

#[track_caller]
fn assert_close(row: &Json, column: &str, expected: f64) {
    let shown = row[column].as_f64().unwrap_or_else(|| panic!("{column} in {row}"));
    let slack = 1e-9 * expected.abs().max(1e-3);
    assert!((shown - expected).abs() <= slack, "{column}: {shown}, not {expected}, in {row}");
}

/// Packets of real PHP, and two hundred more so that rows are more than one request each.
fn packets() -> Vec<Vec<u8>> {
    let php = corpus_names();
    let php = php.iter().filter(|name| name.starts_with("php-") || *name == "spec-vector");
    let mut packets: Vec<_> = php.map(|name| corpus(name)).collect();
    for number in 0..200_u32 {
        let host = format!("host-{}", number % 3);
        let server = ["a.example", "b.example"][number as usize % 2];
        let mut packet = request(&host, server, &format!("/page-{}", number % 7));
        // Times that are no whole number of microseconds as a float, zeros among them.
        packet.request_time = Some(number as f32 * 0.001_234_567);
        packet.ru_utime = Some(number as f32 * 0.000_3);
        packet.ru_stime = Some(1.0 / (number + 1) as f32);
        packet.document_size = Some(number * 331);
        packet.memory_footprint = Some(number * 4097);
        packet.status = Some([200, 200, 404, 500, 0][number as usize % 5]);
        packet.schema =
            [None, Some(b"https".to_vec()), Some(b"http".to_vec())][number as usize % 3].clone();
        packets.push(packet.encode_to_vec());
    }
    packets
}

/// Sends half of them, lets ten seconds pass, and sends the rest.
fn daemon_with(packets: &[Vec<u8>]) -> Here {
    let (here, clock) = Here::with_manual_clock(&[]);
    let mut sender = Sender::new(&here.site);
    let (first, second) = packets.split_at(packets.len() / 2);
    first.iter().for_each(|packet| sender.send(packet));
    sender.at_rest();
    clock.advance_ms(10_000);
    second.iter().for_each(|packet| sender.send(packet));
    sender.at_rest();
    here
}

#[test]
fn every_base_report_is_a_recount_of_the_packets() {
    let packets = packets();
    let here = daemon_with(&packets);
    let counted: Vec<_> =
        packets.iter().map(|packet| Counted::of(&Request::decode(&**packet).unwrap())).collect();
    let mut all = Sums::default();
    counted.iter().for_each(|one| all.add(one));

    for (name, keys, index) in REPORTS {
        let mut groups: BTreeMap<Vec<String>, Sums> = BTreeMap::new();
        for one in &counted {
            let key = keys.iter().map(|key| one.keys[key].clone()).collect();
            groups.entry(key).or_default().add(one);
        }
        let report = here.site.json(&format!("/api/v1/reports/{name}?limit=0"));
        assert_eq!(report["report"], name);
        assert_eq!(report["window_seconds"], 900);
        assert_eq!(report["covered_seconds"], 10, "{name}");
        assert_eq!(report["total_rows"].as_u64(), Some(groups.len() as u64), "{name}");
        let columns: Vec<_> = FRONT.iter().chain(keys).chain(&BACK).collect();
        for row in report["rows"].as_array().unwrap() {
            let shown: Vec<_> = row.as_object().unwrap().keys().collect();
            assert_eq!(shown, columns, "{name}");
            let texts: Vec<_> = keys.iter().map(|key| text(&row[key])).collect();
            let sums = groups.remove(&texts).unwrap_or_else(|| panic!("{name}: {row}"));
            assert_row(row, &sums, &all);
            let named = keys.iter().zip(&texts);
            let index = named.fold(index.to_owned(), |index, (key, text)| {
                index.replace(&format!("{{{key}}}"), text)
            });
            assert_eq!(row["index_value"], index, "{name}");
        }
        assert!(groups.is_empty(), "{name} lacks {groups:?}");
    }
    assert_info(&here.site.json("/api/v1/info"), &all);
    here.stop();
}

fn text(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Ten seconds are covered.
#[track_caller]
fn assert_row(row: &Json, sums: &Sums, all: &Sums) {
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    assert_eq!(row["req_count"].as_u64(), Some(sums.count), "{row}");
    assert_close(row, "req_per_sec", sums.count as f64 / 10.0);
    for (name, us, all_us) in [
        ("req_time", sums.time_us, all.time_us),
        ("ru_utime", sums.utime_us, all.utime_us),
        ("ru_stime", sums.stime_us, all.stime_us),
    ] {
        assert_close(row, &format!("{name}_total"), us as f64 / 1e6);
        assert_close(row, &format!("{name}_percent"), percent(us, all_us));
        assert_close(row, &format!("{name}_per_sec"), us as f64 / 1e7);
    }
    assert_close(row, "traffic_total", kib(sums.document));
    assert_close(row, "traffic_percent", percent(sums.document, all.document));
    assert_close(row, "traffic_per_sec", kib(sums.document) / 10.0);
    assert_close(row, "memory_footprint_total", kib(sums.footprint));
    assert_close(row, "memory_footprint_percent", percent(sums.footprint, all.footprint));
    assert_median(row, sums);
}

/// Within 1% of the sample at its rank, and within a microsecond where that is less.
#[track_caller]
fn assert_median(row: &Json, sums: &Sums) {
    let (shown, median) = (row["req_time_median"].as_f64().unwrap(), sums.median());
    assert!((shown - median).abs() <= (median * 0.01).max(1e-6), "{median} in {row}");
}

#[track_caller]
fn assert_info(info: &Json, all: &Sums) {
    let columns: Vec<_> = info.as_object().unwrap().keys().collect();
    let expected = [
        "req_count",
        "time_total",
        "ru_utime_total",
        "ru_stime_total",
        "time_interval",
        "kbytes_total",
        "memory_footprint",
        "req_time_median",
    ];
    assert_eq!(columns, expected);
    assert_eq!(info["req_count"].as_u64(), Some(all.count));
    assert_eq!(info["time_interval"], 10);
    assert_close(info, "time_total", all.time_us as f64 / 1e6);
    assert_close(info, "ru_utime_total", all.utime_us as f64 / 1e6);
    assert_close(info, "ru_stime_total", all.stime_us as f64 / 1e6);
    assert_close(info, "kbytes_total", all.document as f64 / 1024.0);
    assert_close(info, "memory_footprint", all.footprint as f64 / 1024.0);
    assert_median(info, all);
}

/// Timer tags, request tags and both Pinba 2 and native forms, over the same packets; hits and
/// seconds are recounted.
#[test]
fn tag_reports_are_a_recount_too_when_made_after_the_packets_came() {
    let packets = packets();
    let here = daemon_with(&packets);
    let mut timers: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    let mut envs: BTreeMap<String, u64> = BTreeMap::new();
    for packet in &packets {
        count_tags(&Request::decode(&**packet).unwrap(), &mut timers, &mut envs);
    }
    assert!(timers.len() > 5 && envs.len() > 1, "{timers:?} {envs:?}");
    for (name, body) in cases![
        "t" => r#"{"name": "t", "comment": "tag_info:group"}"#;
        "v2" => r#"{"name": "v2", "comment": "v2/timer/900/@group/no_percentiles/no_filters"}"#;
        "n" => r#"{"name": "n", "level": "timer", "keys": ["@group"]}"#;
    ] {
        let reply = here.site.post("/api/v1/reports", body);
        assert_eq!(reply.status, 201, "{reply:?}");
        let rows = here.site.rows(name);
        let key = reply.json()["keys"][0].as_str().unwrap().to_owned();
        let seconds = if name != "v2" { "timer_value" } else { "time_total" };
        for row in &rows {
            let (requests, hits, us) = timers[row[&key].as_str().unwrap()];
            assert_eq!(row["req_count"].as_u64(), Some(requests), "{name}: {row}");
            assert_eq!(row["hit_count"].as_u64(), Some(hits), "{name}: {row}");
            assert_close(row, seconds, us as f64 / 1e6);
        }
        assert_eq!(rows.len(), timers.len(), "{name}: {rows:?}");
    }
    let reply = here.site.post("/api/v1/reports", r#"{"name": "e", "comment": "rtag_info:env"}"#);
    assert_eq!(reply.status, 201, "{reply:?}");
    let rows = here.site.rows("e");
    assert_eq!(rows.len(), envs.len(), "{rows:?}");
    for row in &rows {
        let requests = envs[row["tag_value"].as_str().unwrap()];
        assert_eq!(row["req_count"].as_u64(), Some(requests), "{row}");
    }
    here.stop();
}

/// By timer tag `group`: requests, hits, microseconds. By request tag `env`: requests.
fn count_tags(
    packet: &Request,
    timers: &mut BTreeMap<String, (u64, u64, u64)>,
    envs: &mut BTreeMap<String, u64>,
) {
    let word = |at: u32| String::from_utf8_lossy(&packet.dictionary[at as usize]).into_owned();
    let mut seen = Vec::new();
    let mut start = 0;
    for (timer, tags) in packet.timer_tag_count.iter().enumerate() {
        let end = start + *tags as usize;
        let group = (start..end).find(|at| word(packet.timer_tag_name[*at]) == "group");
        start = end;
        let Some(at) = group else { continue };
        let group = word(packet.timer_tag_value[at]);
        let sums = timers.entry(group.clone()).or_default();
        sums.0 += u64::from(!seen.contains(&group));
        sums.1 += u64::from(packet.timer_hit_count[timer]);
        sums.2 += (f64::from(packet.timer_value[timer]) * 1e6).round_ties_even() as u64;
        seen.push(group);
    }
    for (name, value) in packet.tag_name.iter().zip(&packet.tag_value) {
        if word(*name) == "env" {
            *envs.entry(word(*value)).or_default() += 1;
        }
    }
}
