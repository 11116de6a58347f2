//! `/api/v1/openapi.json`: this interface described for programs, in OpenAPI 3.1.
//!
//! The document is made, once, from tables: the operations and parameters here, the schemas in `schemas.rs`. Tests hold its paths, methods,
//! parameters and members against what the routes do.

use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response};
use serde_json::{Map, Value as Json, json};

use super::schemas::{self, described, of_type};
use crate::http::answer::format::Format;
use crate::http::app::Answer;
use crate::http::params::NoParams;

const DESCRIPTION: &str = "Reads what the daemon holds in memory: pre-aggregated reports and single requests. Column names are those of Pinba's tables, and members of a row stand in column order. Times are seconds with up to six decimals. Unknown query parameters are errors. Every answer sent without a length is chunked. Wrong hosts (421), origins (403) and over-long heads (414, 431) are refused before anything else. Where users are configured, credentials come before everything else (401); reading needs the role read, POST and DELETE the role admin (403), SQL apart. HEAD is answered wherever GET is, OPTIONS everywhere.";

/// What an operation answers with.
#[derive(Debug, Clone, Copy)]
enum Content {
    /// JSON of this schema.
    Json(&'static str),
    /// Rows: JSON of this schema, or the other formats; with these numbers as headers where it is not JSON.
    Rows(&'static str, &'static [&'static str]),
    /// Text of these media types.
    Text(&'static [&'static str]),
}

/// One operation.
#[derive(Debug)]
struct Operation {
    path: &'static str,
    method: &'static str,
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    description: &'static str,
    /// Names out of [`PARAMETERS`].
    parameters: &'static str,
    /// The schema of the body.
    body: Option<&'static str>,
    content: Content,
    /// Refusals beside those that any request may get.
    refusals: &'static [u16],
}

/// One that takes and answers nothing in particular.
const PLAIN: Operation = Operation {
    path: "",
    method: "get",
    id: "",
    tag: "overview",
    summary: "",
    description: "",
    parameters: "",
    body: None,
    content: Content::Json("object"),
    refusals: &[503],
};

const NEEDS_TYPE: &str = "Wants the header `content-type: application/json`, also without a body.";

#[rustfmt::skip]
const OPERATIONS: &[Operation] = &[
    Operation {
        path: "/", id: "page",
        summary: "The page for people: what is slow, where and since when. What it leads to (/reports, /requests, /timers, /daemon) is pages too, and not for programs; what is wrong with a request for a page is said by a page.",
        content: Content::Text(&["text/html"]),
        ..PLAIN
    },
    Operation {
        path: "/healthz", id: "healthz", tag: "health",
        summary: "Whether the process is up.",
        content: Content::Json("Health"), refusals: &[],
        ..PLAIN
    },
    Operation {
        path: "/readyz", id: "readyz", tag: "health",
        summary: "Whether sockets are bound and the merger is alive and not behind.",
        description: "503 says in `detail` what is not ready.",
        content: Content::Json("Health"),
        ..PLAIN
    },
    Operation {
        path: "/metrics", id: "metrics",
        summary: "Everything that only grows, for Prometheus: counters and histograms of the rows of `metrics.reports`, and the daemon's own numbers.",
        description: "OpenMetrics 1.0 when the `Accept` header prefers it, the classic text format otherwise.",
        content: Content::Text(&["text/plain", "application/openmetrics-text"]),
        ..PLAIN
    },
    Operation {
        path: "/api/v1/info", id: "info",
        summary: "Table `info`: all requests of the window in one row.",
        content: Content::Json("Info"), refusals: &[404, 503],
        ..PLAIN
    },
    Operation {
        path: "/api/v1/status", id: "status",
        summary: "The daemon's counters.",
        content: Content::Json("Status"),
        ..PLAIN
    },
    Operation {
        path: "/api/v1/reports", id: "listReports", tag: "reports",
        summary: "All reports with their columns.",
        content: Content::Json("Reports"),
        ..PLAIN
    },
    Operation {
        path: "/api/v1/reports", method: "post", id: "createReport", tag: "reports",
        summary: "Makes a report, filled from the data in memory.",
        description: "The answer is 201 with the header `Location`; `complete` turns true when the report holds all data in memory that belongs to it.",
        body: Some("ReportForm"),
        content: Content::Json("Report"), refusals: &[408, 409, 413, 415, 503, 507],
        ..PLAIN
    },
    Operation {
        path: "/api/v1/reports/{name}", id: "readReport", tag: "reports",
        summary: "The rows of one report.",
        parameters: "name sort rows_limit offset columns percentiles format keys",
        content: Content::Rows("ReportRows", &["window-seconds", "covered-seconds", "as-of", "total-rows"]), refusals: &[404, 406, 503],
        ..PLAIN
    },
    Operation {
        path: "/api/v1/reports/{name}", method: "delete", id: "dropReport", tag: "reports",
        summary: "Drops a report that was made at run time.",
        description: NEEDS_TYPE,
        parameters: "name",
        content: Content::Json("Dropped"), refusals: &[404, 408, 409, 413, 415, 503, 507],
        ..PLAIN
    },
    Operation {
        path: "/api/v1/reports/{name}/series", id: "readSeries", tag: "reports",
        summary: "One metric of one row over the last hour.",
        description: "Which reports have a past is up to `series.reports`. The last five minutes are kept by the second, the hour by ten seconds.",
        parameters: "name metric step from to row_keys",
        content: Content::Json("Series"), refusals: &[404, 503],
        ..PLAIN
    },
    Operation {
        path: "/api/v1/sources", id: "sources",
        summary: "Who sends packets: counts by source address, the busiest first.",
        description: "Only while `ingest.count_sources`, `ingest.allow` or `ingest.source_rate_max` is set. 4,096 sources are told apart; a source that was silent for a minute may give its place to another, and its counts go to `other`.",
        parameters: "sources_limit",
        content: Content::Json("Sources"), refusals: &[404, 503],
        ..PLAIN
    },
    Operation {
        path: "/api/v1/requests", id: "listRequests", tag: "requests",
        summary: "Single requests, newest first: the columns of table `request`.",
        parameters: "page_limit page_timers before_id since until min_time max_time hostname server_name script_name schema req_count timers_cnt status tags_cnt timestamp format tags",
        content: Content::Rows("RequestRows", &["as-of", "next-before-id"]), refusals: &[404, 406, 503],
        ..PLAIN
    },
    Operation {
        path: "/api/v1/requests/{id}", id: "readRequest", tag: "requests",
        summary: "One request with its tags and timers.",
        parameters: "id",
        content: Content::Json("RequestDetail"), refusals: &[404, 503],
        ..PLAIN
    },
    Operation {
        path: "/api/v1/stream/requests", id: "streamRequests", tag: "requests",
        summary: "Single requests as they pass, oldest first, for as long as the client stays.",
        description: "Rows are those of `/api/v1/requests`, beginning with the next request: one object a line, or one event a row with its id. A client that reads more slowly than requests pass is put forward when it is some 65,000 requests behind, and gets at most 20000 a second; in the place of matching requests that it missed it gets their number: an event `missed` with the data `{\"missed\":N}`, or a line of that form. What left memory before it could be sent is counted among them. Something is sent every 10 seconds: an empty event or an empty line. 16 clients at once; more are refused with 503.",
        parameters: "rate stream_limit after_id timers min_time max_time hostname server_name script_name schema req_count timers_cnt status tags_cnt timestamp stream_format tags",
        content: Content::Text(&["application/x-ndjson", "text/event-stream"]), refusals: &[404, 406, 503],
        ..PLAIN
    },
    Operation {
        path: "/api/v1/sql", id: "querySql", tag: "sql",
        summary: "The rows of one SELECT (or SHOW) in MySQL's dialect.",
        description: "They are sent while they are made: an answer that breaks off had an error.",
        parameters: "query sql_format",
        content: Content::Rows("SqlRows", &[]), refusals: &[406, 413, 501, 503],
        ..PLAIN
    },
    Operation {
        path: "/api/v1/sql", method: "post", id: "runSql", tag: "sql",
        summary: "The same, with values for `?`; may also make and drop reports (CREATE TABLE ... ENGINE=PINBA COMMENT='...', DROP TABLE).",
        parameters: "sql_format",
        body: Some("Statement"),
        content: Content::Rows("SqlRows", &[]), refusals: &[406, 408, 413, 415, 501, 503],
        ..PLAIN
    },
    Operation {
        path: "/api/v1/reset", method: "post", id: "reset", tag: "control",
        summary: "Empties pools and reports, as after a deploy; counters stay.",
        description: NEEDS_TYPE,
        content: Content::Json("Reset"), refusals: &[408, 413, 415, 503],
        ..PLAIN
    },
    Operation {
        path: "/api/v1/openapi.json", id: "openapi",
        summary: "This document.",
        refusals: &[],
        ..PLAIN
    },
];

/// Key, name if it is another, type, meaning, example.
type Parameter = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

#[rustfmt::skip]
const PARAMETERS: &[Parameter] = &[
    ("name", "", "string", "The report's name.", "report_by_script_name"),
    ("id", "", "uint", "The request's id.", ""),
    ("format", "", "json ndjson csv", "The format of the rows. Without it the header `Accept` decides, and without that it is JSON.", ""),
    ("sql_format", "format", "json ndjson csv arrow", "The format of the rows; without it `Accept` decides.", ""),
    ("stream_format", "format", "ndjson sse", "The format of the rows; goes before `Accept`, by which events are chosen with `text/event-stream`.", ""),
    ("sort", "", "string", "Columns to sort by, with commas between them; a minus before a name puts the largest first. NULL comes last either way; text is compared by its bytes; equal rows keep their order. Without it the order is not defined.", "-req_time_total,script_name"),
    ("rows_limit", "limit", "uint", "Rows to answer with, 100 by default; 0: all.", ""),
    ("page_limit", "limit", "uint", "Rows to answer with, 100 by default, at most 100000; 0 means that many.", ""),
    ("sources_limit", "limit", "uint", "Sources at most, 100 by default; 0: all that are told apart. What is left out is in `other`.", ""),
    ("stream_limit", "limit", "uint", "The end after so many, from 1 on.", ""),
    ("offset", "", "uint", "Rows to leave out before the first.", ""),
    ("columns", "", "string", "Columns to answer with, in that order, with commas between them.", "script_name,req_count"),
    ("percentiles", "", "string", "Percentiles, with commas between them, each greater than 0 and at most 100: the report is answered in native columns with these, whatever its own are (`req_time_median`, `p95`, `error_count`, sums, rates and shares; bytes are bytes). A report has them at no further cost; tables that are no reports do not. Readers at about the same moment get the same numbers (`as_of` says of when).", "95,99.9"),
    ("keys", "", "object", "Any key column and the value it must have: `script_name=/index.php`. A key column with the name of another parameter is written with `key.` before it: `key.limit=5`.", ""),
    ("row_keys", "keys", "object", "The row: every key column with its value, as in `script_name=/index.php`. None at all: all rows of the report together. A key column with the name of another parameter is written with `key.` before it: `key.step=5`.", ""),
    ("metric", "", "string", "`req_count`, `req_per_sec` (the default), `hit_count`, `hit_per_sec`, `time_total`, `time_avg`, `time_per_sec`, `cpu`, `cpu_avg`, `cpu_per_sec`, `traffic`, `traffic_per_sec`, `memory_avg`, `errors`, `errors_per_sec`, `error_percent`, or a percentile of the time: `p50`, `p95`, `p99_9`.", "p95"),
    ("step", "", "uint", "Seconds from point to point, from 1 to 3600. 1 by default, 10 for more than five minutes. Where seconds are not kept one by one any more it becomes a multiple of 10.", ""),
    ("from", "", "Moment", "The first moment, brought down to a multiple of the step. Five minutes before `to` by default.", "1700000000"),
    ("to", "", "Moment", "The moment behind the last. By default, and at most, the end of the last complete second.", ""),
    ("timers", "", "0 1", "1: each row has a member `timers` too, as in `/api/v1/requests/{id}`.", ""),
    ("page_timers", "timers", "0 1", "1: each row has a member `timers` too, as in `/api/v1/requests/{id}`. Then `limit` is at most 1000, a page ends early where timers are very many, and the format is not csv.", ""),
    ("before_id", "", "uint", "Only requests older than this one: the next page.", ""),
    ("since", "", "Moment", "`timestamp` is this or later.", ""),
    ("until", "", "Moment", "`timestamp` is this or earlier.", ""),
    ("min_time", "", "number", "`req_time` is at least this, seconds.", ""),
    ("max_time", "", "number", "`req_time` is at most this, seconds.", ""),
    ("hostname", "", "string", "`hostname` is this text.", ""),
    ("server_name", "", "string", "`server_name` is this text.", ""),
    ("script_name", "", "string", "`script_name` is this text.", ""),
    ("schema", "", "string", "`schema` is this text; empty finds requests without one.", ""),
    ("req_count", "", "uint", "`req_count` is this number.", ""),
    ("timers_cnt", "", "uint", "`timers_cnt` is this number.", ""),
    ("status", "", "uint", "`status` is this number.", ""),
    ("tags_cnt", "", "uint", "`tags_cnt` is this number.", ""),
    ("timestamp", "", "uint", "`timestamp` is this number.", ""),
    ("tags", "", "object", "`tag.NAME=VALUE`: the first request tag NAME has the value VALUE. May be given for several names; all must hold.", ""),
    ("rate", "", "uint", "At most so many requests a second, from 1 to 20000; the others are left out and not counted as missed.", ""),
    ("after_id", "", "uint", "Begin behind this request instead of the youngest one. The header `Last-Event-ID`, which an EventSource sends when it connects again, counts for more.", ""),
    ("query", "", "string", "The statement.", "SELECT script_name, req_count FROM report_by_script_name ORDER BY 2 DESC LIMIT 10"),
];

/// Status, name, meaning.
#[rustfmt::skip]
const REFUSALS: &[(u16, &str, &str)] = &[
    (400, "BadRequest", "A parameter, header, body or statement that cannot be used; `detail` says what is accepted."),
    (401, "Unauthorized", "Credentials are missing or wrong, or too many were wrong before. `WWW-Authenticate` has the two schemes, Basic and Bearer; `Retry-After` the seconds to wait when too many have failed."),
    (403, "Forbidden", "The header `Origin` names another site, or the role of the user does not suffice."),
    (404, "NotFound", "There is no such report or request, or no such data is kept."),
    (406, "NotAcceptable", "None of the media types in `Accept` can be had."),
    (408, "TooSlow", "The body did not arrive in time."),
    (409, "Conflict", "A report of that name exists, or this one cannot be dropped, or there is no room for more; `detail` says which."),
    (413, "TooLarge", "The body is larger than 1 MiB, or the rows of a statement are too many."),
    (414, "UriTooLong", "The request target is longer than 8 KiB."),
    (415, "NotJson", "The header `content-type: application/json` is missing."),
    (421, "Misdirected", "The header `Host` is not an IP address, `localhost` or a name that the daemon is configured for."),
    (431, "HeadersTooLarge", "The headers are larger than 16 KiB, or more than 100: then without a body."),
    (500, "Failed", "A defect of the daemon; its log says more."),
    (501, "NoSql", "The program was built without SQL, or SQL is switched off."),
    (503, "Busy", "Too much is being asked at once; ask again a moment later."),
    (507, "NotKept", "The change could not be written to `state.dir` (no space, read-only, ..) and was not made; `detail` says why."),
];

/// What any request may be refused with.
const COMMON_REFUSALS: [u16; 7] = [400, 401, 403, 414, 421, 431, 500];

/// The document as it is sent.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| format!("{:#}\n", document()).into());

/// `GET /api/v1/openapi.json`
pub(in crate::http) async fn read(_: NoParams) -> Answer {
    let mut response = Response::new(Body::from(DOCUMENT.clone()));
    let media_type = HeaderValue::from_static(Format::Json.media_type());
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    Ok(response)
}

fn document() -> Json {
    let mut paths: Map<String, Json> = Map::new();
    for operation in OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = described_operation(operation);
    }
    let refusal = |(_, name, meaning): &(u16, &str, &str)| {
        let content = json!({"application/problem+json": {"schema": of_type("Problem")}});
        (
            (*name).to_owned(),
            json!({"description": meaning, "content": content}),
        )
    };
    let scheme =
        |scheme, meaning| json!({"type": "http", "scheme": scheme, "description": meaning});
    let tags = [
        "health", "overview", "reports", "requests", "sql", "control",
    ];
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "pinbad",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Live statistics of PHP requests, as the Pinba extension reports them.",
            "description": DESCRIPTION,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "tags": tags.map(|name| json!({"name": name})),
        "paths": paths,
        "components": {
            "responses": REFUSALS.iter().map(refusal).collect::<Map<_, _>>(),
            "schemas": schemas::all(),
            "securitySchemes": {
                "basic": scheme("basic", "Name and password of a [[user]] of the configuration."),
                "bearer": scheme("bearer", "The token of a [[user]] of the configuration."),
            },
        },
        "security": [{"basic": []}, {"bearer": []}, {}],
    })
}

fn described_operation(operation: &Operation) -> Json {
    let of_schema = |schema: &str| json!({"application/json": {"schema": of_type(schema)}});
    let text = |media_type: &&str| {
        (
            (*media_type).to_owned(),
            json!({"schema": {"type": "string"}}),
        )
    };
    let mut answer = json!({"description": "The answer."});
    answer["content"] = match operation.content {
        Content::Json(schema) => of_schema(schema),
        Content::Text(media_types) => media_types.iter().map(text).collect::<Map<_, _>>().into(),
        Content::Rows(schema, headers) => {
            let header = |name: &&str| {
                let meaning = format!("`{}` (not in JSON answers).", name.replace('-', "_"));
                let header = json!({"description": meaning, "schema": {"type": "number"}});
                (format!("x-pinbad-{name}"), header)
            };
            answer["headers"] = headers.iter().map(header).collect::<Map<_, _>>().into();
            let mut content = of_schema(schema);
            let lines = "One row object a line.";
            content["application/x-ndjson"] =
                json!({"schema": described(of_type("string"), lines)});
            let lines = "RFC 4180: a line of column names, then a line a row. NULL is an empty field, an empty text two quotes.";
            content["text/csv"] = json!({"schema": described(of_type("string"), lines)});
            if operation.tag == "sql" {
                content[Format::Arrow.media_type()] = json!({"schema": of_type("string")});
            }
            content
        }
    };
    let status = if operation.id == "createReport" {
        "201"
    } else {
        "200"
    };
    let mut responses = Map::from_iter([(status.to_owned(), answer)]);
    let mut refusals: Vec<u16> = COMMON_REFUSALS.to_vec();
    refusals.extend(operation.refusals);
    for (status, name, _) in REFUSALS {
        if refusals.contains(status) {
            let reference = json!({"$ref": format!("#/components/responses/{name}")});
            responses.insert(status.to_string(), reference);
        }
    }
    let mut described = json!({
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "responses": responses,
    });
    if !operation.description.is_empty() {
        described["description"] = operation.description.into();
    }
    let parameters = operation.parameters.split_whitespace();
    let parameters: Vec<Json> = parameters
        .filter_map(|key| parameter(key, operation))
        .collect();
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(schema) = operation.body {
        described["requestBody"] = json!({"required": true, "content": of_schema(schema)});
    }
    described
}

fn parameter(key: &str, operation: &Operation) -> Option<Json> {
    let (_, name, word, meaning, example) = PARAMETERS.iter().find(|known| known.0 == key)?;
    let name = if name.is_empty() { key } else { name };
    let in_path = operation.path.contains(&format!("{{{name}}}"));
    let choices: Vec<&str> = word.split(' ').collect();
    let schema = match choices[..] {
        [word] => of_type(word),
        _ => json!({"enum": choices, "default": choices[0]}),
    };
    let mut parameter = json!({
        "name": name,
        "in": if in_path { "path" } else { "query" },
        "description": meaning,
        "schema": schema,
    });
    if in_path || key == "query" {
        parameter["required"] = true.into();
    }
    if *word == "object" {
        parameter["schema"]["additionalProperties"] = of_type("string");
        parameter["style"] = "form".into();
        parameter["explode"] = true.into();
    }
    if !example.is_empty() {
        parameter["example"] = (*example).into();
    }
    Some(parameter)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `$ref` in the document.
    fn refs<'a>(value: &'a Json, found: &mut Vec<&'a str>) {
        match value {
            Json::Object(members) => {
                found.extend(members.get("$ref").and_then(Json::as_str));
                members.values().for_each(|member| refs(member, found));
            }
            Json::Array(items) => items.iter().for_each(|item| refs(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_component_is_used() {
        let document: Json = serde_json::from_slice(&DOCUMENT).unwrap();
        let mut found = Vec::new();
        refs(&document, &mut found);
        for reference in &found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        for (kind, components) in document["components"].as_object().unwrap() {
            // Those are named in `security`, not referred to.
            if kind == "securitySchemes" {
                let named = document["security"].as_array().unwrap();
                for name in components.as_object().unwrap().keys() {
                    assert!(named.iter().any(|it| it.get(name).is_some()), "{name}");
                }
                continue;
            }
            for name in components.as_object().unwrap().keys() {
                let reference = format!("#/components/{kind}/{name}");
                assert!(
                    found.contains(&reference.as_str()),
                    "{reference} is not used"
                );
            }
        }
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    }
}
