//! `/api/v1/stream/requests`: who follows the requests gets each of them, or is told how many are
//! missing.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pinbad::input::pinba::model::NestedRequest;
use prost::Message as _;
use serde_json::{Value as Json, json};

use crate::harness::{Here, Sender, Site, await_condition};
use crate::packets::{nested, request};

/// The longest silence on an idle connection: a heartbeat comes sooner.
const SILENCE: Duration = Duration::from_secs(60);

/// A client of the stream.
struct Follower(BufReader<Box<dyn std::io::Read + Send>>);

impl Follower {
    /// Connects, and is through once the greeting is there: what is sent afterwards passes it.
    #[track_caller]
    fn new(site: &Site, query: &str) -> Self {
        Self::with(site, query, &[])
    }

    #[track_caller]
    fn with(site: &Site, query: &str, headers: &[(&str, &str)]) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_per_read(Some(SILENCE));
        let url = format!("http://{}/api/v1/stream/requests{query}", site.http);
        let mut ask = config.build().new_agent().get(url);
        for (name, value) in headers {
            ask = ask.header(*name, *value);
        }
        let mut answer = ask.call().unwrap();
        if answer.status() != 200 {
            panic!("{}", answer.body_mut().read_to_string().unwrap());
        }
        let mut follower = Self(BufReader::new(Box::new(answer.into_body().into_reader())));
        let greeting = follower.line().unwrap();
        assert!(["", "retry: 1000"].contains(&&*greeting), "{greeting}");
        follower
    }

    /// The next line; `None` at the end.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let taken = self.0.read_line(&mut line).unwrap();
        (taken > 0).then(|| line.trim_end_matches('\n').to_owned())
    }

    /// The next object, heartbeats passed over.
    #[track_caller]
    fn next(&mut self) -> Option<Json> {
        loop {
            match self.line()? {
                line if line.is_empty() => {}
                line => return Some(serde_json::from_str(&line).unwrap()),
            }
        }
    }

    fn scripts(&mut self, count: usize) -> Vec<String> {
        let name = |row: Json| row["script_name"].as_str().unwrap().to_owned();
        (0..count).map(|_| name(self.next().unwrap())).collect()
    }
}

/// So many requests in few datagrams: each script is that of the number given.
fn send_many(sender: &mut Sender<'_>, script: impl Fn(usize) -> String, count: usize) {
    const TOGETHER: usize = 100;
    for start in (0..count).step_by(TOGETHER) {
        let end = count.min(start + TOGETHER);
        let small = |at: usize| {
            let mut one = nested("h", "s", &script(at));
            one.timer_hit_count.clear();
            one.timer_tag_count.clear();
            one.timer_tag_name.clear();
            one.timer_tag_value.clear();
            one.timer_value.clear();
            one
        };
        let all: Vec<NestedRequest> = (start..end).map(small).collect();
        let mut first =
            pinbad::input::pinba::model::Request::decode(&*all[0].encode_to_vec()).unwrap();
        first.requests = all[1..].to_vec();
        sender.send(&first.encode_to_vec());
    }
}

#[test]
fn rows_are_those_of_the_search_and_come_as_they_pass() {
    let here = Here::start(&[]);
    let site = &here.site;
    let mut sender = Sender::new(site);
    sender.send(&request("h", "s", "/before").encode_to_vec());
    sender.at_rest();
    let mut lines = Follower::new(site, "");
    let mut with_timers = Follower::new(site, "?timers=1&limit=2");
    for script in ["/one", "/two"] {
        sender.send(&request("h", "s", script).encode_to_vec());
    }
    let rows = [lines.next().unwrap(), lines.next().unwrap()];
    let searched = site.json("/api/v1/requests?limit=2");
    assert_eq!(json!([rows[1], rows[0]]), searched["rows"]);
    let searched = site.json("/api/v1/requests?limit=2&timers=1");
    for (row, searched) in rows.iter().zip([&searched["rows"][1], &searched["rows"][0]]) {
        let mut detailed = with_timers.next().unwrap();
        let detail = site.json(&format!("/api/v1/requests/{}", row["id"]));
        assert_eq!(detailed["timers"], detail["timers"]);
        assert_eq!(&detailed, searched);
        detailed.as_object_mut().unwrap().remove("timers");
        assert_eq!(&detailed, row);
    }
    assert_eq!(with_timers.next(), None, "the limit is reached");
    here.stop();
}

#[test]
fn filters_are_those_of_the_search() {
    let here = Here::start(&[]);
    let site = &here.site;
    let mut followers: Vec<(&str, Follower)> = [
        "script_name=/b",
        "hostname=h2&server_name=s",
        "status=500",
        "min_time=0.5&max_time=2",
        "tag.env=prod",
        "schema=https",
        "timers_cnt=0",
        "tags_cnt=2&req_count=7",
    ]
    .map(|query| (query, Follower::new(site, &format!("?{query}"))))
    .into();
    let mut sender = Sender::new(site);
    let mut special = request("h2", "s", "/b");
    special.status = Some(500);
    special.request_time = Some(0.5);
    special.request_count = Some(7);
    special.schema = Some(b"https".to_vec());
    special = {
        let mut bare = special.clone();
        bare.timer_hit_count.clear();
        bare.timer_tag_count.clear();
        bare.timer_tag_name.clear();
        bare.timer_tag_value.clear();
        bare.timer_value.clear();
        bare.tag_name.clear();
        bare.tag_value.clear();
        bare.add_tag("env", "prod");
        bare.add_tag("x", "y");
        bare
    };
    for at in 0..50 {
        sender.send(&request("h", "s", &format!("/a{at}")).encode_to_vec());
        sender.send(&special.encode_to_vec());
    }
    for (query, follower) in &mut followers {
        assert_eq!(follower.scripts(50), vec!["/b"; 50], "{query}");
    }
    here.stop();
}

#[test]
fn events_have_ids_and_go_on_behind_the_last_one() {
    let here = Here::start(&[]);
    let site = &here.site;
    let accept = ("accept", "text/event-stream");
    let mut events = Follower::with(site, "?limit=2", &[accept]);
    let mut sender = Sender::new(site);
    for script in ["/1", "/2", "/3", "/4"] {
        sender.send(&request("h", "s", script).encode_to_vec());
    }
    sender.at_rest();
    let block = |follower: &mut Follower| {
        let lines: Vec<String> =
            std::iter::from_fn(|| follower.line().filter(|it| !it.is_empty())).collect();
        (!lines.is_empty()).then_some(lines)
    };
    assert_eq!(events.line().as_deref(), Some(""), "the greeting's end");
    for id in 1..=2 {
        let lines = block(&mut events).unwrap();
        assert_eq!(lines[0], format!("id: {id}"));
        let row: Json = serde_json::from_str(lines[1].strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!((row["id"].as_u64(), lines.len()), (Some(id), 2));
    }
    assert_eq!(block(&mut events), None);
    let again = [accept, ("last-event-id", "2")];
    let mut events = Follower::with(site, "?limit=1", &again);
    assert_eq!(events.line().as_deref(), Some(""));
    assert_eq!(block(&mut events).unwrap()[0], "id: 3");
    // Ids that there have not been are those of another daemon.
    let mut lines = Follower::new(site, "?after_id=1000");
    sender.send(&request("h", "s", "/5").encode_to_vec());
    assert_eq!(lines.scripts(1), ["/5"]);
    here.stop();
}

#[test]
fn a_sample_is_no_more_than_asked_for() {
    let here = Here::start(&[]);
    let site = &here.site;
    let mut sampled = Follower::new(site, "?rate=4&limit=5");
    let done = AtomicBool::new(false);
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sender = Sender::new(site);
            while !done.load(Ordering::Relaxed) {
                // Several at once: more than the rate, on a slow machine too.
                for _ in 0..8 {
                    sender.send(&request("h", "s", "/a").encode_to_vec());
                }
                sender.settle();
            }
        });
        let rows: Vec<Json> = std::iter::from_fn(|| sampled.next()).collect();
        let took = start.elapsed();
        done.store(true, Ordering::Relaxed);
        assert_eq!(rows.len(), 5);
        assert!(rows.iter().all(|row| row.get("missed").is_none()), "{rows:?}");
        // One at once, four at a quarter of a second each.
        assert!(took > Duration::from_millis(900), "{took:?}");
        let ids: Vec<u64> = rows.iter().map(|row| row["id"].as_u64().unwrap()).collect();
        assert!(ids.windows(2).any(|pair| pair[1] > pair[0] + 1), "nothing was left out: {ids:?}");
    });
    here.stop();
}

#[test]
fn a_reader_that_comes_too_late_is_told_what_it_missed() {
    const COUNT: usize = 100_000;
    let here = Here::start(&["pool.request_pool_size=90000", "ingest.temp_pool_bytes=300MB"]);
    let site = &here.site;
    let mut sender = Sender::new(site);
    send_many(&mut sender, |at| format!("/{}", at % 10), COUNT);
    sender.at_rest();
    // All of them count: what is still in memory lies behind it too far.
    let mut all = Follower::new(site, "?after_id=0");
    let told = all.next().unwrap();
    let first = all.next().unwrap();
    assert_eq!(told, json!({"missed": first["id"].as_u64().unwrap() - 1}));
    // Of those in memory one in ten matches; those that are gone count all.
    let mut some = Follower::new(site, "?after_id=0&script_name=/3");
    let missed = some.next().unwrap()["missed"].as_u64().unwrap();
    let first = some.next().unwrap()["id"].as_u64().unwrap();
    let gone = COUNT as u64 - 90_000;
    let matching = (gone + 1..first).filter(|id| (id - 1) % 10 == 3).count() as u64;
    assert_eq!(missed, gone + matching, "the first that was seen is {first}");
    here.stop();
}

#[test]
fn a_slow_reader_misses_some_and_nobody_else_does() {
    const COUNT: usize = 96_000;
    let here = Here::start(&["ingest.temp_pool_bytes=300MB"]);
    let site = &here.site;
    let mut markers = Follower::new(site, "?script_name=/marker");
    // Reads its head, and then nothing for a while: the kernel's buffers and two pieces are all
    // that waits for it.
    let mut slow = Follower::new(site, "?hostname=h");
    let mut sender = Sender::new(site);
    let long = "x".repeat(250);
    for part in 0..16 {
        send_many(&mut sender, |at| format!("/{part}/{at}/{long}"), COUNT / 16);
        sender.send(&request("other", "s", "/marker").encode_to_vec());
    }
    sender.send(&request("h", "s", "/last").encode_to_vec());
    let status = sender.at_rest();
    assert_eq!(status.count("requests_merged"), COUNT as u64 + 17);
    assert_eq!(markers.scripts(16), vec!["/marker"; 16]);

    let (mut at, mut rows, mut missed, mut pending) = (0, 0_u64, 0, 0);
    loop {
        let row = slow.next().unwrap();
        if let Some(more) = row["missed"].as_u64() {
            pending += more;
            continue;
        }
        let id = row["id"].as_u64().unwrap();
        let markers_between = (at + 1..id).filter(|id| id % 6_001 == 0).count() as u64;
        assert_eq!(id - at - 1, pending + markers_between, "between {at} and {id}");
        at = id;
        rows += 1;
        missed += std::mem::take(&mut pending);
        if row["script_name"] == "/last" {
            break;
        }
    }
    assert!(missed > 0, "it was not slow enough");
    assert_eq!(rows + missed, COUNT as u64 + 1);
    here.stop();
}

#[test]
fn places_are_bounded_and_given_back() {
    let here = Here::start(&[]);
    let site = &here.site;
    let mut followers: Vec<Follower> = (0..16).map(|_| Follower::new(site, "")).collect();
    let refused = site.get("/api/v1/stream/requests");
    assert!(refused.problem(503).contains("too many"), "{refused:?}");
    // Others are answered as before, and HEAD takes no place for good.
    site.json("/api/v1/info");
    followers.pop();
    await_condition("a place is free again", || {
        let mut stream = TcpStream::connect(site.http).unwrap();
        let head =
            "HEAD /api/v1/stream/requests HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(answer) }
    });
    here.stop();
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let here = Here::start(&["pool.request_pool_size=0"]);
    let refused = here.site.get("/api/v1/stream/requests");
    assert_has!(refused.problem(404) => "request_pool_size");
    let refused = here.site.get("/api/v1/stream/requests?since=1");
    assert_has!(refused.problem(400) => "GET /api/v1/requests");
    here.stop();
}

#[test]
fn silence_is_broken_and_a_stop_ends_the_stream_properly() {
    let here = Here::start(&[]);
    let mut follower = Follower::new(&here.site, "");
    assert_eq!(follower.line().as_deref(), Some(""), "a heartbeat");
    let start = Instant::now();
    here.stop();
    assert!(start.elapsed() < SILENCE, "{:?}", start.elapsed());
    // An end in the middle of the chunks would be an error.
    assert_eq!(follower.line(), None);
}
