//! Compares the description with the routes.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::harness::Server;
use crate::http::routes;

/// The parameters of an operation, including those of the path, with references resolved.
fn parameters(document: &Json, path: &str, method: &str) -> Vec<Json> {
    let item = &document["paths"][path];
    let lists = [&item["parameters"], &item[method]["parameters"]];
    let all = lists.into_iter().filter_map(Json::as_array).flatten();
    all.map(|parameter| match parameter["$ref"].as_str() {
        Some(reference) => document.pointer(reference.strip_prefix('#').unwrap()).unwrap().clone(),
        None => parameter.clone(),
    })
    .collect()
}

#[test]
fn limits_have_their_bounds() {
    let document = Server::start().get("/api/v1/openapi.json").json();
    let all = parameters(&document, "/api/v1/annotations", "get");
    let limit = all.iter().find(|it| it["name"] == "limit").unwrap();
    assert_eq!(
        limit["schema"],
        serde_json::json!({"type": "integer", "minimum": 1, "maximum": 1000})
    );
}

#[test]
fn every_route_is_described_with_its_methods_and_nothing_else_is() {
    let server = Server::start();
    let document = server.get("/api/v1/openapi.json").json();
    let described: BTreeSet<&str> =
        document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let paths = routes::endpoints();
    assert_eq!(described, paths.iter().map(|(path, _)| *path).collect());
    for path in described {
        let item = document["paths"][path].as_object().unwrap();
        let mut methods: BTreeSet<String> = item
            .keys()
            .filter(|member| *member != "parameters")
            .map(|method| method.to_uppercase())
            .collect();
        if methods.contains("GET") {
            methods.insert("HEAD".into());
        }
        methods.insert("OPTIONS".into());
        let target = path.replace("{name}", "r").replace("{id}", "3");
        let reply = server.ask("OPTIONS", &target, &[], None);
        let allowed = reply.header("allow").unwrap().split(", ").map(str::to_owned).collect();
        assert_eq!(methods, allowed, "{path}");
    }
}

#[test]
fn every_path_parameter_is_described() {
    let server = Server::start();
    let document = server.get("/api/v1/openapi.json").json();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys().filter(|member| *member != "parameters") {
            for name in ["name", "id"] {
                let described = parameters(&document, path, method)
                    .iter()
                    .any(|it| it["in"] == "path" && it["name"] == name && it["required"] == true);
                assert_eq!(described, path.contains(&format!("{{{name}}}")), "{method} {path}");
            }
        }
    }
}

#[test]
fn the_query_parameters_described_are_those_accepted() {
    let server = Server::start();
    let document = server.get("/api/v1/openapi.json").json();
    for (path, keys) in cases![
        "/api/v1/info" => &[][..];
        "/api/v1/changes" => &[];
        "/api/v1/status" => &[];
        "/api/v1/reports" => &[];
        "/api/v1/reports/{name}" => &["script_name", "status", "tag_limit"];
        "/api/v1/requests" => &["tag.NAME"];
        "/api/v1/requests/{id}" => &[];
        "/api/v1/stream/requests" => &["tag.NAME"];
        "/api/v1/stream/samples" => &[];
        "/healthz" => &[];
    ] {
        let target = path.replace("{name}", "r").replace("{id}", "3");
        let refusal = server.get(&format!("{target}?no_such_parameter=1"));
        refusal.problem(400);
        let body: Json = serde_json::from_str(&refusal.body).unwrap();
        let accepted: BTreeSet<String> = body["accepted"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect();
        let free_form = |it: &Json| it["schema"]["type"] == "object";
        let mut described: BTreeSet<String> = parameters(&document, path, "get")
            .iter()
            .filter(|it| it["in"] == "query" && !free_form(it))
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect();
        described.extend(keys.iter().map(|key| (*key).to_owned()));
        assert_eq!(accepted, described, "{path}");
    }
}

#[test]
fn the_answers_have_the_members_that_are_promised() {
    let server = Server::start();
    let document = server.get("/api/v1/openapi.json").json();
    let schemas = &document["components"]["schemas"];
    for (target, pointer, schema) in [
        ("/api/v1/reports", "/reports/0", "Report"),
        ("/api/v1/reports/r", "", "ReportRows"),
        ("/api/v1/requests", "", "RequestRows"),
        ("/api/v1/requests?timers=1&limit=1", "/rows/0", "RequestRow"),
        ("/api/v1/requests/3", "", "RequestDetail"),
        ("/api/v1/requests/3", "/timers/0", "Timer"),
    ] {
        let body = server.get(target).json();
        let members = body.pointer(pointer).unwrap().as_object().unwrap();
        for required in schemas[schema]["required"].as_array().unwrap() {
            assert!(members.contains_key(required.as_str().unwrap()), "{target} {required}");
        }
        for member in members.keys() {
            assert!(schemas[schema]["properties"].get(member).is_some(), "{target} {member}");
        }
    }
}

#[test]
fn what_is_no_json_is_described_as_it_is() {
    let server = Server::start();
    let document = server.get("/api/v1/openapi.json").json();
    let of = |path: &str, status: &str| document["paths"][path]["get"]["responses"][status].clone();
    let headers = &of("/api/v1/requests", "200")["headers"];
    for (name, kind) in [("next-before", "string"), ("as-of", "number"), ("from", "number")] {
        assert_eq!(headers[format!("x-pinbad-{name}")]["schema"]["type"], kind, "{name}");
    }
    let refusal = server.get("/?no_such_parameter=1");
    assert_eq!(refusal.status, 400);
    let kind = refusal.header("content-type").unwrap().split(';').next().unwrap();
    assert!(of("/", "400")["content"].get(kind).is_some(), "{kind}");
}
