//! When spans leave, and how the remaining ones are counted.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use crate::limits::SPANS_WAITING_BYTES_MAX;

const PHP: &str = r#"{"telemetry.sdk.language": "php"}"#;

fn php() -> Json {
    serde_json::from_str(PHP).unwrap()
}

fn server(trace: u64, id: u64, parent: u64) -> Json {
    span(trace, (id, parent), 2, (0, 100), json!({"name": "GET /x"}))
}

fn query(trace: u64, id: u64, parent: u64) -> Json {
    span(trace, (id, parent), 3, (1, 10), json!({"db.system": "mysql", "db.operation": "SELECT"}))
}

#[test]
fn what_php_sends_leaves_with_its_last_body() {
    let mut world = World::new("");
    world.take(php(), json!([query(1, 2, 1), query(1, 3, 1)]));
    assert_eq!(world.requests(), []);
    assert_eq!(world.counters.spans_waiting.get(), 2);
    world.take(php(), json!([query(1, 4, 1), server(1, 1, 0)]));
    assert_eq!(world.requests()[0].timers.len(), 3);
    assert_eq!(world.counters.spans_waiting.get(), 0);
    // Other SDKs may send the spans below before or after the root.
    world.take(json!({}), json!([server(2, 1, 0), query(2, 2, 1)]));
    world.pass(5_999);
    assert_eq!(world.requests().len(), 1);
    world.take(json!({}), json!([query(2, 3, 1)]));
    world.pass(1);
    assert_eq!(world.requests()[1].timers.len(), 2);
}

#[test]
fn what_comes_late_twice_or_without_its_request_is_counted() {
    let mut world = World::new("");
    world.take(json!({}), json!([server(1, 1, 0), query(1, 2, 1), query(1, 2, 1)]));
    world.pass(6_000);
    assert_eq!(world.left_out(LeftOut::Duplicate), 1);
    world.take(json!({}), json!([server(1, 1, 0), query(1, 3, 1), query(2, 3, 1)]));
    assert_eq!(world.left_out(LeftOut::Duplicate), 2);
    world.pass(59_999);
    assert_eq!(world.left_out(LeftOut::LateChild), 0);
    world.pass(1);
    assert_eq!(world.left_out(LeftOut::LateChild), 1);
    assert_eq!(world.left_out(LeftOut::NoRequest), 1);
    // It waits as long as more spans arrive, but only up to a limit.
    for minute in 0..62 {
        world.take(json!({}), json!([query(3, 10 + minute, 1)]));
        world.pass(59_000);
    }
    assert!(world.left_out(LeftOut::NoRequest) > 60);
    world.finish();
    assert_eq!(world.requests().len(), 1);
}

#[test]
fn who_has_lost_its_parent_goes_with_the_only_request() {
    let mut world = World::new("");
    world.take(php(), json!([query(1, 2, 77), query(1, 3, 2), server(1, 1, 0)]));
    // The span below the first is of the same class.
    assert_eq!(world.requests()[0].timers.len(), 1);
    assert_eq!(world.left_out(LeftOut::Nested), 1);
    assert_eq!(world.counters.spans_parent_guessed.get(), 2);
    world.take(php(), json!([query(2, 2, 77), server(2, 1, 0), server(2, 5, 0), query(2, 6, 5)]));
    assert_eq!(world.left_out(LeftOut::Orphan), 1);
    assert_eq!(world.requests().iter().map(|it| it.timers.len()).collect::<Vec<_>>(), [1, 0, 1]);
    // A cycle has no parent either.
    world.take(php(), json!([query(3, 2, 3), query(3, 3, 2), query(3, 4, 4), server(3, 1, 0)]));
    assert_eq!(world.counters.spans_parent_guessed.get(), 5);
}

#[test]
fn requests_are_what_answers_somebody_elsewhere() {
    let remote = |mut span: Json| {
        span["flags"] = json!(0x301);
        span
    };
    let silent = |mut span: Json| {
        span["flags"] = json!(1);
        span
    };
    for (spans, requests, left_out) in cases![
        json!([remote(server(1, 1, 99))]) => 1, None;
        json!([silent(server(1, 1, 99))]) => 1, None;
        json!([silent(server(1, 1, 2)), server(1, 2, 0)]) => 1, Some((LeftOut::Internal, 1));
        // Inside another request, or claiming to be.
        json!([server(1, 1, 2), server(1, 2, 0)]) => 1, Some((LeftOut::Internal, 1));
        json!([server(1, 1, 99)]) => 0, Some((LeftOut::NoRequest, 1));
        json!([span(1, (1, 0), 1, (0, 9), json!({}))]) => 1, None;
        json!([span(1, (1, 0), 5, (0, 9), json!({"name": "process jobs"}))]) => 1, None;
        json!([span(1, (1, 0), 5, (0, 9), json!({"name": "receive jobs"})), query(1, 2, 1)]) => 0,
            Some((LeftOut::Receive, 2));
        json!([span(1, (1, 0), 5, (0, 9), json!({"messaging.operation": "receive"}))]) => 0,
            Some((LeftOut::Receive, 1));
        json!([query(1, 1, 0), span(1, (2, 1), 3, (0, 1), json!({}))]) => 0,
            Some((LeftOut::ClientRoot, 2));
        json!([span(1, (1, 0), 4, (0, 9), json!({}))]) => 0, Some((LeftOut::ProducerRoot, 1));
    ] {
        let mut world = World::new("");
        world.take(json!({}), spans.clone());
        world.pass(60_000);
        assert_eq!(world.requests().len(), requests, "{spans}");
        assert_eq!(world.counters.spans_waiting.get(), 0, "{spans}");
        if let Some((reason, count)) = left_out {
            assert_eq!(world.left_out(reason), count, "{spans}");
        }
    }
}

#[test]
fn resources_and_traces_do_not_mix() {
    let mut world = World::new("");
    let of = |pid: u64| json!({"telemetry.sdk.language": "php", "process.pid": pid});
    world.take(of(1), json!([query(1, 2, 1)]));
    world.take(of(2), json!([query(1, 3, 1), server(1, 1, 0)]));
    assert_eq!(world.requests()[0].timers.len(), 1);
    world.take(of(1), json!([server(1, 5, 0)]));
    assert_eq!(world.requests()[1].timers.len(), 1, "guessed");
}

#[test]
fn the_oldest_traces_give_way() {
    let mut world = World::new("");
    let long = json!({"name": "x".repeat(4_000)});
    world.take(json!({}), json!([server(1, 1, 0), query(1, 2, 1), query(2, 1, 9)]));
    for number in 0..400 {
        let spans = (1..=50).map(|id| span(10 + number, (id, 99), 3, (0, 1), long.clone()));
        world.take(json!({}), spans.collect());
        assert!(world.counters.waiting_bytes.get() <= SPANS_WAITING_BYTES_MAX as u64);
    }
    assert_eq!(world.requests()[0].timers.len(), 1, "a request is not lost so");
    let pushed_out = world.left_out(LeftOut::PushedOut);
    assert!(pushed_out > 1 && pushed_out % 50 == 1, "{pushed_out}");
    world.finish();
}

/// A trace as a tree: requests with children down to some depth, in several resources.
fn some_trace(dice: &mut StdRng, trace: u64) -> Vec<(u64, Json)> {
    let mut spans = Vec::new();
    for resource in 0..dice.random_range(1..4) {
        let base = resource * 1_000;
        let mut root = span(trace, (base + 1, 0), 2, (0, 10_000), json!({"name": "GET /n"}));
        if resource > 0 {
            root["parentSpanId"] = json!(format!("{:016x}", 2));
            root["flags"] = json!(0x301);
        }
        spans.push((resource, root));
        for id in 2..dice.random_range(2..30) {
            let parent = base + dice.random_range(1..id);
            let (kind, of) = [
                (3, json!({"db.system": "mysql", "db.operation": "SELECT"})),
                (3, json!({"http.method": "GET", "server.address": "api"})),
                (1, json!({"name": "work"})),
                (4, json!({"messaging.system": "redis", "name": "push"})),
            ][dice.random_range(0..4)]
            .clone();
            let times = (dice.random_range(0..5_000), dice.random_range(0..5_000));
            spans.push((resource, span(trace, (base + id, parent), kind, times, of)));
        }
    }
    spans
}

/// Time of a request, hits and time of its timers by tags.
type Joined = (u64, BTreeMap<String, (u32, u64)>);

/// Joins all of these spans naively: each request by trace and resource, with its timers.
fn naive(spans: &[(u64, Json)]) -> Vec<Joined> {
    let text = |span: &Json, key: &str| span[key].as_str().unwrap_or_default().to_lowercase();
    let key =
        |(resource, span): &(u64, Json)| (text(span, "traceId"), *resource, text(span, "spanId"));
    let by_id: BTreeMap<_, _> = spans.iter().map(|it| (key(it), &it.1)).collect();
    let class = |span: &Json| {
        let tags = span["attributes"].as_array().unwrap();
        let has = |name: &str| {
            tags.iter()
                .find(|it| it["key"] == name)
                .map(|it| it["value"]["stringValue"].as_str().unwrap().to_owned())
        };
        let system = has("db.system").or(has("messaging.system"));
        match (system, has("http.method")) {
            (Some(system), _) if system == "mysql" => Some("group=mysql,operation=SELECT"),
            (Some(_), _) => Some("group=redis,operation=push"),
            (None, Some(_)) => Some("group=http,server=api,operation=GET"),
            (None, None) => None,
        }
    };
    let mut requests: BTreeMap<_, Joined> = BTreeMap::new();
    let us = |span: &Json| {
        let time = |key: &str| text(span, key).parse::<u64>().unwrap();
        (time("endTimeUnixNano") - time("startTimeUnixNano")) / 1000
    };
    for it in spans {
        if it.1["kind"] == 2 {
            requests.entry((key(it).0, it.0)).or_default().0 = us(&it.1);
        }
    }
    for it in spans.iter().filter(|it| it.1["kind"] != 2) {
        let mut above = BTreeSet::new();
        let mut at = &it.1;
        while at["kind"] != 2 {
            if let Some(class) = class(at).filter(|_| at["spanId"] != it.1["spanId"]) {
                above.insert(class);
            }
            at = by_id[&(key(it).0, it.0, text(at, "parentSpanId"))];
        }
        if let Some(class) = class(&it.1).filter(|class| !above.contains(class)) {
            let timers = &mut requests.get_mut(&(key(it).0, it.0)).unwrap().1;
            let (hits, total) = timers.entry(class.to_owned()).or_default();
            *hits += 1;
            *total += us(&it.1);
        }
    }
    let mut requests: Vec<_> = requests.into_values().collect();
    requests.sort();
    requests
}

#[test]
fn in_any_order_and_any_pieces_it_is_the_naive_join() {
    let mut dice = StdRng::seed_from_u64(40);
    let mut spans: Vec<(u64, Json)> =
        (1..150).flat_map(|trace| some_trace(&mut dice, trace)).collect();
    let expected = naive(&spans);
    for _ in 0..3 {
        spans.shuffle(&mut dice);
        let mut world = World::new("");
        let mut rest = &spans[..];
        while !rest.is_empty() {
            let (now, after) = rest.split_at(dice.random_range(1..=rest.len().min(200)));
            rest = after;
            let mut by_resource: BTreeMap<u64, Vec<Json>> = BTreeMap::new();
            for (resource, span) in now {
                by_resource.entry(*resource).or_default().push(span.clone());
            }
            for (resource, spans) in by_resource {
                world.take(json!({"service.name": format!("s{resource}")}), spans.into());
            }
            world.pass(1);
        }
        world.finish();
        let mut joined: Vec<_> = world
            .requests()
            .into_iter()
            .map(|it| {
                let mut timers: BTreeMap<String, (u32, u64)> = BTreeMap::new();
                for (tags, hits, us) in it.timers {
                    let timer = timers.entry(tags).or_default();
                    *timer = (timer.0 + hits, timer.1 + us);
                }
                (it.time_us, timers)
            })
            .collect();
        joined.sort();
        assert_eq!(joined, expected);
        assert_eq!(world.counters.spans_received.get(), spans.len() as u64);
    }
}

/// Some spans never arrive, others arrive twice, in any order and at any time: each that arrived is
/// counted once.
#[test]
fn whatever_comes_adds_up() {
    let mut dice = StdRng::seed_from_u64(41);
    for _ in 0..20 {
        let mut world = World::new("internal = true");
        let mut spans: Vec<_> = (1..20).flat_map(|trace| some_trace(&mut dice, trace)).collect();
        spans.retain(|_| dice.random_range(0..4) > 0);
        let twice = spans[..spans.len() / 4].to_vec();
        spans.extend(twice);
        spans.shuffle(&mut dice);
        for (resource, span) in &spans {
            let language = ["php", "python"][dice.random_range(0..2)];
            let of =
                json!({"service.name": format!("s{resource}"), "telemetry.sdk.language": language});
            world.take(of, json!([span]));
            world.pass(dice.random_range(0..9_000));
        }
        world.finish();
        assert_eq!(world.counters.spans_received.get(), spans.len() as u64);
    }
}
