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

/// A span for the naive join of one body.
#[derive(Debug, Clone)]
struct Plain {
    group: (u64, u64),
    id: u64,
    parent: u64,
    kind: u8,
    flags: u32,
    /// The system it calls.
    system: Option<&'static str>,
    us: u64,
}

impl Plain {
    fn json(&self) -> Json {
        let of = match self.system {
            Some(system) => json!({"name": "x", "db.system": system}),
            None => json!({"name": "x"}),
        };
        let mut span = span(self.group.0, (self.id, self.parent), self.kind, (0, self.us), of);
        span["flags"] = self.flags.into();
        span
    }

    fn is_root(&self) -> bool {
        self.parent == 0 || self.flags & 0x300 == 0x300
    }

    /// Whether it is a root if its parent does not come.
    fn may_be_root(&self) -> bool {
        matches!(self.kind, 2 | 5) && self.flags & 0x100 == 0
    }

    fn is_request(&self) -> bool {
        matches!(self.kind, 1 | 2 | 5)
    }

    fn asks(&self) -> bool {
        matches!(self.kind, 3 | 4)
    }
}

/// Any spans of a trace: parents may be missing, remote, or above each other; there may be several
/// roots of any kind.
fn some_spans(dice: &mut StdRng, trace: u64) -> Vec<Plain> {
    let count = dice.random_range(1..14);
    let mut spans: Vec<Plain> = (1..=count)
        .map(|id| Plain {
            group: (trace, dice.random_range(0..2)),
            id,
            parent: dice.random_range(0..count + 2),
            kind: dice.random_range(1..=5),
            flags: [0, 0x100, 0x100, 0x300][dice.random_range(0..4)],
            system: [None, Some("mysql")][dice.random_range(0..2)],
            us: id * 100 + trace % 100,
        })
        .collect();
    if dice.random() {
        // One request and no other root.
        for it in &mut spans {
            (it.group.1, it.flags, it.parent) = (0, 0x100, it.parent.max(1));
        }
        (spans[0].parent, spans[0].kind) = (0, 2);
    }
    spans
}

/// A request's time, and the times of its timers.
type Times = (u64, Vec<u64>);

/// Joins a body of PHP's naively: returns the requests, how many spans are left out for which
/// reason and wait, and for how many a parent was guessed.
fn naive_body(sent: &[Plain]) -> (Vec<Times>, BTreeMap<u8, u64>, u64, u64) {
    let (mut requests, mut left_out) = (Vec::new(), BTreeMap::new());
    let (mut waiting, mut guessed) = (0, 0);
    let mut out = |reason: LeftOut| *left_out.entry(reason as u8).or_default() += 1;
    let groups: BTreeSet<_> = sent.iter().map(|it| it.group).collect();
    for group in groups {
        let came = sent.iter().filter(|it| it.group == group);
        if !came.clone().any(|it| it.is_root() || it.may_be_root()) {
            waiting += came.count() as u64;
            continue;
        }
        let mut spans: BTreeMap<u64, &Plain> = BTreeMap::new();
        for it in came {
            match spans.contains_key(&it.id) {
                true => out(LeftOut::Duplicate),
                false => drop(spans.insert(it.id, it)),
            }
        }
        // The spans above a span, from itself on; `None` ends those without a root.
        let above = |from: &Plain| {
            let mut path: Vec<Option<&Plain>> = vec![Some(spans[&from.id])];
            while let Some(Some(last)) = path.last().copied() {
                let next = spans.get(&last.parent).copied().filter(|_| !last.is_root());
                let is_cycle = |it: &Plain| path.iter().flatten().any(|known| known.id == it.id);
                match next {
                    Some(next) if is_cycle(next) => path.push(None),
                    Some(next) => path.push(Some(next)),
                    None if last.is_root() => break,
                    None if last.may_be_root() => break,
                    None => path.push(None),
                }
            }
            path
        };
        let root = |it: &Plain| above(it).pop().flatten().map(|it| it.id);
        let is_request = |id: &u64| spans[id].is_request();
        let roots: BTreeSet<u64> = spans.values().filter_map(|it| root(it)).collect();
        let found: Vec<u64> = roots.into_iter().filter(is_request).collect();
        let mut timers: BTreeMap<u64, Vec<u64>> = found.iter().map(|it| (*it, vec![])).collect();
        for it in spans.values() {
            let to = match (root(it), &found[..]) {
                (Some(root), _) => root,
                (None, [only]) => {
                    guessed += 1;
                    *only
                }
                (None, []) => {
                    waiting += 1;
                    continue;
                }
                (None, _) => {
                    out(LeftOut::Orphan);
                    continue;
                }
            };
            let path = above(it);
            let mut asked = path.iter().skip(1).flatten().filter(|it| it.asks());
            let is_nested = it.system.is_some() && asked.any(|it| it.system.is_some());
            match (spans[&to].kind, it.kind) {
                (3, _) => out(LeftOut::ClientRoot),
                (4, _) => out(LeftOut::ProducerRoot),
                _ if to == it.id => {}
                (_, 1 | 2 | 5) => out(LeftOut::Internal),
                _ if is_nested => out(LeftOut::Nested),
                // Not longer than the request.
                _ => timers.entry(to).or_default().push(it.us.min(spans[&to].us)),
            }
        }
        requests.extend(found.iter().map(|it| (spans[it].us, timers[it].clone())));
    }
    (requests, left_out, waiting, guessed)
}

#[test]
fn a_body_with_anything_is_the_naive_join() {
    let mut dice = StdRng::seed_from_u64(42);
    let (mut nested, mut guessed, mut orphans) = (0, 0, 0);
    for _ in 0..300 {
        let traces = dice.random_range(1..5);
        let mut spans: Vec<_> =
            (1..=traces).flat_map(|trace| some_spans(&mut dice, trace)).collect();
        let twice = spans[..spans.len() / 5].to_vec();
        spans.extend(twice);
        spans.shuffle(&mut dice);
        // What is in a cycle measures nothing: which of it is nested depends on where one begins.
        let by_id: BTreeMap<_, _> =
            spans.iter().map(|it| ((it.group, it.id), it.clone())).collect();
        for it in &mut spans {
            let mut at = by_id.get(&(it.group, it.parent));
            for _ in 0..20 {
                match at {
                    Some(above) if above.id == it.id => it.system = None,
                    Some(above) => at = by_id.get(&(it.group, above.parent)),
                    None => {}
                }
            }
        }
        let mut world = World::new("");
        let entries = spans.chunk_by(|a, b| a.group.1 == b.group.1).map(|alike| {
            let of = json!({"telemetry.sdk.language": "php", "service.name": alike[0].group.1.to_string()});
            let spans: Json = alike.iter().map(Plain::json).collect();
            body(of, spans)["resourceSpans"][0].take()
        });
        let entries: Json = entries.collect();
        let sent = json!({ "resourceSpans": entries }).to_string();
        assert_eq!(world.take_bytes(sent.as_bytes()), Ok(0));
        let mut joined: Vec<Times> = world
            .requests()
            .into_iter()
            .map(|it| (it.time_us, it.timers.into_iter().map(|it| it.2).collect()))
            .collect();
        let (mut requests, left_out, waiting, guesses) = naive_body(&spans);
        for (_, timers) in joined.iter_mut().chain(&mut requests) {
            timers.sort_unstable();
        }
        joined.sort();
        requests.sort();
        assert_eq!(joined, requests, "{spans:?}");
        let counted = world.counters.spans_left_out.get();
        let counted = (0..).zip(counted).filter(|it| it.1 > 0).collect::<BTreeMap<u8, u64>>();
        assert_eq!(counted, left_out, "{spans:?}");
        assert_eq!(world.counters.spans_waiting.get(), waiting, "{spans:?}");
        assert_eq!(world.counters.spans_parent_guessed.get(), guesses, "{spans:?}");
        nested += world.left_out(LeftOut::Nested);
        orphans += world.left_out(LeftOut::Orphan);
        guessed += guesses;
    }
    assert!(nested > 50 && guessed > 50 && orphans > 50, "{nested}, {guessed}, {orphans}");
}
