//! Mapping of single sets of spans to requests.

use super::*;

/// Returns the only request made of these spans.
#[track_caller]
fn one(config: &str, resource: Json, spans: Json) -> Shown {
    let mut world = World::new(config);
    world.take(resource, spans);
    world.finish();
    let requests = world.requests();
    assert_eq!(requests.len(), 1, "{:?}", world.counters);
    requests[0].clone()
}

#[test]
fn the_old_name_of_the_host_loses_its_port() {
    for (sent, server) in [
        ("shop.example:8000", "shop.example"),
        ("shop.example", "shop.example"),
        ("[::1]:8000", "[::1]"),
        ("::1", "::1"),
    ] {
        let root = json!([span(1, (1, 0), 2, (0, 1500), json!({"net.host.name": sent}))]);
        assert_eq!(one("", json!({}), root).server, server, "{sent}");
    }
}

#[test]
fn names_of_today_come_before_those_of_yesterday_and_both_are_known() {
    let old = json!({
        "name": "GET /users/{id}", "http.method": "GET", "http.status_code": 404,
        "http.response_content_length": "1234", "http.host": "old.example:8080", "http.scheme": "http",
    });
    let root = |of: &Json| json!([span(1, (1, 0), 2, (0, 1500), of.clone())]);
    let shown =
        one("", json!({"service.name": "shop", "deployment.environment": "prod"}), root(&old));
    let expected = Shown {
        host: "10.1.2.3".to_owned(),
        server: "old.example".to_owned(),
        script: "/users/{id}".to_owned(),
        schema: Some("http".to_owned()),
        status: 404,
        bytes: 1234,
        time_us: 1500,
        tags: "service.name=shop,deployment.environment.name=prod,http.request.method=GET"
            .to_owned(),
        timers: Vec::new(),
    };
    assert_eq!(shown, expected);
    let mut both = old.clone();
    for (name, value) in [
        ("http.route", json!("users/{id}")),
        ("http.response.status_code", json!(200)),
        ("http.response.body.size", json!(99)),
        ("server.address", json!("new.example")),
        ("url.scheme", json!("https")),
    ] {
        both[name] = value;
    }
    let host = json!({"host.name": "web1", "k8s.pod.name": "pod", "service.name": "shop"});
    let shown = one("", host.clone(), root(&both));
    assert_eq!(
        (&*shown.host, &*shown.server, &*shown.script),
        ("web1", "new.example", "users/{id}")
    );
    assert_eq!((shown.status, shown.bytes, shown.schema.as_deref()), (200, 99, Some("https")));
    assert_eq!(one("name = 'fixed'", host, root(&both)).host, "fixed");
    // An empty text counts as absent; the URL supplies scheme and host, the service is the last
    // resort.
    let url =
        json!({"name": "POST", "http.route": "", "url.full": "https://u:p@[::1]:8443/secret?q"});
    let shown = one("", json!({"service.name": "shop"}), root(&url));
    assert_eq!((&*shown.server, &*shown.script), ("[::1]", "POST"));
    assert_eq!(shown.schema.as_deref(), Some("https"));
    let shown = one("", json!({"service.name": "shop"}), root(&json!({"name": "HTTP x"})));
    assert_eq!((&*shown.server, &*shown.script, shown.schema), ("shop", "x", None));
}

#[test]
fn errors_have_a_status_and_say_what_was_thrown() {
    let mut failed = span(1, (1, 0), 2, (0, 9), json!({"name": "job", "error.type": "500"}));
    failed["status"] = json!({"code": 2, "message": "no"});
    let shown = |span: &Json| one("", json!({}), json!([span]));
    assert_eq!((shown(&failed).status, &*shown(&failed).tags), (500, "exception.type=500"));
    let thrown = |name: &str, kind: &str| json!({"name": name, "attributes": attributes(&json!({"exception.type": kind}))});
    failed["events"] = json!([
        thrown("exception", "First"),
        thrown("exception", "App\\Last"),
        thrown("log", "Not")
    ]);
    assert_eq!(shown(&failed).tags, "exception.type=App\\Last");
    failed["status"] = json!({"code": 1});
    assert_eq!((shown(&failed).status, &*shown(&failed).tags), (0, ""));
    let mut backwards = span(1, (1, 0), 2, (50, 0), json!({}));
    backwards["endTimeUnixNano"] = json!(NOW_NS - 1_000_000_000);
    assert_eq!(shown(&backwards).time_us, 0);
}

#[test]
fn chosen_attributes_become_tags() {
    let of =
        json!({"tenant": "acme", "http.request.method": "PUT", "url.scheme": "https", "list": []});
    let shown = one(
        "attributes = ['tenant', 'zone', 'url.scheme', 'http.request.method', 'list', 'none']",
        json!({"zone": "eu", "tenant": "of the resource"}),
        json!([span(1, (1, 0), 5, (0, 9), of)]),
    );
    assert_eq!(shown.tags, "http.request.method=PUT,tenant=acme,zone=eu,url.scheme=https");
}

#[test]
fn timers_say_which_system_was_asked_for_what() {
    let cases = cases![
        3 => json!({"db.system.name": "mysql", "db.operation.name": "SELECT",
            "server.address": "db1", "db.namespace": "shop"}),
            "group=mysql,server=db1,operation=SELECT";
        3 => json!({"db.system": "sqlite", "db.statement": "insert into t values (1)",
            "db.name": "main.db"}), "group=sqlite,server=main.db,operation=INSERT";
        3 => json!({"name": "wpdb.query", "db.query.text": "  UPDATE x"}),
            "group=db,operation=UPDATE";
        3 => json!({"name": "PDO::prepare", "db.unheard.of": "x"}),
            "group=db,operation=PDO::prepare";
        3 => json!({"name": "GET", "http.request.method": "GET",
            "url.full": "http://api.example:81/x"}), "group=http,server=api.example,operation=GET";
        3 => json!({"http.method": "POST", "net.peer.name": "old.example"}),
            "group=http,server=old.example,operation=POST";
        3 => json!({"name": "curl_exec", "url.full": "/x", "network.peer.address": "10.0.0.1"}),
            "group=http,server=10.0.0.1,operation=curl_exec";
        4 => json!({"messaging.system": "rabbitmq", "messaging.operation.type": "send",
            "name": "x"}), "group=rabbitmq,operation=send";
        3 => json!({"rpc.system": "grpc", "name": "Shop/List"}), "group=grpc,operation=Shop/List";
        3 => json!({"name": "resolve"}), "group=client,operation=resolve";
        1 => json!({"name": "render"}), "group=internal,operation=render";
        2 => json!({"name": "WP.main", "http.method": "GET"}), "group=internal,operation=GET";
    ];
    let mut spans = vec![span(1, (100, 0), 2, (0, 1_000), json!({"name": "GET /"}))];
    for (at, (kind, of, _)) in cases.iter().enumerate() {
        let at = at as u64;
        // The last one is sent first.
        spans.insert(0, span(1, (1 + at, 100), *kind, (10 * at, 5 + at), of.clone()));
    }
    let shown = one("internal = true", json!({}), spans.into());
    let expected = cases.iter().zip(5..).map(|((_, _, tags), us)| ((*tags).to_owned(), 1, us));
    assert_eq!(shown.timers, expected.collect::<Vec<_>>());
}

#[test]
fn timers_lie_inside_of_their_request_and_too_many_are_added_up() {
    let get = |at: u64, from, us| {
        let of =
            json!({"name": "GET", "http.method": "GET", "server.address": format!("h{}", at % 2)});
        span(1, (1 + at, 9_999), 3, (from, us), of)
    };
    let root = || span(1, (9_999, 0), 2, (100, 1_000), json!({}));
    let shown =
        one("", json!({}), json!([root(), get(0, 50, 100), get(1, 1_000, 500), get(2, 2_000, 5)]));
    let times: Vec<_> = shown.timers.iter().map(|(_, _, us)| *us).collect();
    assert_eq!(times, [50, 100, 0]);
    let mut world = World::new("");
    let spans = (0..1_500).map(|at| get(at, 100 + at % 7, 3)).chain([root()]);
    world.take(json!({}), spans.collect());
    world.finish();
    let timers = &world.requests()[0].timers;
    assert_eq!(timers.len(), 1_002);
    assert_eq!(timers[1_000..].iter().map(|it| it.1).sum::<u32>(), 500);
    assert_eq!(timers.iter().map(|it| it.2).sum::<u64>(), 4_500);
    assert_eq!(world.counters.spans_merged.get(), 498);
}

#[test]
fn a_request_that_is_too_large_is_refused_with_its_timers() {
    let mut world = World::new("");
    let long = |at: u64| json!({"name": format!("{at:0200}"), "db.system": "x"});
    let spans = (2..1_500).map(|at| span(1, (at, 1), 3, (0, 1), long(at)));
    let root = span(1, (1, 0), 2, (0, 9), json!({}));
    world.take(json!({}), spans.chain([root]).collect());
    world.finish();
    assert_eq!(world.left_out(LeftOut::TooLarge), 1_499);
    assert_eq!(world.sockets.sockets[0].requests_invalid.total(), 1);
}
