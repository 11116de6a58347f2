//! `/api/v1/openapi.json`: this interface described for programs, in OpenAPI 3.1.
//!
//! The document is made, once, from the tables of `openapi.toml`: operations, parameters, refusals, and the members of objects. Tests
//! hold its paths, methods, parameters and members against what the routes do.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::http::answer::format::Format;
use crate::http::app::Answer;
use crate::http::params::NoParams;

/// The document as it is sent.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    let tables: Tables =
        toml::from_str(include_str!("openapi.toml")).expect("the tables are well formed");
    format!("{:#}\n", tables.document()).into()
});

/// `GET /api/v1/openapi.json`
pub(in crate::http) async fn read(_: NoParams) -> Answer {
    let mut response = Response::new(Body::from(DOCUMENT.clone()));
    let media_type = HeaderValue::from_static(Format::Json.media_type());
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    Ok(response)
}

/// What is in `openapi.toml`.
#[derive(Deserialize)]
struct Tables {
    info: Json,
    security: Json,
    operations: Vec<Operation>,
    parameters: HashMap<String, Parameter>,
    refusals: Vec<Refusal>,
    objects: Vec<Object>,
    /// Schemas that are not just a list of members.
    schemas: Map<String, Json>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Operation {
    path: String,
    method: Option<String>,
    id: String,
    tag: String,
    summary: String,
    description: String,
    /// Keys of `parameters`, with blanks between them.
    parameters: String,
    /// The schema of the body.
    body: Option<String>,
    /// The answer is JSON of this schema,
    json: Option<String>,
    /// or rows: JSON of this schema, or the other formats,
    rows: Option<String>,
    /// which have these numbers as headers;
    headers: Vec<String>,
    /// or text of these media types.
    text: Vec<String>,
    /// Refusals beside those that any request may get.
    refusals: Vec<u16>,
}

#[derive(Deserialize)]
struct Parameter {
    /// Where it is not the key.
    name: Option<String>,
    #[serde(rename = "type")]
    word: String,
    meaning: String,
    example: Option<String>,
}

#[derive(Deserialize)]
struct Refusal {
    status: u16,
    name: String,
    meaning: String,
    /// Whether any request may get it.
    #[serde(default)]
    any: bool,
}

/// Name, type, meaning.
type Member = (String, String, String);

#[derive(Deserialize, Default)]
#[serde(default)]
struct Object {
    name: String,
    meaning: String,
    /// Members that are always there.
    required: Vec<Member>,
    /// Those that may be, or the name of the object that has the same ones.
    optional: Vec<Member>,
    optional_of: String,
}

impl Tables {
    fn document(&self) -> Json {
        let mut paths: Map<String, Json> = Map::new();
        for operation in &self.operations {
            let path = paths.entry(&operation.path).or_insert_with(|| json!({}));
            path[operation.method.as_deref().unwrap_or("get")] = self.operation(operation);
        }
        let refusal = |refusal: &Refusal| {
            let content = json!({"application/problem+json": {"schema": of_type("Problem")}});
            let described = json!({"description": refusal.meaning, "content": content});
            (refusal.name.clone(), described)
        };
        let mut schemas: Map<String, Json> = self
            .objects
            .iter()
            .map(|object| (object.name.clone(), self.schema(object)))
            .collect();
        schemas.extend(self.schemas.clone());
        let tags = [
            "health", "overview", "reports", "requests", "sql", "control",
        ];
        let mut document = json!({
            "openapi": "3.1.0",
            "info": self.info,
            "servers": [{"url": "/"}],
            "tags": tags.map(|name| json!({"name": name})),
            "paths": paths,
            "components": {
                "responses": self.refusals.iter().map(refusal).collect::<Map<_, _>>(),
                "schemas": schemas,
                "securitySchemes": self.security,
            },
            "security": [{"basic": []}, {"bearer": []}, {}],
        });
        document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
        document
    }

    fn operation(&self, operation: &Operation) -> Json {
        let status = match operation.id.as_str() {
            "createReport" => "201",
            _ => "200",
        };
        let mut responses = Map::from_iter([(status.to_owned(), answer(operation))]);
        for refusal in &self.refusals {
            if refusal.any || operation.refusals.contains(&refusal.status) {
                let reference = format!("#/components/responses/{}", refusal.name);
                responses.insert(refusal.status.to_string(), json!({"$ref": reference}));
            }
        }
        let mut described = json!({
            "operationId": operation.id,
            "tags": [operation.tag],
            "summary": operation.summary,
            "responses": responses,
        });
        describe(&mut described, &operation.description);
        let keys = operation.parameters.split_whitespace();
        let parameters: Vec<Json> = keys.map(|key| self.parameter(key, operation)).collect();
        if !parameters.is_empty() {
            described["parameters"] = parameters.into();
        }
        if let Some(schema) = &operation.body {
            described["requestBody"] = json!({"required": true, "content": json_of(schema)});
        }
        described
    }

    fn parameter(&self, key: &str, operation: &Operation) -> Json {
        let parameter = &self.parameters[key];
        let name = parameter.name.as_deref().unwrap_or(key);
        let in_path = operation.path.contains(&format!("{{{name}}}"));
        let mut described = json!({
            "name": name,
            "in": if in_path { "path" } else { "query" },
            "description": parameter.meaning,
            "schema": of_type(&parameter.word),
        });
        if in_path || key == "query" {
            described["required"] = true.into();
        }
        if parameter.word == "object" {
            described["schema"]["additionalProperties"] = of_type("string");
            described["style"] = "form".into();
            described["explode"] = true.into();
        }
        if let Some(example) = &parameter.example {
            described["example"] = example.as_str().into();
        }
        described
    }

    fn schema(&self, object: &Object) -> Json {
        let others = self
            .objects
            .iter()
            .filter(|other| other.name == object.optional_of);
        let optional = others.chain([object]).flat_map(|other| &other.optional);
        let mut members: Map<String, Json> = Map::new();
        // What is required may be of another type than where it need not be there.
        for (name, word, meaning) in optional.chain(&object.required) {
            members.insert(name.clone(), of_type(word));
            describe(&mut members[name], meaning);
        }
        let required: Vec<&String> = object.required.iter().map(|(name, ..)| name).collect();
        let mut schema = json!({"type": "object", "properties": members, "required": required});
        describe(&mut schema, &object.meaning);
        schema
    }
}

/// What an operation answers with.
fn answer(operation: &Operation) -> Json {
    let mut answer = json!({"description": "The answer."});
    let string = || of_type("string");
    if let Some(schema) = &operation.json {
        answer["content"] = json_of(schema);
    } else if let Some(schema) = &operation.rows {
        let mut headers = Map::new();
        for name in &operation.headers {
            let meaning = format!("`{}` (not in JSON answers).", name.replace('-', "_"));
            let header = json!({"description": meaning, "schema": {"type": "number"}});
            headers.insert(format!("x-pinbad-{name}"), header);
        }
        answer["headers"] = headers.into();
        answer["content"] = json_of(schema);
        let mut add = |format: &str, meaning| {
            answer["content"][format] = json!({"schema": string()});
            describe(&mut answer["content"][format]["schema"], meaning);
        };
        add("application/x-ndjson", "One row object a line.");
        add(
            "text/csv",
            "RFC 4180: a line of column names, then a line a row. NULL is an empty field, an empty text two quotes.",
        );
        if operation.tag == "sql" {
            add(Format::Arrow.media_type(), "");
        }
    } else {
        let text = |media_type: &String| (media_type.clone(), json!({"schema": string()}));
        answer["content"] = operation
            .text
            .iter()
            .map(text)
            .collect::<Map<_, _>>()
            .into();
    }
    answer
}

fn json_of(schema: &str) -> Json {
    json!({"application/json": {"schema": of_type(schema)}})
}

fn describe(what: &mut Json, meaning: &str) {
    if !meaning.is_empty() {
        what["description"] = meaning.into();
    }
}

/// The schema of a type as it is written in `openapi.toml`.
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
