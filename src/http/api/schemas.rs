//! The schemas of the OpenAPI document: the members of every JSON object that is sent or taken.
//!
//! A type is written as a word: `uint`, `string`, the name of another schema; `?` behind it allows null, `[]` means an array of it.

use serde_json::{Map, Value as Json, json};

/// Member, type, meaning.
type Member = (&'static str, &'static str, &'static str);

/// Name, meaning, the members that are always there, and those that may be.
type Object = (
    &'static str,
    &'static str,
    &'static [Member],
    &'static [Member],
);

const AS_OF: Member = ("as_of", "number", "The moment of reading, unix seconds.");
const WINDOW: &str = "0 for tables of kind `status` (`v2_stats`, `v2_active` and the like): they tell what is now, or since the start.";
const REFUSED: &str =
    "Those of them that were not decoded, for `ingest.allow` or `ingest.source_rate_max`.";

#[rustfmt::skip]
const OBJECTS: &[Object] = &[
    ("Problem", "RFC 9457.", &[
        ("type", "string", "Always `about:blank`."),
        ("title", "string", ""),
        ("status", "uint", ""),
        ("detail", "string", "What was wrong and what is accepted."),
    ], &[
        ("parameter", "string", "The parameter or member that is to blame."),
        ("accepted", "string[]", "What would be accepted in its place."),
        ("code", "uint", "MySQL's error number, for what is wrong with a statement."),
        ("sqlstate", "string", "Its SQLSTATE."),
    ]),
    ("Health", "", &[("status", "string", "`ok` or `ready`.")], &[]),
    ("Info", "Columns of table `info`; further ones may be there.", &[
        ("req_count", "uint", ""),
        ("time_total", "number", ""),
        ("ru_utime_total", "number", ""),
        ("ru_stime_total", "number", ""),
        ("time_interval", "uint", ""),
        ("kbytes_total", "number", ""),
        ("memory_footprint", "number", ""),
        ("req_time_median", "number?", ""),
    ], &[]),
    ("Status", "The columns of table `status`, then the daemon's own counters, of which there are more than these.", &[
        ("current_temp_pool_size", "uint", ""),
        ("current_timer_pool_size", "uint", ""),
        ("lost_tmp_records", "uint", ""),
        ("invalid_packets", "uint", ""),
        ("invalid_request_data", "uint", ""),
        ("build_string", "string", ""),
        ("dictionary_size", "uint", ""),
        ("datagrams_received", "uint", ""),
        ("datagrams_accepted", "uint", ""),
        ("datagrams_invalid", "Counts", ""),
        ("requests_decoded", "uint", ""),
        ("requests_invalid", "uint", "Requests refused."),
        ("requests_merged", "uint", ""),
        ("requests_overwritten", "uint", ""),
        ("ring_depth", "uint", ""),
        ("kernel_drops", "uint", ""),
        ("rows_evicted", "uint", ""),
    ], &[
        ("sockets", "object[]", "The same counters for each socket."),
        ("snapshot", "Snapshots?", "What became of snapshots, by which pools, reports and counters survive a restart; null without `state.dir`."),
        ("rewrites", "Rewrite[]", "The name rules of the configuration, in the order in which they are applied."),
    ]),
    ("Snapshots", "", &[], &[
        ("period_seconds", "number", "How often one is written; 0: at the stop only."),
        ("written", "uint", "How many were, since the start."),
        ("failed", "uint", "How many could not be, since the start."),
        ("error", "string?", "Why the last attempt failed, if it did."),
        ("last", "object?", "The last one: `time` (seconds since 1970), `bytes`, `requests` (raw rows in it), `seconds` (it took), `held_seconds` (the longest that it held the lock)."),
        ("restored", "object?", "What came back at the start: `time` of the snapshot, `requests`, `seconds` (it took), `left_out` (each with `report` and `reason`)."),
        ("damaged", "string[]", "Files in `state.dir` that could not be read and were set aside."),
    ]),
    ("Rewrite", "", &[
        ("field", "string", "The text it is about: a field, `+tag` of the request, or `@tag` of timers."),
        ("form", "string", "`pattern`, `cut`, `digits` or `prefix`."),
        ("pattern", "string?", "What is searched for; null for digits."),
        ("replace", "string", "What it becomes."),
        ("stop", "boolean", "Whether no further rule is applied to a text that matched."),
        ("place", "string", "Where it is configured, as file:line."),
        ("tried", "uint", "Texts that it was applied to: each field once a request, each tag value once for all of its uses in a request."),
        ("matched", "uint", "Those that matched."),
        ("remark", "string?", "`never matched` or `matches everything`."),
    ], &[]),
    ("Reports", "", &[("reports", "Report[]", "")], &[]),
    ("Column", "", &[
        ("name", "string", ""),
        ("type", "string", "`bigint`, `int`, `float`, `double`, `varchar(N)` or `text`."),
    ], &[]),
    ("Report", "", &[
        ("name", "string", ""),
        ("kind", "string", "`base`, `tag`, `rtag`, `v2/packet`, `v2/request`, `v2/timer`, `native`, or `status`: a table of the daemon's own counters (`status`, `active_reports`, `v2_stats`, `v2_active`)."),
        ("comment", "string?", "The COMMENT that makes this report in Pinba or pinba2; null for what only the native form can say."),
        ("keys", "string[]", "The key columns."),
        ("window_seconds", "number", WINDOW),
        ("rows", "uint", ""),
        ("columns", "Column[]", ""),
        ("definition", "object?", "The same report in the native form."),
        ("defined", "string", "`built-in`, `configuration` or `run time`."),
        ("persistent", "boolean", "Whether it will be there after a restart."),
        ("complete", "boolean", "False while it is being filled."),
    ], &[]),
    ("Dropped", "", &[
        ("dropped", "string", ""),
        ("persistent", "boolean", "Whether it will stay away after a restart."),
    ], &[]),
    ("ReportRows", "", &[
        ("report", "string", ""),
        ("window_seconds", "number", WINDOW),
        ("covered_seconds", "uint", "Seconds that the data really spans."),
        AS_OF,
        ("total_rows", "uint", "Rows that match the key filters, before `offset` and `limit`."),
        ("rows", "Row[]", ""),
    ], &[]),
    ("RequestRow", "", &[("id", "uint", "")], REQUEST),
    ("RequestRows", "", &[
        AS_OF,
        ("rows", "RequestRow[]", ""),
        ("next_before_id", "uint?", "What to send as `before_id` for the next page; null: nothing older matches."),
    ], &[]),
    ("RequestDetail", "The row of table `request`, with `tags` as an object, and the timers.", &[
        ("id", "uint", ""),
        ("tags", "Tags", ""),
        ("timers", "Timer[]", ""),
    ], REQUEST),
    ("Timer", "", &[
        ("id", "uint", ""),
        ("hit_count", "uint", ""),
        ("value", "number", "All hits together, seconds."),
        ("ru_utime", "number", ""),
        ("ru_stime", "number", ""),
        ("tags", "Tags", ""),
    ], &[]),
    ("SqlRows", "", &[
        ("columns", "Column[]", ""),
        ("rows", "array[]", "An array a row, in column order."),
    ], &[
        ("affected_rows", "uint", "Only for statements that bring no rows."),
        ("info", "string", ""),
    ]),
    ("Statement", "", &[("query", "string", "")], &[("values", "scalar[]", "One for each `?` of the query.")]),
    ("Series", "", &[
        ("report", "string", ""),
        ("key", "object?", "The row that was asked for; null: all rows together."),
        ("metric", "string", ""),
        ("unit", "string", "`s`, `requests/s`, `bytes`, `%` and the like."),
        ("step", "uint", "Seconds from point to point; it may be larger than what was asked for."),
        ("from", "uint", "Unix second at which the first point begins."),
        ("points", "number?[]", "null: not known, or an average of nothing. The last of a step of several seconds may still grow."),
    ], &[]),
    ("Source", "", &[
        ("address", "string?", "IPv4 or IPv6; null: all others together."),
        ("datagrams", "uint", "Datagrams received."),
        ("bytes", "uint", "Their bytes."),
        ("refused", "uint", REFUSED),
    ], &[("silent_seconds", "number", "Since its last datagram.")]),
    ("Sources", "", &[
        ("sources", "Source[]", ""),
        ("other", "Source", "All other sources together."),
    ], &[]),
    ("Reset", "", &[("reset", "boolean", "")], &[]),
];

#[rustfmt::skip]
const REQUEST: &[Member] = &[
    ("hostname", "string", ""),
    ("req_count", "uint", ""),
    ("server_name", "string", ""),
    ("script_name", "string", ""),
    ("doc_size", "number", "KiB"),
    ("mem_peak_usage", "number", "KiB"),
    ("req_time", "number", ""),
    ("ru_utime", "number", ""),
    ("ru_stime", "number", ""),
    ("timers_cnt", "uint", ""),
    ("status", "uint", ""),
    ("memory_footprint", "number", "KiB"),
    ("schema", "string?", ""),
    ("tags_cnt", "uint", ""),
    ("tags", "string", "`name=value,name=value`"),
    ("timestamp", "uint", "Unix seconds."),
];

/// A type as it is written above.
pub(super) fn of_type(word: &str) -> Json {
    if let Some(item) = word.strip_suffix("[]") {
        return json!({"type": "array", "items": of_type(item)});
    }
    if let Some(word) = word.strip_suffix('?') {
        let mut schema = of_type(word);
        if schema.get("$ref").is_some() {
            return json!({"oneOf": [schema, {"type": "null"}]});
        }
        schema["type"] = json!([schema["type"], "null"]);
        return schema;
    }
    match word {
        "uint" => json!({"type": "integer", "minimum": 0}),
        "scalar" => json!({"type": ["null", "boolean", "number", "string"]}),
        "array" | "boolean" | "number" | "object" | "string" => json!({"type": word}),
        name => json!({"$ref": format!("#/components/schemas/{name}")}),
    }
}

/// The same with its meaning.
pub(super) fn described(mut schema: Json, meaning: &str) -> Json {
    if !meaning.is_empty() {
        schema["description"] = meaning.into();
    }
    schema
}

/// All schemas by name.
pub(super) fn all() -> Json {
    let mut schemas = Map::new();
    for (name, meaning, required, optional) in OBJECTS {
        // What is required may be of another type than where it need not be there.
        let members = optional.iter().chain(*required);
        let members = members
            .map(|(name, word, meaning)| ((*name).to_owned(), described(of_type(word), meaning)));
        let members: Map<String, Json> = members.collect();
        let required: Vec<&str> = required.iter().map(|(name, ..)| *name).collect();
        let schema = json!({"type": "object", "properties": members, "required": required});
        schemas.insert((*name).to_owned(), described(schema, meaning));
    }
    let several = json!({"type": "array", "items": {"type": "string"}, "minItems": 2});
    schemas.extend([
        ("Moment".to_owned(), described(
            json!({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "format": "date-time"}]}),
            "Unix seconds, or RFC 3339.",
        )),
        ("Row".to_owned(), described(
            json!({"type": "object", "additionalProperties": {"type": ["string", "number", "null"]}}),
            "Members in column order.",
        )),
        ("Counts".to_owned(), described(
            json!({"type": "object", "additionalProperties": of_type("uint")}),
            "Counts by reason.",
        )),
        ("Tags".to_owned(), described(
            json!({"type": "object", "additionalProperties": {"oneOf": [{"type": "string"}, several]}}),
            "Tags by name. A name that comes more than once has all its values, in packet order, as an array.",
        )),
        ("ReportForm".to_owned(), report_form()),
    ]);
    schemas.into()
}

/// What makes a report.
fn report_form() -> Json {
    let key = json!({
        "type": "object",
        "properties": {
            "key": {"type": "string"},
            "missing": {"enum": ["skip", "skip_empty", "empty"]},
            "occurrence": {"enum": ["first", "last"]},
        },
        "required": ["key"],
        "additionalProperties": false,
    });
    let number = || json!({"type": "number"});
    let text = || json!({"type": "string"});
    let filter = json!({
        "type": "object",
        "properties": {
            "min_time": number(), "max_time": number(), "exclusive": {"type": "boolean"},
            "key": text(), "equals": text(), "differs": text(), "starts_with": text(),
        },
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "description": "A name, and either `comment` or the native form: `level` with the members after it.",
        "properties": {
            "name": {"type": "string", "maxLength": 64, "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]*$"},
            "comment": {
                "type": "string",
                "description": "Any COMMENT of Pinba or pinba2.",
                "examples": ["tag_info:group", "report1::min_time=0.5:90,99"],
            },
            "level": {"enum": ["packet", "request", "timer"]},
            "keys": {
                "type": "array",
                "maxItems": 15,
                "items": {"oneOf": [described(text(), "A request field, `+request_tag` or `@timer_tag`."), key]},
                "examples": [["script_name", "+env", {"key": "@group", "missing": "empty"}]],
            },
            "filters": {
                "type": "array",
                "items": {"oneOf": [text(), filter]},
                "examples": [["min_time=0.5", "max_time<10", "server_name!=test", "+env=prod", "@server=db*"]],
            },
            "percentiles": {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0, "maximum": 100}},
            "window": {
                "type": ["string", "number"],
                "description": "How far back it reaches: `10m`, or seconds. Without it: `pool.stats_history`.",
            },
            "histogram": {
                "type": "string",
                "description": "How times are put into buckets: `log-linear` (the default), `linear=<seconds>:<buckets>` or `hv=<min ms>:<max ms>:<buckets>`.",
            },
        },
        "required": ["name"],
        "additionalProperties": false,
    })
}
