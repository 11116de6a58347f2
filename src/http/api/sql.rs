//! `/api/v1/sql`: runs a statement and streams its rows.
//!
//! The engine runs the statement on its own threads; here its batches become bytes. Up to
//! [`WHOLE_BYTES`] the answer is held back, so that an early error becomes a problem document;
//! later errors can only break the answer off, which every client notices, since its end is
//! missing. A client that leaves ends its query.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use futures::{StreamExt as _, stream};
use serde_json::Value as Json;
use tracing::{error, warn};

use crate::access::{Pass, Role};
use crate::http::answer::batches::BatchWriter;
use crate::http::answer::body::WHOLE_BYTES;
use crate::http::answer::format::{Answer, Format, ok};
use crate::http::app::App;
use crate::http::error::Problem;
use crate::http::params::{Params, no_others};
use crate::http::request_checks::JsonBody;
use crate::sql::{Literal, Reply, Rows, Session, SqlError};

/// Most values for `?`.
const VALUES_MAX: usize = 65_535;

const FORMATS: &[Format] = &[Format::Json, Format::Ndjson, Format::Csv, Format::Arrow];

/// `GET /api/v1/sql`
pub(in crate::http) async fn query(
    State(app): State<Arc<App>>,
    mut params: Params,
    headers: HeaderMap,
) -> Answer {
    let format = Format::wanted(params.text("format").as_deref(), &headers, FORMATS)?;
    let text = params.text("query");
    params.finish()?;
    let text = text.ok_or_else(|| {
        let example = "SELECT script_name, req_count FROM report_by_script_name";
        Problem::parameter("query", format!("is missing: the statement, such as {example}"))
    })?;
    answer(&app, &text, &[], format, false).await
}

/// `POST /api/v1/sql`
pub(in crate::http) async fn run(
    State(app): State<Arc<App>>,
    mut params: Params,
    headers: HeaderMap,
    pass: Option<Extension<Pass>>,
    JsonBody(body): JsonBody,
) -> Answer {
    let format = Format::wanted(params.text("format").as_deref(), &headers, FORMATS)?;
    params.finish()?;
    let change = pass.is_some_and(|Extension(pass)| pass.identity.role >= Role::Admin);
    let Some(Json::Object(mut members)) = body else {
        let why = r#"the body is not an object; accepted: {"query": "SELECT ...", "values": [..]}"#;
        return Err(Problem::bad(why));
    };
    let Some(Json::String(statement)) = members.remove("query") else {
        return Err(Problem::parameter("query", "is missing or is not text"));
    };
    let values = match members.remove("values").unwrap_or_default() {
        Json::Null => Vec::new(),
        Json::Array(values) if values.len() <= VALUES_MAX => values,
        _ => {
            let why = format!("is not an array of at most {VALUES_MAX} values, one for each ?");
            return Err(Problem::parameter("values", why));
        }
    };
    no_others(&members, &["query", "values"])?;
    let values = values.into_iter().enumerate().map(|(at, value)| literal(at, value));
    let values = values.collect::<Result<Vec<_>, _>>()?;
    answer(&app, &statement, &values, format, change).await
}

fn literal(at: usize, value: Json) -> Result<Literal, Problem> {
    Ok(match value {
        Json::Null => Literal::Null,
        Json::Bool(truth) => Literal::Int(truth.into()),
        Json::String(text) => Literal::Text(text),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => Literal::Int(number),
            (_, Some(number), _) => Literal::UInt(number),
            (_, _, Some(number)) => Literal::Float(number),
            _ => Literal::Text(number.to_string()),
        },
        Json::Array(_) | Json::Object(_) => {
            let why = "is not a value; accepted: null, true, false, a number, a text";
            return Err(Problem::parameter(&format!("values[{at}]"), why));
        }
    })
}

/// Runs a statement. `change` is whether it may change something: not with GET, so that no link
/// can, and not for users who may only read.
async fn answer(
    app: &App,
    statement: &str,
    values: &[Literal],
    format: Format,
    change: bool,
) -> Answer {
    let Some(engine) = app.sql.clone() else {
        let why = "SQL is switched off here: sql.queries_max is 0";
        return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, why));
    };
    let mut session = Session::new(0, "http", change);
    let reply = engine.run(&mut session, statement, values);
    let rows = match reply.await.map_err(problem)? {
        Reply::Rows(rows) => rows,
        Reply::Done => {
            return ok(serde_json::json!({
                "columns": [], "rows": [], "affected_rows": 0, "info": session.warnings.join("; "),
            }));
        }
    };
    let mut ready = Vec::new();
    let start = BatchWriter::start(format, &rows.columns, &rows.schema, &mut ready);
    let mut batches = Batches { writer: start.map_err(problem)?, rows, done: false };
    while !batches.done && ready.len() < WHOLE_BYTES {
        batches.write(&mut ready).await.map_err(problem)?;
    }
    let body = if batches.done { Body::from(ready) } else { batches.stream(ready) };
    Ok(format.response(body))
}

/// The rows of a streamed answer.
struct Batches {
    writer: BatchWriter,
    rows: Rows,
    done: bool,
}

impl Batches {
    /// Writes more of the answer.
    async fn write(&mut self, out: &mut Vec<u8>) -> Result<(), SqlError> {
        if self.writer.write(out)? {
            return Ok(());
        }
        match self.rows.next().await {
            Some(batch) => self.writer.take(batch?),
            None => {
                self.done = true;
                self.writer.end(out)
            }
        }
    }

    /// The rest of the answer, after the bytes already written.
    fn stream(self, ready: Vec<u8>) -> Body {
        let rest = stream::try_unfold(self, async |mut batches| {
            let mut piece = Vec::new();
            while piece.is_empty() && !batches.done {
                let written = batches.write(&mut piece).await;
                written.inspect_err(|error| {
                    warn!(%error, "A query failed while its answer was being sent.");
                })?;
            }
            Ok::<_, SqlError>((!piece.is_empty()).then_some((piece, batches)))
        });
        Body::from_stream(stream::iter([Ok(ready)]).chain(rest))
    }
}

/// Converts the error of a statement.
fn problem(error: SqlError) -> Problem {
    let status = match error.code {
        1105 => {
            error!(error.message, "A statement failed inside the daemon.");
            return Problem::internal();
        }
        1227 | 1290 => StatusCode::FORBIDDEN,
        1104 => StatusCode::PAYLOAD_TOO_LARGE,
        1016 | 1024 | 1040 | 1041 | 1317 | 1969 | 3024 => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    Problem::new(status, error.message).with("code", error.code).with("sqlstate", error.state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_json() {
        let read = |text: &str| literal(0, serde_json::from_str(text).unwrap());
        assert_eq!(read("null"), Ok(Literal::Null));
        assert_eq!(read("true"), Ok(Literal::Int(1)));
        assert_eq!(read("-7"), Ok(Literal::Int(-7)));
        assert_eq!(read("18446744073709551615"), Ok(Literal::UInt(u64::MAX)));
        assert_eq!(read("0.5"), Ok(Literal::Float(0.5)));
        assert_eq!(read(r#""a""#), Ok(Literal::Text("a".into())));
        assert!(read("[1]").is_err());
        for number in (1..100).map(|it| f64::from(it).sqrt() / 7.0 + 0.3) {
            assert_eq!(read(&number.to_string()), Ok(Literal::Float(number)));
        }
    }

    #[test]
    fn errors_have_their_status_and_their_numbers() {
        let status = |error: SqlError| problem(error).status.as_u16();
        assert_eq!(status(SqlError::parse("x")), 400);
        assert_eq!(status(SqlError::read_only("x")), 403);
        assert_eq!(status(SqlError::busy("x")), 503);
        assert_eq!(status(SqlError::too_many_rows("x")), 413);
        let body = problem(SqlError::no_such_table("x")).body();
        assert!(body.contains(r#""code":1146,"sqlstate":"42S02""#), "{body}");
        assert_lacks!(problem(SqlError::internal("secret")).body() => "secret");
    }
}
