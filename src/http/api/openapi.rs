//! `/api/v1/openapi.json`: this interface described for programs, in OpenAPI 3.1.
//!
//! The document is built once from the tables of `openapi.toml` and `openapi_objects.toml`:
//! operations, parameters, refusals, and the members of objects. Tests compare its paths, methods,
//! parameters and members with the routes.

use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};

use crate::http::answer::format::{Answer, json_body};
use crate::http::params::NoParams;

/// The tables it is built from.
const TABLES: &str = concat!(include_str!("openapi.toml"), include_str!("openapi_objects.toml"));

/// The media type of pages, which say themselves what is wrong with a request for them.
const PAGE: &str = "text/html";

/// The document as sent.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    let tables: Json = toml::from_str(TABLES).expect("the tables are well formed");
    format!("{:#}\n", document(&tables)).into()
});

/// `GET /api/v1/openapi.json`
pub(in crate::http) async fn read(_: NoParams) -> Answer {
    Ok(json_body(StatusCode::OK, Body::from(DOCUMENT.clone())))
}

/// The rows of one of the tables, or the elements of any other list.
fn list<'a>(of: &'a Json, member: &str) -> impl Iterator<Item = &'a Json> {
    of[member].as_array().into_iter().flatten()
}

fn text<'a>(of: &'a Json, member: &str) -> &'a str {
    of[member].as_str().unwrap_or_default()
}

fn document(tables: &Json) -> Json {
    let mut document = tables["document"].clone();
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    for refusal in list(tables, "refusals") {
        document["components"]["responses"][text(refusal, "name")] = refused(refusal);
    }
    for object in list(tables, "objects") {
        document["components"]["schemas"][text(object, "name")] = schema(tables, object);
    }
    for operation in list(tables, "operations") {
        let method = operation["method"].as_str().unwrap_or("get");
        document["paths"][text(operation, "path")][method] = described(tables, operation);
    }
    document
}

/// A refusal in general.
fn refused(refusal: &Json) -> Json {
    json!({
        "description": refusal["meaning"],
        "content": {"application/problem+json": {"schema": of_type("Problem")}},
    })
}

fn described(tables: &Json, operation: &Json) -> Json {
    let status = match text(operation, "id") {
        "createReport" | "annotate" | "silence" => "201",
        _ => "200",
    };
    let mut described = json!({
        "operationId": operation["id"],
        "tags": [operation["tag"]],
        "summary": operation["summary"],
        "responses": {status: answer(tables, operation)},
    });
    for refusal in list(tables, "refusals") {
        let status = &refusal["status"];
        if refusal["any"] == true || list(operation, "refusals").any(|other| other == status) {
            let reference = format!("#/components/responses/{}", text(refusal, "name"));
            let mut told = json!({"$ref": reference});
            if operation["text"][0] == PAGE {
                told = refused(refusal);
                told["content"][PAGE] = json!({"schema": of_type("string")});
            }
            described["responses"][status.to_string()] = told;
        }
    }
    describe(&mut described, text(operation, "description"));
    let of = |key: &str| parameter(&tables["parameters"][key], key, text(operation, "path"));
    let parameters: Vec<Json> = text(operation, "parameters").split_whitespace().map(of).collect();
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(schema) = operation["body"].as_str() {
        let content = json!({"application/json": {"schema": of_type(schema)}});
        described["requestBody"] = json!({"required": true, "content": content});
    }
    if operation["lines"] == true {
        let content = json!({"application/octet-stream": {}});
        described["requestBody"] = json!({"required": true, "content": content});
    }
    described
}

fn parameter(parameter: &Json, key: &str, path: &str) -> Json {
    let name = parameter["name"].as_str().unwrap_or(key);
    let in_path = path.contains(&format!("{{{name}}}"));
    let mut described = json!({
        "name": name,
        "in": if in_path { "path" } else { "query" },
        "description": parameter["meaning"],
        "schema": of_type(text(parameter, "type")),
    });
    if in_path || key == "query" {
        described["required"] = true.into();
    }
    for bound in ["minimum", "maximum"] {
        if let Some(number) = parameter.get(bound) {
            described["schema"][bound] = number.clone();
        }
    }
    if parameter["type"] == "object" {
        described["schema"]["additionalProperties"] = of_type("string");
        described["style"] = "form".into();
        described["explode"] = true.into();
    }
    if let Some(example) = parameter.get("example") {
        described["example"] = example.clone();
    }
    described
}

fn schema(tables: &Json, object: &Json) -> Json {
    let others = list(tables, "objects").filter(|other| other["name"] == object["optional_of"]);
    let optional = others.chain([object]).flat_map(|it| list(it, "optional"));
    let mut schema = json!({"type": "object", "properties": {}, "required": []});
    // A required member may have another type than an optional one.
    for member in optional.chain(list(object, "required")) {
        let [name, word, meaning] = [0, 1, 2].map(|at| member[at].as_str().unwrap_or_default());
        schema["properties"][name] = of_type(word);
        describe(&mut schema["properties"][name], meaning);
    }
    schema["required"] = list(object, "required").map(|it| it[0].clone()).collect();
    describe(&mut schema, text(object, "meaning"));
    schema
}

/// The response of an operation: JSON; or rows, as JSON of the schema and in other formats, whose
/// headers carry what stands beside the rows; or text of some media types.
fn answer(tables: &Json, operation: &Json) -> Json {
    let mut answer = json!({"description": "The answer.", "content": {}});
    for schema in ["json", "rows"].map(|member| &operation[member]) {
        if let Some(schema) = schema.as_str() {
            answer["content"]["application/json"] = json!({"schema": of_type(schema)});
        }
    }
    for media_type in list(operation, "text").filter_map(Json::as_str) {
        answer["content"][media_type] = json!({"schema": of_type("string")});
    }
    let formats = list(tables, "formats").filter(|format| {
        let tags = format["only"].as_str().map(|tags| tags.split(' '));
        let has_it = tags.is_none_or(|mut tags| tags.any(|tag| operation["tag"] == tag));
        operation.get("rows").is_some() && has_it
    });
    for format in formats {
        let mut schema = of_type("string");
        describe(&mut schema, text(format, "meaning"));
        answer["content"][text(format, "media_type")] = json!({"schema": schema});
    }
    for name in list(operation, "headers").filter_map(Json::as_str) {
        let meaning = format!("`{}` (not in JSON answers).", name.replace('-', "_"));
        let kind = if name == "next-before" { "string" } else { "number" };
        answer["headers"][format!("x-pinbad-{name}")] =
            json!({"description": meaning, "schema": of_type(kind)});
    }
    answer
}

fn describe(what: &mut Json, meaning: &str) {
    if !meaning.is_empty() {
        what["description"] = meaning.into();
    }
}

/// The schema of a type as written in `openapi.toml`.
fn of_type(word: &str) -> Json {
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
        choice if choice.contains(' ') => {
            let words: Vec<&str> = choice.split(' ').collect();
            json!({"enum": words, "default": words[0]})
        }
        name => json!({"$ref": format!("#/components/schemas/{name}")}),
    }
}
