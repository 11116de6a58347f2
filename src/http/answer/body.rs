//! The body of an answer: small ones in one piece with their length, large ones written as the
//! client reads them.
//!
//! A table is encoded row by row. If it is complete after [`WHOLE_BYTES`], it goes out in one
//! piece. Of a larger answer only the start is written at first; the rest follows in pieces of
//! [`PIECE_BYTES`], [`PIECES_AHEAD`] of them written while one is sent. A client that reads slowly
//! costs the memory of its table and those pieces, and blocks no thread. The number of such answers
//! is bounded by permits (`concurrency_limit.rs`), and their duration by the connection
//! (`connection.rs`).

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, Response};
use futures::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use serde_json::Value as Json;

use super::arrow::{self, ArrowRows};
use super::format::Format;
use super::json::bare;
use super::writer::RowWriter;
use crate::http::concurrency_limit::Permit;
use crate::query::table::Table;

/// Answers up to about this size are sent in one piece: 0.1 ms of work. Longer ones are written by
/// all processors at once.
pub(in crate::http) const WHOLE_BYTES: usize = 96 * 1024;

/// Approximate size of a piece of a larger answer: some 0.2 ms of work, so that writing it does not
/// hold up other connections.
pub(in crate::http) const PIECE_BYTES: usize = 192 * 1024;

/// Rows whose numbers are read at once, column by column.
const AT_ONCE: usize = 128;

/// Pieces written while an earlier one is being sent, each on any free thread.
const PIECES_AHEAD: usize = 2;

/// A body that keeps `guard` until all of it is taken, or it is abandoned.
pub(in crate::http) fn holding(body: Body, guard: impl Send + 'static) -> Body {
    Body::new(body.map_err(move |error| {
        let _ = &guard;
        error
    }))
}

/// The source of an answer, shared by the pieces being written.
struct Source {
    table: Box<dyn Table>,
    /// The rows to write, in order.
    rows: Vec<usize>,
    writer: RowWriter,
    /// The end of the document, or of the Arrow stream.
    tail: Vec<u8>,
    /// The Arrow encoder, if that format is wanted.
    arrow: Option<ArrowRows>,
}

impl Source {
    /// Writes rows from `first` on until `out` has `bytes` bytes or `last` is reached, and the end
    /// of the answer after its last row. Returns the row after those written.
    fn write(&self, out: &mut Vec<u8>, first: usize, last: usize, bytes: usize) -> usize {
        let table = self.table.as_ref();
        let rows = &self.rows[..last.min(self.rows.len())];
        let at_once = self.arrow.as_ref().map_or(AT_ONCE, |_| arrow::ROWS);
        let mut next = first;
        while next < rows.len() && out.len() < bytes {
            let some = &rows[next..(next + at_once).min(rows.len())];
            if let Some(arrow) = &self.arrow {
                let written = arrow.write(out, table, some);
                written.expect("arrays are made of the types of the schema");
                next += some.len();
                continue;
            }
            let cells = self.writer.rows(table, some);
            for row in 0..some.len() {
                if out.len() >= bytes {
                    break;
                }
                self.writer.row(out, &cells, row, next == 0);
                next += 1;
            }
        }
        if next == self.rows.len() {
            self.writer.end(out, next == 0, &self.tail);
        }
        next
    }
}

/// The rows of one table, encoded as far as they are written.
pub(in crate::http) struct RowBody {
    source: Arc<Source>,
    /// The start of the body.
    ready: Vec<u8>,
    /// The row after those in `ready`.
    next: usize,
    /// Members of the document for formats that have no place for them.
    headers: HeaderMap,
}

impl RowBody {
    /// Starts the answer and writes up to `WHOLE_BYTES`, or all of it if it is no longer than that.
    /// In JSON it is an object of the members of `head`, `rows`, and the members of `tail`; the
    /// other formats have the numbers among them, and the texts of `tail`, as headers: `as_of` as
    /// `x-pinbad-as-of`.
    pub(in crate::http) fn start(
        table: Box<dyn Table>,
        rows: Vec<usize>,
        writer: RowWriter,
        head: &Json,
        tail: &Json,
    ) -> Self {
        let mut ready = Vec::new();
        let mut headers = HeaderMap::new();
        let mut end = Vec::new();
        if writer.format == Format::Json {
            ready = head.to_string().into_bytes();
            ready.pop();
            ready.extend_from_slice(b",\"rows\":");
            end = tail.to_string().into_bytes();
            end[0] = b',';
            if end == b",}" {
                end.remove(0);
            }
            end.push(b'\n');
        } else {
            let members = |of: &Json| of.as_object().cloned().into_iter().flatten();
            let texts = members(tail).filter(|(_, value)| value.is_string());
            let numbers = members(head).chain(members(tail));
            for (name, value) in numbers.filter(|(_, value)| value.is_number()).chain(texts) {
                let name = format!("x-pinbad-{}", name.replace('_', "-"));
                let name = HeaderName::try_from(name).expect("names of members are plain");
                headers.insert(name, bare(&value).parse().expect("a number, or a plain text"));
            }
        }
        writer.start(&mut ready);
        let arrow = (writer.format == Format::Arrow).then(|| {
            let columns = writer.columns().collect();
            let arrow = ArrowRows::new(table.as_ref(), columns, &mut ready, &mut end);
            arrow.expect("a schema of numbers and texts can be written")
        });
        let source = Source { table, rows, writer, tail: end, arrow };
        let next = source.write(&mut ready, 0, usize::MAX, WHOLE_BYTES);
        Self { source: Arc::new(source), ready, next, headers }
    }

    /// Whether everything is written.
    pub(in crate::http) fn is_whole(&self) -> bool {
        self.next == self.source.rows.len()
    }

    /// The response. One that is not whole holds the permit until it is sent or abandoned.
    pub(in crate::http) fn into_response(self, permit: Permit) -> Response<Body> {
        let format = self.source.writer.format;
        let headers = self.headers.clone();
        let body = if self.is_whole() { Body::from(self.ready) } else { self.stream(permit) };
        let mut response = format.response(body);
        response.headers_mut().extend(headers);
        response
    }

    fn stream(self, permit: Permit) -> Body {
        // Rows are about as long as those at the start.
        let row_bytes = (self.ready.len() / self.next.max(1)).max(1);
        let step = (PIECE_BYTES / row_bytes).max(1);
        let rows = self.source.rows.len();
        let source = self.source;
        let rest = (self.next..rows).step_by(step).map(move |first| {
            let (source, last) = (Arc::clone(&source), (first + step).min(rows));
            let _until_sent = &permit;
            tokio::spawn(async move {
                let mut piece = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
                source.write(&mut piece, first, last, usize::MAX);
                piece
            })
        });
        let start = self.ready;
        let start = std::iter::once_with(move || tokio::spawn(async move { start }));
        Body::from_stream(stream::iter(start.chain(rest)).buffered(1 + PIECES_AHEAD))
    }
}
