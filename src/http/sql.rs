//! `/api/v1/sql`: a statement in, its rows out while they are made.
//!
//! The engine runs the statement on threads of its own; here its batches become bytes (`batches.rs`). Up to
//! [`WHOLE_BYTES`] the answer is held back, so that what goes wrong soon becomes a problem document; later an error can only
//! break the answer off, which every client notices, since its end is missing. A client that leaves ends its query.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use datafusion::arrow::record_batch::RecordBatch;
use hyper::body::Frame;
use serde_json::Value as Json;
use tracing::{error, warn};

use super::answer::WHOLE_BYTES;
use super::batches::{BatchFormat, BatchWriter};
use super::error::Problem;
use super::guard;
use super::params::Params;
use super::routes::App;
use crate::access::{Pass, Role};
use crate::sql::{Engine, Literal, Reply, Rows, Session, SqlError};

/// Most values for `?`.
const VALUES_MAX: usize = 65_535;

/// What is asked.
#[derive(Debug)]
struct Asked {
    statement: String,
    values: Vec<Literal>,
    format: BatchFormat,
    /// Whether it may change something: a GET may not, so that no link can, and neither may who only reads.
    change: bool,
}

/// `GET /api/v1/sql`, `POST /api/v1/sql`
pub(super) async fn run(
    State(app): State<App>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let Some(engine) = app.sql() else {
        return Err(Problem::new(
            StatusCode::NOT_IMPLEMENTED,
            "SQL is switched off here: sql.queries_max is 0",
        ));
    };
    let asked = read(&app, request).await?;
    answer(engine, asked).await
}

async fn read(app: &App, request: Request) -> Result<Asked, Problem> {
    let mut params = Params::parse(request.uri().query())?;
    let format = params.take("format");
    let format = format_of(format.as_deref(), request.headers())?;
    if request.method() != Method::POST {
        let statement = params.take("query");
        params.finish()?;
        let statement = statement.ok_or_else(|| {
            Problem::parameter(
                "query",
                "is missing: the statement, such as SELECT script_name, req_count FROM report_by_script_name",
            )
        })?;
        return Ok(Asked {
            statement,
            values: Vec::new(),
            format,
            change: false,
        });
    }
    params.finish()?;
    let pass = request.extensions().get::<Pass>();
    let change = pass.is_some_and(|pass| pass.identity.role >= Role::Admin);
    let body = guard::read_json(request, app.body_max()).await?;
    let Some(Json::Object(mut members)) = body else {
        return Err(Problem::new(
            StatusCode::BAD_REQUEST,
            r#"the body is not an object; accepted: {"query": "SELECT ...", "values": [..]}"#,
        ));
    };
    let Some(Json::String(statement)) = members.remove("query") else {
        return Err(Problem::parameter("query", "is missing or is not text"));
    };
    let values = match members.remove("values") {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::Array(values)) if values.len() <= VALUES_MAX => values
            .into_iter()
            .enumerate()
            .map(|(at, value)| literal(at, value))
            .collect::<Result<_, _>>()?,
        Some(_) => {
            return Err(Problem::parameter(
                "values",
                format!(
                    "is not an array of at most {VALUES_MAX} values, one for each ? of the query"
                ),
            ));
        }
    };
    if let Some(name) = members.keys().next() {
        return Err(Problem::parameter(name, "is unknown").accepting(["query", "values"]));
    }
    Ok(Asked {
        statement,
        values,
        format,
        change,
    })
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
            return Err(Problem::parameter(
                &format!("values[{at}]"),
                "is not a value; accepted: null, true, false, a number, a text",
            ));
        }
    })
}

/// The format of the parameter if there is one, else the best that `Accept` names.
fn format_of(parameter: Option<&str>, headers: &HeaderMap) -> Result<BatchFormat, Problem> {
    if let Some(name) = parameter {
        return BatchFormat::named(name).ok_or_else(|| {
            Problem::parameter("format", format!("{name:?} is not a format"))
                .accepting(BatchFormat::NAMES)
        });
    }
    let wants_arrow = headers.get_all(ACCEPT).iter().any(|accept| {
        let media_type = BatchFormat::Arrow.media_type();
        accept
            .to_str()
            .is_ok_and(|accept| accept.contains(media_type))
    });
    if wants_arrow {
        return Ok(BatchFormat::Arrow);
    }
    super::answer::format(None, headers).map(BatchFormat::Rows)
}

async fn answer(engine: Engine, asked: Asked) -> Result<Response<Body>, Problem> {
    let mut session = Session::new(0, "http", asked.change);
    let reply = engine
        .run(&mut session, &asked.statement, &asked.values)
        .await;
    let rows = match reply.map_err(problem)? {
        Reply::Rows(rows) => rows,
        Reply::Done(done) => {
            let body = serde_json::json!({
                "columns": [], "rows": [], "affected_rows": done.affected_rows, "info": done.info,
            });
            return Ok(super::answer::json(
                StatusCode::OK,
                body.to_string().into_bytes(),
            ));
        }
    };
    let mut writer = BatchWriter::new(asked.format, &rows.columns, &rows.schema);
    let mut ready = Vec::new();
    writer.begin(&mut ready).map_err(problem)?;
    let mut stream = BatchStream {
        rows,
        rest: None,
        writer,
        ready,
        done: false,
    };
    while !stream.done && stream.ready.len() < WHOLE_BYTES {
        let written = match stream.rest.take() {
            Some((batch, from)) => stream.write(batch, from),
            None => match stream.rows.next().await {
                Some(batch) => batch.and_then(|batch| stream.write(batch, 0)),
                None => stream.end(),
            },
        };
        written.map_err(problem)?;
    }
    let body = match stream.done {
        true => Body::from(stream.ready),
        false => Body::new(stream),
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(asked.format.media_type()),
    );
    headers.insert(VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// The body of an answer that is made while it is sent.
struct BatchStream {
    rows: Rows,
    /// A batch that was not written to its end, and the row to go on from.
    rest: Option<(RecordBatch, usize)>,
    writer: BatchWriter,
    ready: Vec<u8>,
    done: bool,
}

impl BatchStream {
    /// Writes a piece of a batch, and keeps the rest for later.
    fn write(&mut self, batch: RecordBatch, from: usize) -> Result<(), SqlError> {
        let next = self.writer.batch(&mut self.ready, &batch, from)?;
        self.rest = (next < batch.num_rows()).then_some((batch, next));
        Ok(())
    }

    fn end(&mut self) -> Result<(), SqlError> {
        self.done = true;
        self.writer.end(&mut self.ready)
    }
}

impl HttpBody for BatchStream {
    type Data = Bytes;
    type Error = SqlError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SqlError>>> {
        let stream = &mut *self;
        loop {
            if !stream.ready.is_empty() {
                let piece = std::mem::take(&mut stream.ready);
                return Poll::Ready(Some(Ok(Frame::data(piece.into()))));
            }
            if stream.done {
                return Poll::Ready(None);
            }
            let written = match stream.rest.take() {
                Some((batch, from)) => stream.write(batch, from),
                None => match stream.rows.poll_next(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(batch)) => batch.and_then(|batch| stream.write(batch, 0)),
                    Poll::Ready(None) => stream.end(),
                },
            };
            if let Err(error) = written {
                warn!(%error, "A query failed while its answer was being sent.");
                stream.done = true;
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

/// What a client is told.
fn problem(error: SqlError) -> Problem {
    let status = match error.code {
        1105 => {
            error!(error.message, "A statement failed inside the daemon.");
            return Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the daemon failed to answer; its log says why",
            );
        }
        1227 | 1290 => StatusCode::FORBIDDEN,
        1104 => StatusCode::PAYLOAD_TOO_LARGE,
        1040 | 1041 | 1317 | 1969 => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    Problem::new(status, error.message).with_sql(error.code, error.state)
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
    }

    #[test]
    fn arrow_is_asked_for_by_name_or_by_media_type() {
        let mut headers = HeaderMap::new();
        assert_eq!(format_of(Some("arrow"), &headers), Ok(BatchFormat::Arrow));
        assert!(format_of(Some("parquet"), &headers).is_err());
        let accept = HeaderValue::from_static("application/vnd.apache.arrow.stream");
        headers.insert(ACCEPT, accept);
        assert_eq!(format_of(None, &headers), Ok(BatchFormat::Arrow));
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
        assert!(
            !problem(SqlError::internal("secret"))
                .body()
                .contains("secret")
        );
    }
}
