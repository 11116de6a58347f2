//! Raw requests: parameters mean what they say, and rows come as they were sent.

use axum::http::HeaderMap;
use serde_json::{Value as Json, json};

use super::harness::{Server, catalog, script_and_status};
use crate::config::rewrite::TextField;
use crate::http::HttpSettings;
use crate::http::api::requests::parse;
use crate::http::params::Params;
use crate::query::answer::Scanned;
use crate::query::question::{NumberField, RequestSearch, When};
use crate::query::timer_groups::TimerSearch;
use crate::report::definition::{Field, KeySource};

#[test]
fn a_page_and_the_next() {
    let server = Server::of(3);
    let body = server.get("/api/v1/requests?limit=2").json();
    let members: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(members, ["as_of", "rows", "next_before_id"]);
    assert_members!(body => {"as_of": 1_700_000_000.25, "next_before_id": 2});
    let shown = [
        ("id", json!(3)),
        ("hostname", json!("web\"1")),
        ("req_time", json!(2.000_006)),
        ("schema", Json::Null),
        ("tags", json!("env=prod,limit=even")),
        ("timestamp", json!(1_700_000_000)),
    ];
    for (column, value) in shown {
        assert_eq!(body["rows"][0][column], value, "{column}");
    }
    let body = server.get("/api/v1/requests?limit=2&before_id=2").json();
    assert_eq!(body["next_before_id"], Json::Null);
    assert_eq!(body["rows"][0]["id"], 1);
}

/// Conditions come before the sample: what is rare among all requests is added up in full.
#[test]
fn timers_of_few_requests_are_not_sampled_with_all() {
    let source = catalog(2_000);
    let (script, _) = script_and_status(42);
    let search = TimerSearch {
        requests: RequestSearch {
            texts: vec![(TextField::ScriptName, script)],
            ..RequestSearch::default()
        },
        by: vec![KeySource::Field(Field::ScriptName)],
        scanned_max: 50,
        groups_max: 10,
        ..TimerSearch::default()
    };
    let find = |search: &TimerSearch| source.timer_groups(search, &When::Now).unwrap();
    let found = find(&search);
    assert_eq!((found.rows[0].requests, found.rows[0].timers), (1, 2));
    let scanned = Scanned {
        requests: 1,
        oldest: 1_700_000_000,
        all: true,
        narrowed: true,
        ..Scanned::default()
    };
    assert_eq!(found.scanned, scanned);
    let all = TimerSearch { requests: RequestSearch::default(), ..search };
    let (found, again) = (find(&all), find(&all));
    assert_eq!(found.scanned.sample_of, Some(2_000));
    assert!(found.scanned.requests < 200 && !found.scanned.narrowed);
    assert_eq!(found.scanned, again.scanned, "the same question");
}

#[test]
fn every_parameter_is_a_condition_of_the_search() {
    let search = |query: &str| {
        let params = Params::parse(Some(query)).unwrap();
        parse(params, &HeaderMap::new(), 1_700_000_100_000).unwrap().0.search
    };
    let plain = RequestSearch { limit: 100, ..RequestSearch::default() };
    assert_eq!(search(""), plain);
    assert_eq!(search("limit=0").limit, 100_000);
    assert_eq!(search("limit=100000").limit, 100_000);
    assert_eq!(search("timers=1&limit=0").limit, 1_000);
    assert_eq!(search("before_id=9007199254740993").before_id, Some(9_007_199_254_740_993));
    assert_eq!(search("since=1700000000").since, Some(1_700_000_000));
    assert_eq!(search("since=1700000000.2").since, Some(1_700_000_001));
    assert_eq!(search("until=1700000000.9").until, Some(1_700_000_000));
    assert_eq!(search("until=2023-11-14T22:13:20Z").until, Some(1_700_000_000));
    assert_eq!(search("since=2023-11-15T00:13:20+02:00").since, Some(1_700_000_000));
    assert_eq!(search("since=-100s&until=now").since, Some(1_700_000_000));
    assert_eq!(search("until=2023-11-14T23:13:20&tz=Europe/Berlin").until, Some(1_700_000_000));
    assert_eq!(search("min_time=0.1").min_time_us, Some(100_000));
    assert_eq!(search("max_time=0.1&min_time=0").max_time_us, Some(100_000));
    assert_eq!(search("max_time=2").max_time_us, Some(2_000_000));
    for (name, field) in [
        ("hostname", TextField::Hostname),
        ("server_name", TextField::ServerName),
        ("script_name", TextField::ScriptName),
        ("schema", TextField::Schema),
    ] {
        assert_eq!(search(&format!("{name}=a+b%26")).texts, [(field, "a b&".to_owned())]);
    }
    assert_eq!(search("schema=").texts, [(TextField::Schema, String::new())]);
    for (name, field) in [
        ("req_count", NumberField::ReqCount),
        ("timers_cnt", NumberField::TimersCnt),
        ("status", NumberField::Status),
        ("tags_cnt", NumberField::TagsCnt),
        ("timestamp", NumberField::Timestamp),
    ] {
        assert_eq!(search(&format!("{name}=404")).numbers, [(field, 404)]);
    }
    let tags = search("tag.env=prod&tag.a.b%3D=1&tag.=x").tags;
    let expected = [("env", "prod"), ("a.b=", "1"), ("", "x")];
    assert_eq!(tags, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn bad_parameters_say_what_is_accepted() {
    let server = Server::start();
    for (query, part) in cases![
        "limit=100001" => "limit: 100001 is too many";
        "limit=x" => "limit: \"x\"";
        "limit=1001&timers=1" => "limit: 1001 is too many with timers";
        "timers=yes" => "accepted: 0, 1";
        "timers=1&format=csv" => "accepted: format=json, format=ndjson";
        "before_id=-1" => "before_id: \"-1\"";
        "since=yesterday" => "since: \"yesterday\" is not accepted; accepted: unix seconds";
        "until=" => "until: \"\" is not accepted";
        "since=-1h&until=-2h" => "since: is later than until";
        "since=1700000001&until=1700000000" => "since: is later than until";
        "min_time=fast" => "min_time: \"fast\" is not accepted; accepted: seconds";
        "min_time=2&max_time=1" => "min_time: is greater than max_time";
        "max_time=-0.1" => "max_time: \"-0.1\"";
        "status=ok" => "status: \"ok\"";
        "status=1&status=2" => "status: is given more than once";
        "req_time=1" =>
            "req_time: unknown parameter; accepted: limit, timers, before_id, since, until";
        "env=prod" => "tag.NAME";
        "format=html" => "format: \"html\"";
    ] {
        let detail = server.get(&format!("/api/v1/requests?{query}")).problem(400);
        assert!(detail.contains(part), "{query}: {detail}");
    }
}

#[test]
fn one_request_in_full() {
    let server = Server::of(3);
    let reply = server.get("/api/v1/requests/3");
    let timer = |id: u64, tags: Json| json!({"id": id, "hit_count": 2, "value": 1.5, "ru_utime": 0.000_001, "ru_stime": 0, "tags": tags});
    let listed = server.get("/api/v1/requests?limit=1").json();
    let mut expected = listed["rows"][0].clone();
    expected["tags"] = json!({"env": "prod", "limit": "even"});
    let tags = json!({"group": "cache", "op": "get"});
    expected["timers"] = json!([timer(3, json!({"group": "db"})), timer(4, tags)]);
    // As text, so that the order of members counts too.
    assert_eq!(reply.json().to_string(), expected.to_string());
    assert_has!(server.get("/api/v1/requests/4").problem(404) => "request 4");
    for id in ["18446744073709551615", "18446744073709551616"] {
        server.get(&format!("/api/v1/requests/{id}")).problem(404);
    }
    for id in ["abc", "-3", "3.0", "%ff"] {
        server.get(&format!("/api/v1/requests/{id}")).problem(400);
    }
    server.get("/api/v1/requests/3?format=csv").problem(400);
}

#[test]
fn formats_and_no_raw_data() {
    let server = Server::of(3);
    let csv = server.get("/api/v1/requests?format=csv&limit=2");
    assert_eq!(csv.header("x-pinbad-next-before-id"), Some("2"));
    let listed = server.get("/api/v1/requests?limit=1").json();
    let columns = listed["rows"][0].as_object().unwrap().keys();
    let columns: Vec<&str> = columns.map(String::as_str).collect();
    assert_eq!(csv.body.lines().next(), Some(columns.join(",").as_str()));
    let newest = csv.body.lines().nth(1).unwrap();
    assert!(newest.starts_with(r#"3,"web""1","#), "{newest}");
    assert!(newest.contains(r#","env=prod,limit=even""#), "{newest}");
    let with_timers = server.get("/api/v1/requests?timers=1&limit=0").json();
    let detail = server.get("/api/v1/requests/3").json();
    assert_eq!(with_timers["rows"][0]["timers"], detail["timers"]);
    assert_eq!(with_timers["rows"][1]["timers"], json!([]));
    let last = server.get("/api/v1/requests?format=ndjson&before_id=2");
    assert_eq!(last.header("x-pinbad-next-before-id"), None);
    assert_eq!(last.body.lines().count(), 1);
    let without = Server::over(0, false, HttpSettings::new(&[]));
    let detail = without.get("/api/v1/requests").problem(404);
    assert!(detail.contains("pool.request_pool_size is 0"), "{detail}");
}
