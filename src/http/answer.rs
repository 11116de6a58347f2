//! An answer on its way out: small ones as one piece with their length, large ones written as the client takes them.
//!
//! A table is turned into bytes row by row. What is done after [`WHOLE_BYTES`] goes out in one piece. Of a larger answer
//! only the beginning is written at first; the rest follows in pieces of [`PIECE_BYTES`], [`PIECES_AHEAD`] of them written
//! while one is sent. A client that reads slowly costs the memory of its table and those pieces, and no thread waits for it.
//! How many such answers there are at once is bounded by permits (`gate.rs`), and how long one may take by the
//! connection (`connection.rs`). A handler never sees a difference: both are a [`Response`].

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use hyper::body::Frame;
use tokio::task::{JoinError, JoinHandle};

use super::error::Problem;
use super::gate::Permit;
use super::order::Rows;
use super::writer::{Format, Writer};
use crate::query::table::Table;

/// Answers up to about this size are sent in one piece: 0.1 ms of work. What is longer is written by all processors at once.
pub(super) const WHOLE_BYTES: usize = 96 * 1024;

/// What a piece of a larger answer has, about: some 0.2 ms of work, so that writing it does not hold up other connections.
const PIECE_BYTES: usize = 192 * 1024;

/// Pieces that are written while an earlier one is being sent, each on whichever thread is free.
const PIECES_AHEAD: usize = 2;

/// The format that a request asks for: the parameter `format` if there is one, else the best that `Accept` names.
pub(super) fn format(parameter: Option<&str>, headers: &HeaderMap) -> Result<Format, Problem> {
    if let Some(name) = parameter {
        return Format::named(name).ok_or_else(|| {
            Problem::parameter("format", format!("{name:?} is not a format"))
                .accepting(Format::NAMES)
        });
    }
    let mut best: Option<(Format, u16)> = None;
    let mut named = false;
    for header in headers.get_all(ACCEPT) {
        for range in header.to_str().unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let format = match parts
                .next()
                .unwrap_or_default()
                .to_ascii_lowercase()
                .as_str()
            {
                "" => continue,
                "application/json" | "application/*" | "*/*" => Some(Format::Json),
                "application/x-ndjson" | "application/ndjson" | "application/jsonl" => {
                    Some(Format::Ndjson)
                }
                "text/csv" | "text/*" => Some(Format::Csv),
                _ => None,
            };
            named = true;
            let weight = parts
                .find_map(|part| part.strip_prefix("q="))
                .map_or(1000, weight);
            if let Some(format) = format
                && weight > best.map_or(0, |(_, weight)| weight)
            {
                best = Some((format, weight));
            }
        }
    }
    match best {
        Some((format, _)) => Ok(format),
        None if !named => Ok(Format::Json),
        None => Err(Problem::new(
            StatusCode::NOT_ACCEPTABLE,
            "none of the media types in Accept can be had here",
        )
        .accepting(["application/json", "application/x-ndjson", "text/csv"])),
    }
}

/// `0.25` as 250; what is no such number weighs nothing.
fn weight(text: &str) -> u16 {
    let weight = text.trim().parse::<f32>().unwrap_or(0.0);
    (weight.clamp(0.0, 1.0) * 1000.0) as u16
}

/// What an answer is written from; shared by the pieces that are being written.
struct Sheet {
    table: Box<dyn Table>,
    rows: Rows,
    writer: Writer,
    /// What closes the answer.
    tail: Vec<u8>,
}

impl Sheet {
    /// Writes rows from `first` on until `out` has `bytes` bytes or `last` is reached, and what closes the answer after the last
    /// of all. Returns the row after those written.
    fn write(&self, out: &mut Vec<u8>, first: usize, last: usize, bytes: usize) -> usize {
        let rows = self.rows.len();
        let mut next = first;
        while next < last.min(rows) && out.len() < bytes {
            if let Some(row) = self.rows.get(next) {
                self.writer.row(out, self.table.as_ref(), row);
            }
            next += 1;
            out.extend_from_slice(self.writer.line_end(next == rows));
        }
        if next == rows {
            out.extend_from_slice(&self.tail);
        }
        next
    }
}

/// The rows of one table as bytes, as far as they are written.
pub(super) struct RowBytes {
    sheet: Arc<Sheet>,
    /// What is written: the beginning.
    ready: Vec<u8>,
    /// The row after those in `ready`.
    next: usize,
    /// Beside the body, for formats that have no place for them.
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl RowBytes {
    /// Starts the answer and writes its beginning: up to `WHOLE_BYTES`, all of it if it is no longer than that. In JSON `head`
    /// goes before the array of rows (`{"report":...,"rows":`) and `tail` behind it.
    pub(super) fn start(
        table: Box<dyn Table>,
        rows: Rows,
        writer: Writer,
        head: &[u8],
        tail: &[u8],
    ) -> Self {
        let json = writer.format() == Format::Json;
        let mut ready = Vec::new();
        let mut closing = Vec::new();
        if json {
            ready.extend_from_slice(head);
            ready.push(b'[');
            ready.extend_from_slice(if rows.len() == 0 { b"" } else { b"\n" });
            closing.push(b']');
            closing.extend_from_slice(tail);
        }
        writer.names(&mut ready, table.as_ref());
        let sheet = Sheet {
            table,
            rows,
            writer,
            tail: closing,
        };
        let next = sheet.write(&mut ready, 0, usize::MAX, WHOLE_BYTES);
        Self {
            sheet: Arc::new(sheet),
            ready,
            next,
            headers: Vec::new(),
        }
    }

    /// Adds a header to the answer, unless it is JSON, which says the same in a member.
    pub(super) fn header(&mut self, name: &'static str, value: &[u8]) {
        if self.sheet.writer.format() != Format::Json
            && let Ok(value) = HeaderValue::from_bytes(value)
        {
            self.headers.push((HeaderName::from_static(name), value));
        }
    }

    /// Whether all of it is written.
    pub(super) fn is_whole(&self) -> bool {
        self.next == self.sheet.rows.len()
    }

    /// The answer. One that is not whole holds on to the permit until it is sent or given up.
    pub(super) fn into_response(mut self, permit: Permit) -> Response<Body> {
        let media_type = self.sheet.writer.format().media_type();
        let more = std::mem::take(&mut self.headers);
        let body = if self.is_whole() {
            Body::from(self.ready)
        } else {
            Body::new(RowStream::new(self, permit))
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        headers.insert(VARY, HeaderValue::from_static("accept"));
        headers.extend(more);
        response
    }
}

/// The body of an answer that is written while it is sent.
struct RowStream {
    sheet: Arc<Sheet>,
    /// What is written and not sent: the beginning.
    ready: Vec<u8>,
    /// Pieces that are being written, in order.
    ahead: VecDeque<JoinHandle<Vec<u8>>>,
    /// The row after those of the last piece.
    next: usize,
    /// Rows in a piece.
    step: usize,
    _permit: Permit,
}

impl RowStream {
    fn new(bytes: RowBytes, permit: Permit) -> Self {
        // Rows are about as long as those at the beginning.
        let row_bytes = (bytes.ready.len() / bytes.next.max(1)).max(1);
        Self {
            sheet: bytes.sheet,
            ready: bytes.ready,
            ahead: VecDeque::with_capacity(PIECES_AHEAD),
            next: bytes.next,
            step: (PIECE_BYTES / row_bytes).max(1),
            _permit: permit,
        }
    }

    /// Has the next pieces written.
    fn go_ahead(&mut self) {
        let rows = self.sheet.rows.len();
        while self.ahead.len() < PIECES_AHEAD && self.next < rows {
            let sheet = Arc::clone(&self.sheet);
            let (first, last) = (self.next, (self.next + self.step).min(rows));
            self.next = last;
            self.ahead.push_back(tokio::spawn(async move {
                let mut piece = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
                sheet.write(&mut piece, first, last, usize::MAX);
                piece
            }));
        }
    }
}

impl HttpBody for RowStream {
    type Data = Bytes;
    type Error = JoinError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, JoinError>>> {
        self.go_ahead();
        if !self.ready.is_empty() {
            let piece = std::mem::take(&mut self.ready);
            return Poll::Ready(Some(Ok(Frame::data(piece.into()))));
        }
        let Some(piece) = self.ahead.front_mut() else {
            return Poll::Ready(None);
        };
        let written = ready!(Pin::new(piece).poll(context));
        self.ahead.pop_front();
        Poll::Ready(Some(written.map(|piece| Frame::data(piece.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_empty() && self.ahead.is_empty() && self.next == self.sheet.rows.len()
    }
}

/// A short JSON answer.
pub(super) fn json(status: StatusCode, mut body: Vec<u8>) -> Response<Body> {
    body.push(b'\n');
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static(Format::Json.media_type());
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_chooses_the_format() {
        let chosen = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
            format(None, &headers).map_err(|problem| problem.status.as_u16())
        };
        assert_eq!(chosen("*/*"), Ok(Format::Json));
        assert_eq!(
            chosen("text/html,application/xhtml+xml,*/*;q=0.8"),
            Ok(Format::Json)
        );
        assert_eq!(chosen("text/csv"), Ok(Format::Csv));
        assert_eq!(
            chosen("TEXT/CSV; header=present ; q=0.5, application/json;q=0.4"),
            Ok(Format::Csv)
        );
        assert_eq!(
            chosen("application/x-ndjson, */*;q=0.1"),
            Ok(Format::Ndjson)
        );
        assert_eq!(
            chosen("text/csv;q=0, application/json;q=0.1"),
            Ok(Format::Json)
        );
        assert_eq!(chosen("image/png"), Err(406));
        assert_eq!(chosen("application/json;q=0"), Err(406));
        assert_eq!(format(None, &HeaderMap::new()).unwrap(), Format::Json);
        assert_eq!(format(Some("csv"), &HeaderMap::new()).unwrap(), Format::Csv);
        assert!(format(Some("xml"), &HeaderMap::new()).is_err());
    }
}
