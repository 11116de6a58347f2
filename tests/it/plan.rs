//! The memory that `check` promises, against the real daemon with everything full.
//!
//! Each packet brings names that were never there: pools, words, tag sets, origins and reports fill
//! to their limits, the merger comes so rarely that the temporary pool fills, the largest datagrams
//! go through the receive buffers, and readers take their time over the largest report. A release
//! build has the default sizes; in a debug build they are smaller, and what is only there in the
//! worst case is a larger part of the whole.

use std::io::{Read, Write};
use std::net::TcpStream;

use pinbad::config::{Config, ConfigFlags};
use pinbad::daemon::memory_plan::MemoryPlan;
use pinbad::input::pinba::model;
use pinbad::query::catalog::READINGS_BYTES_MAX;
use prost::Message as _;

use crate::harness::{Program, Sender, Site, Status};

const DEBUG: bool = cfg!(debug_assertions);
const SETTINGS: &[&str] = if DEBUG {
    &[
        "ingest.temp_pool_size=16384",
        "ingest.stats_gathering_period=1s",
        "pool.request_pool_size=150000",
        "pool.timer_pool_size=600000",
        "pool.words_memory=24MiB",
        "reports.memory=48MiB",
        "reports.rows_max=10000",
        "pool.stats_history=1h",
    ]
} else {
    &["pool.timer_pool_size=4000000", "ingest.stats_gathering_period=3s", "pool.stats_history=1h"]
};
/// Rows that left a full pool by the time that everything else is full too.
const EVICTED: u64 = if DEBUG { 75_000 } else { 500_000 };
/// Tag sets that are alive: a little less than there is room for.
const TAG_SETS: u64 = if DEBUG { 190_000 } else { 500_000 };
/// Packets sent at most until then; what the temporary pool had no room for has to be sent on top.
const PACKETS_MAX: u64 = if DEBUG { 600_000 } else { 5_000_000 };
/// Answers that a test can hold still: those that are being sent. The plan has two more, which are
/// being put together.
const READERS: usize = 4;
/// How much of the plan must be resident, and that nothing is beyond it.
const WITHIN: std::ops::RangeInclusive<f64> = if DEBUG { 0.8..=1.0 } else { 0.9..=1.0 };

/// A packet of its own: a new host, script and status, and four timers with tag sets that are as
/// old as possible.
fn packet(number: u64) -> Vec<u8> {
    // StringInterner of 64 bytes, which is what a word may have on average.
    let word =
        |kind: &str, number: u64| format!("{kind}{number:0>width$}", width = 64 - kind.len());
    let mut request =
        model::Request::named(word("host", number), word("server", 0), word("script", number));
    // Numbers are keys too, and are no words.
    request.status = Some(number as u32);
    request.request_time = Some(0.001 * (number % 1000) as f32);
    for timer in 0..4 {
        let set = (number * 4 + timer) % TAG_SETS;
        let tags: Vec<(String, String)> =
            [("a", set % 1000), ("b", set / 1000), ("c", 0), ("d", 0)]
                .map(|(name, value)| (name.to_owned(), word(name, value)))
                .to_vec();
        let tags: Vec<_> = tags.iter().map(|(name, value)| (&**name, &**value)).collect();
        request.add_timer(1, 0.0001, &tags);
    }
    request.encode_to_vec()
}

/// A reader that asks for the largest report and takes only the first bytes of it.
fn slow_reader(site: &Site) -> TcpStream {
    let mut stream = TcpStream::connect(site.http).unwrap();
    let report = "report_by_hostname_server_and_script";
    let ask = format!("GET /api/v1/reports/{report}?limit=0 HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(ask.as_bytes()).unwrap();
    let mut first = [0; 64];
    stream.read_exact(&mut first).unwrap();
    assert!(first.starts_with(b"HTTP/1.1 200"), "{first:?}");
    stream
}

#[test]
fn what_is_resident_with_everything_full_is_the_plan() {
    let mut settings = vec![
        "ingest.listen=127.0.0.1:0",
        "ingest.receivers=1",
        "http.listen=127.0.0.1:0",
        "mysql.listen=",
        // What nobody uses here is in the plan all the same.
        "series.memory=0",
        "metrics.series_max=100",
        "mysql.listen=",
        "sql.memory=16MiB",
        "sql.queries_max=1",
        r#"report=[{name = "by_tags", comment = "tag2_info:a,b"}]"#,
    ];
    settings.extend(SETTINGS);
    let flags = ConfigFlags {
        set: settings.iter().map(|&setting| setting.to_owned()).collect(),
        ..ConfigFlags::default()
    };
    let plan = MemoryPlan::of(&Config::load(&flags, []).unwrap());

    let program = Program::serve(&settings);
    let mut sender = Sender::new(&program.site);
    let largest = vec![0; 65_507];
    for _ in 0..3 {
        // Batches of the largest datagrams; what is in them does not matter.
        for _ in 0..300 {
            sender.send(&largest);
        }
        sender.settle();
    }
    let mut number = 0;
    let full = |status: Status| {
        status.count("rows_evicted") >= EVICTED
            && status.count("report_keys_folded") > 0
            && status.count("words_overflowed") > 0
    };
    while !full(program.site.status()) {
        assert!(number < PACKETS_MAX, "the pool does not fill");
        for _ in 0..10_000 {
            sender.send(&packet(number));
            number += 1;
        }
    }
    let mut readers = Vec::new();
    for _ in 0..READERS {
        // Each sees a report of its own.
        sender.send(&packet(number));
        number += 1;
        sender.at_rest();
        readers.push(slow_reader(&program.site));
    }
    let status = sender.at_rest();
    let resident = program.resident_bytes();
    let answers = plan.lines.iter().find(|line| line.name == "answers");
    // The last reading that is kept is the one that the last reader has.
    let kept = READINGS_BYTES_MAX as u64;
    let answers = answers.unwrap().bytes - kept;
    // Nobody looks at a page here, asks in SQL, annotates or names a release.
    let unused = ["pages", "SQL", "annotations", "releases"];
    let unused = plan.lines.iter().filter(|line| unused.contains(&line.name));
    let unused: u64 = unused.map(|line| line.bytes).sum();
    let planned = plan.total_bytes() - answers * 2 / (READERS as u64 + 2) - kept - unused;
    let ratio = resident as f64 / planned as f64;
    // Worth seeing even when it is right.
    writeln!(std::io::stderr(), "{resident} bytes resident, {planned} planned: {ratio:.3}")
        .unwrap();
    assert!(
        WITHIN.contains(&ratio),
        "{resident} bytes resident, {planned} planned: {ratio:.3}\n{plan}\n{status:?}"
    );
}
