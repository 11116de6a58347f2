//! Packets that mean harm: names without end, from sources without end; the largest there can be,
//! of every shape; numbers that are none. Whatever comes, the daemon stays within the memory that
//! it planned at its start, loses nothing, and counts a script that has nothing to do with it
//! exactly.
//!
//! `PINBAD_TEST_NAMES` says how many names (default: some ten thousand; ten million take some
//! minutes), and `PINBAD_TEST_PROGRAM` which program, for a run at full size with one that was
//! built for use.

use std::io::Write as _;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use pinbad::config::{Config, ConfigFlags};
use pinbad::daemon::memory_plan::MemoryPlan;
use pinbad::input::pinba::model::{NestedRequest, Request};
use prost::Message as _;
use serde_json::Value as Json;

use crate::harness::{Program, Sender, Status};
use crate::packets::DATAGRAM_BYTES_MAX;

/// Small, so that little of it is needed to go beyond, were there nothing that stops it.
const SETTINGS: [&str; 19] = [
    "ingest.listen=127.0.0.1:0",
    "ingest.receivers=1",
    "ingest.recv_buffer=4MB",
    "ingest.temp_pool_size=16384",
    "ingest.temp_pool_bytes=8MiB",
    "ingest.count_sources=true",
    "http.listen=127.0.0.1:0",
    "mysql.listen=",
    "sql.memory=16MiB",
    "sql.queries_max=1",
    "pool.request_pool_size=20000",
    "pool.timer_pool_size=40000",
    "pool.words_memory=8MiB",
    "pool.stats_history=1h",
    "reports.memory=4MiB",
    "reports.rows_max=2000",
    "series.memory=8MiB",
    "metrics.series_max=100",
    r#"report=[{name = "by_group", level = "timer", keys = ["@group"]}, {name = "by_env", level = "request", keys = ["+env"]}]"#,
];

/// A daemon that is sent what does harm, and a script beside it that has to be counted.
struct Victim {
    program: Program,
    planned: u64,
    /// How often the script was sent.
    well: u64,
    /// Requests that are to be merged in all.
    requests: u64,
}

impl Victim {
    fn start() -> Self {
        Self::start_with(&SETTINGS)
    }

    fn start_with(settings: &[&str]) -> Self {
        let flags = ConfigFlags {
            set: settings.iter().map(|&setting| setting.to_owned()).collect(),
            ..ConfigFlags::default()
        };
        let plan = MemoryPlan::of(&Config::load(&flags, []).unwrap());
        // Nobody looks at a page here, or asks in SQL: what those would take is not to hide what
        // should not be there.
        let unused =
            plan.lines.iter().filter(|line| ["pages", "SQL", "MySQL clients"].contains(&line.name));
        let unused: u64 = unused.map(|line| line.bytes).sum();
        Self {
            program: Program::serve(settings),
            planned: plan.total_bytes() - unused,
            well: 0,
            requests: 0,
        }
    }

    /// Sends the script that does no harm.
    fn send_well(&mut self, sender: &mut Sender<'_>) {
        let mut request = Request::named("well", "well", "/well");
        request.request_time = Some(0.125);
        request.add_tag("env", "well");
        request.add_timer(2, 0.25, &[("group", "well")]);
        sender.send(&request.encode_to_vec());
        self.well += 1;
        self.requests += 1;
    }

    /// Nothing is lost, nothing is beyond the plan, and the script is counted to the last request.
    fn assert_unharmed(&self, sender: &Sender<'_>) -> Status {
        let status = sender.at_rest();
        status.assert_accounted();
        assert_eq!(status.count("requests_merged"), self.requests, "{status:?}");
        assert_eq!(status.count("requests_overwritten"), 0, "{status:?}");
        let site = &self.program.site;
        let row = |report: &str, key: &str, value: &str| -> Json {
            let answer = site.json(&format!("/api/v1/reports/{report}?{key}={value}"));
            answer["rows"][0].clone()
        };
        for (report, key, value) in cases![
            "report_by_script_name" => "script_name", "/well";
            "report_by_hostname" => "hostname", "well";
            "report_by_hostname_server_and_script" => "script_name", "/well";
        ] {
            let row = row(report, key, value);
            assert_eq!(row["req_count"], self.well, "{report}: {row}");
            let seconds = self.well as f64 / 8.0;
            assert_eq!(row["req_time_total"].as_f64(), Some(seconds), "{report}");
        }
        let of_tag = row("by_group", "timer_group", "well");
        assert_eq!(of_tag["hit_count"], 2 * self.well, "{of_tag}");
        let of_tag = row("by_env", "tag_env", "well");
        assert_eq!(of_tag["req_count"], self.well, "{of_tag}");
        assert_eq!(site.json("/api/v1/info")["req_count"], self.requests);
        let resident = self.program.resident_bytes();
        // Worth seeing even when it is right.
        let (planned, requests) = (self.planned, self.requests);
        writeln!(
            std::io::stderr().lock(),
            "{resident} bytes resident, {planned} planned, {requests} requests"
        )
        .unwrap();
        assert!(
            resident <= self.planned,
            "{resident} bytes resident, {} planned: {status:?}",
            self.planned
        );
        status
    }
}

fn names() -> u64 {
    let given = std::env::var("PINBAD_TEST_NAMES").ok();
    let default = if cfg!(debug_assertions) { 40_000 } else { 400_000 };
    given.map_or(default, |count| count.parse().unwrap())
}

/// Everything in it has never been there: host, server, script, schema, status, tags of the request
/// and of its timer.
fn new_in_all(number: u64) -> Vec<u8> {
    let word = |kind: &str| format!("{kind}-{number:0>200}");
    let mut request = Request::named(word("host"), word("server"), format!("/{}", word("script")));
    request.schema = Some(word("schema").into_bytes());
    request.status = Some(number as u32);
    request.request_time = Some(0.5);
    request.add_tag("env", word("env"));
    request.add_tag(word("name"), "value");
    request.add_timer(1, 0.25, &[("group", &*word("group")), (&*word("tag"), "x")]);
    request.encode_to_vec()
}

#[test]
fn names_without_end_from_sources_without_end() {
    let mut victim = Victim::start();
    let site = victim.program.site.clone();
    let mut sender = Sender::new(&site);
    victim.send_well(&mut sender);
    for number in 0..names() {
        let datagram = new_in_all(number);
        if number % 4 == 0 {
            // An address that nobody has seen, out of more than there are rows for.
            let [_, a, b, c] = (number as u32 / 4 % 20_000 + 2).to_be_bytes();
            let stranger = UdpSocket::bind((Ipv4Addr::new(127, a, b, c), 0)).unwrap();
            sender.send_through(&stranger, &datagram);
        } else {
            sender.send(&datagram);
        }
        victim.requests += 1;
        if number % 20 == 0 {
            victim.send_well(&mut sender);
        }
        if number % 2_000 == 0 {
            // No faster than the merger: what gives way then is another test's matter.
            sender.at_rest();
        }
    }
    let status = victim.assert_unharmed(&sender);
    for counter in ["words_overflowed", "report_keys_folded", "rows_evicted"] {
        assert!(status.count(counter) > 0, "{counter}: {status:?}");
    }
    let memory = status.count("report_memory_bytes");
    assert!(memory <= status.count("report_memory_bytes_max"), "{status:?}");
    // Senders: each of those that have a row, and all others together.
    let sources = site.json("/api/v1/sources?limit=0");
    let rows = sources["sources"].as_array().unwrap();
    assert!(rows.len() <= 4096, "{}", rows.len());
    let rows = rows.iter().chain([&sources["other"]]);
    let datagrams = rows.map(|row| row["datagrams"].as_u64().unwrap());
    assert_eq!(datagrams.sum::<u64>(), sender.total());
    let other = sources["other"]["datagrams"].as_u64().unwrap();
    assert!(other > 0, "there were more sources than rows");
}

#[test]
fn names_that_recur_in_every_tick() {
    // Ticks of a second, and none leaves the window before all is sent.
    let settings = SETTINGS.map(|setting| match setting {
        "pool.stats_history=1h" => "pool.stats_history=2m",
        other => other,
    });
    let mut victim = Victim::start_with(&settings);
    let site = victim.program.site.clone();
    let mut sender = Sender::new(&site);
    let began = Instant::now();
    let mut most = 0;
    while began.elapsed() < Duration::from_secs(25) {
        let round = Instant::now();
        for number in 0..1_500 {
            if number % 20 == 0 {
                victim.send_well(&mut sender);
            }
            sender.send(&new_in_all(number));
            victim.requests += 1;
        }
        let status = sender.at_rest();
        most = most.max(status.count("report_memory_bytes"));
        // Once in every tick is what hurts.
        std::thread::sleep(Duration::from_secs(1).saturating_sub(round.elapsed()));
    }
    let status = victim.assert_unharmed(&sender);
    assert!(status.count("report_keys_folded") > 0, "{status:?}");
    let limit = status.count("report_memory_bytes_max");
    assert!(most <= limit, "{most} of {limit}");
    for (report, column) in [
        ("report_by_script_name", "req_count"),
        ("report_by_hostname", "req_count"),
        ("by_env", "req_count"),
    ] {
        let answer = site.json(&format!("/api/v1/reports/{report}?limit=0"));
        let rows = answer["rows"].as_array().unwrap();
        let sum: u64 = rows.iter().map(|row| row[column].as_u64().unwrap()).sum();
        assert_eq!(sum, victim.requests, "{report}");
    }
}

/// One request with the tags given, none of which has been there.
fn with_tags(number: u64, request_tags: usize, timers: usize, tags: usize) -> Vec<u8> {
    let mut request = Request::named("h", "s", "/large");
    // Not looked for in the dictionary: each is new.
    let word = |request: &mut Request| {
        let place = request.dictionary.len() as u32;
        request.dictionary.push(format!("{number:x}.{place:x}").into_bytes());
        place
    };
    for _ in 0..request_tags {
        let (name, value) = (word(&mut request), word(&mut request));
        request.tag_name.push(name);
        request.tag_value.push(value);
    }
    for _ in 0..timers {
        request.timer_hit_count.push(1);
        request.timer_value.push(0.5);
        request.timer_tag_count.push(tags as u32);
        for _ in 0..tags {
            let (name, value) = (word(&mut request), word(&mut request));
            request.timer_tag_name.push(name);
            request.timer_tag_value.push(value);
        }
    }
    fits(request.encode_to_vec())
}

/// One request whose only timer has so many tags, of two words.
fn with_the_same_tags(tags: usize) -> Vec<u8> {
    let mut request = Request::named("h", "s", "/same");
    let (name, value) = (request.word("n"), request.word("v"));
    request.timer_hit_count.push(1);
    request.timer_value.push(0.5);
    request.timer_tag_count.push(tags as u32);
    request.timer_tag_name = vec![name; tags];
    request.timer_tag_value = vec![value; tags];
    fits(request.encode_to_vec())
}

/// A request with so many others in it, each with a script of its own.
fn with_requests(number: u64, count: usize) -> Vec<u8> {
    let mut request = Request::named("h", "s", "/outer");
    for nested in 0..count {
        let inner = Request::named("h", "s", format!("/in/{number:x}/{nested:x}"));
        let inner = NestedRequest::decode(&*inner.encode_to_vec()).unwrap();
        request.requests.push(inner);
    }
    fits(request.encode_to_vec())
}

#[track_caller]
fn fits(datagram: Vec<u8>) -> Vec<u8> {
    let bytes = datagram.len();
    assert!((45_000..=DATAGRAM_BYTES_MAX).contains(&bytes), "{bytes}");
    datagram
}

#[test]
fn the_largest_packets_of_every_shape() {
    let mut victim = Victim::start();
    let site = victim.program.site.clone();
    let mut sender = Sender::new(&site);
    // What lies deeper than one level is not read, and costs nothing but its bytes.
    let mut deep = Request::named("h", "s", "/deep").encode_to_vec();
    while deep.len() < 60_000 {
        let mut outer = Request::named("h", "s", "/deep").encode_to_vec();
        prost::encoding::encode_key(18, prost::encoding::WireType::LengthDelimited, &mut outer);
        prost::encoding::encode_varint(deep.len() as u64, &mut outer);
        outer.extend_from_slice(&deep);
        deep = outer;
    }
    let packets = if cfg!(debug_assertions) { 60 } else { 2_000 };
    for number in 0..packets {
        victim.send_well(&mut sender);
        for (datagram, requests) in [
            (with_tags(number, 0, 1, 2_300), 1),
            (with_tags(number, 2_300, 0, 0), 1),
            (with_tags(number, 0, 1_100, 2), 1),
            (with_the_same_tags(15_000), 1),
            (with_requests(number, 1_300), 1_301),
        ] {
            sender.send(&datagram);
            victim.requests += requests;
        }
        sender.send(&deep);
        victim.requests += 2;
        if number % 4 == 0 {
            // No faster than the merger: what gives way then is another test's matter.
            sender.at_rest();
        }
    }
    let status = victim.assert_unharmed(&sender);
    assert!(status.count("words_overflowed") > 0, "{status:?}");
    let row = |script: &str| {
        let report = "report_by_script_name";
        site.json(&format!("/api/v1/reports/{report}?script_name={script}"))["rows"][0].clone()
    };
    assert_eq!(row("/large")["req_count"], 3 * packets);
    assert_eq!(row("/same")["req_count"], packets);
    assert_eq!(row("/outer")["req_count"], packets);
    assert_eq!(row("/deep")["req_count"], 2 * packets);
}

/// Two long words, named again and again: what is a few bytes in a packet and in the pool is not
/// megabytes in each answer.
#[test]
fn the_same_long_words_again_and_again() {
    let mut victim = Victim::start();
    let site = victim.program.site.clone();
    let mut sender = Sender::new(&site);
    victim.send_well(&mut sender);
    let mut request = Request::named("h", "s", "/again");
    let (name, value) = (request.word("n".repeat(255)), request.word("v".repeat(255)));
    request.tag_name = vec![name; 8_000];
    request.tag_value = vec![value; 8_000];
    let datagram = request.encode_to_vec();
    let packets = 300;
    for number in 0..packets {
        sender.send(&datagram);
        victim.requests += 1;
        if number % 50 == 0 {
            sender.at_rest();
        }
    }
    victim.assert_unharmed(&sender);
    let (mut seen, mut pages, mut before) = (0, 0, String::new());
    loop {
        let page = site.json(&format!("/api/v1/requests?limit=100000{before}"));
        for row in page["rows"].as_array().unwrap() {
            assert!(row["tags"].as_str().unwrap().len() < 66_000);
            seen += 1;
        }
        pages += 1;
        match &page["next_before_id"] {
            Json::Null => break,
            id => before = format!("&before_id={id}"),
        }
    }
    assert_eq!(seen, victim.requests);
    assert!(pages > 1, "a page of 20 MB of tags");
    victim.assert_unharmed(&sender);
    #[cfg(feature = "sql")]
    {
        let ask = |query: &str| site.sql(query)[0].clone();
        let kept = 65_535 / (2 * 255);
        let of_requests = "SELECT count(*), max(tags_cnt) FROM request WHERE tags LIKE '%v,n%'";
        assert_eq!(ask(of_requests), serde_json::json!([packets, kept]));
        let of_tags = "SELECT count(*) FROM request_tag";
        assert_eq!(ask(of_tags), serde_json::json!([packets * kept + 1]));
    }
}

/// Equal as far as a FLOAT of Pinba's says.
fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= b.abs() * 1e-6
}

#[test]
fn numbers_that_are_none() {
    let mut victim = Victim::start();
    let site = victim.program.site.clone();
    let mut sender = Sender::new(&site);
    let subnormal = f32::from_bits(1);
    let odd = [
        f32::NAN,
        -f32::NAN,
        f32::from_bits(0x7f80_0001),
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MAX,
        f32::MIN,
        -1.0,
        -0.0,
        -subnormal,
        subnormal,
        f32::MIN_POSITIVE / 2.0,
        2_147_483_648.0,
    ];
    // The largest that counts as a time, and one in between.
    let even = [2_147_483_520.0_f32, 0.25];
    let rounds = 5_u64;
    for _ in 0..rounds {
        for number in odd.iter().chain(&even) {
            for place in 0..4 {
                let mut request = Request::named("h", "s", "/odd");
                let at = |own: usize| if own == place { *number } else { 0.0 };
                request.request_time = Some(at(0));
                request.ru_utime = Some(at(1));
                request.ru_stime = Some(at(2));
                request.document_size = Some(u32::MAX);
                request.memory_peak = Some(u32::MAX);
                request.memory_footprint = Some(u32::MAX);
                request.add_timer(u32::MAX, at(3), &[("group", "odd")]);
                request.timer_ru_utime.push(*number);
                request.timer_ru_stime.push(*number);
                sender.send(&request.encode_to_vec());
                victim.requests += 1;
            }
            victim.send_well(&mut sender);
        }
    }
    victim.assert_unharmed(&sender);
    let answer = site.json("/api/v1/reports/report_by_script_name?script_name=/odd");
    let row = &answer["rows"][0];
    let expected = rounds as f64 * even.iter().map(|number| f64::from(*number)).sum::<f64>();
    for column in ["req_time_total", "ru_utime_total", "ru_stime_total"] {
        let seconds = row[column].as_f64().unwrap();
        assert!(is_near(seconds, expected), "{column}: {seconds} {expected}");
    }
    let count = rounds * 4 * (odd.len() + even.len()) as u64;
    assert_eq!(row["req_count"], count);
    let timers = site.json("/api/v1/reports/by_group?timer_group=odd");
    let timers = &timers["rows"][0];
    assert_eq!(timers["hit_count"], count * u64::from(u32::MAX));
    let seconds = timers["timer_value"].as_f64().unwrap();
    assert!(is_near(seconds, expected), "{seconds} {expected}");
}
