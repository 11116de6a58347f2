//! The formats of answers, and how a request chooses one: by the parameter `format` if given, else
//! by the best match of `Accept`.

use std::fmt::Display;

use axum::body::Body;
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::response::IntoResponse as _;

use crate::http::error::Problem;

/// The result of handlers.
pub(in crate::http) type Answer = Result<Response<Body>, Problem>;

/// The format of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Format {
    /// One object with the rows in an array.
    Json,
    /// One object per line.
    Ndjson,
    /// A line of names, then a line per row (RFC 4180).
    Csv,
    /// An Arrow IPC stream.
    Arrow,
    /// Server-sent events.
    Sse,
}

impl Format {
    /// The formats for rows of tables. The first is for clients that accept anything.
    pub(in crate::http) const ROWS: &[Self] = &[Self::Json, Self::Ndjson, Self::Csv];

    /// The name of the format, its media type, and other names of that.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Json => ("json", "application/json"),
            Self::Ndjson => ("ndjson", "application/x-ndjson application/ndjson application/jsonl"),
            Self::Csv => ("csv", "text/csv"),
            Self::Arrow => ("arrow", "application/vnd.apache.arrow.stream"),
            Self::Sse => ("sse", "text/event-stream"),
        }
    }

    /// Its name in the parameter `format`.
    pub(in crate::http) const fn name(self) -> &'static str {
        self.names().0
    }

    /// The media type without its parameters.
    pub(in crate::http) fn essence(self) -> &'static str {
        self.names().1.split(' ').next().unwrap_or_default()
    }

    /// The `content-type` of its answers.
    pub(in crate::http) fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8; header=present",
            other => other.essence(),
        }
    }

    /// The one of `known` that a request wants.
    pub(in crate::http) fn wanted(
        parameter: Option<&str>,
        headers: &HeaderMap,
        known: &[Self],
    ) -> Result<Self, Problem> {
        if let Some(name) = parameter {
            let found = known.iter().copied().find(|format| format.name() == name);
            let names = known.iter().map(|format| format.name());
            return found.ok_or_else(|| {
                let why = format!("{name:?} is not a format");
                Problem::none_of("format", why, name, names)
            });
        }
        let ranges = weighted(headers, ACCEPT);
        if ranges.is_empty() {
            return Ok(known[0]);
        }
        let mut best = None;
        for (range, weight) in ranges {
            let matches = |format: &&Self| {
                let (_, names) = format.names();
                let group = range.strip_suffix('*');
                names.split(' ').any(|name| name == range)
                    || group.is_some_and(|group| format.essence().starts_with(group))
            };
            let found = match range.as_str() {
                "*/*" => known.first(),
                _ => known.iter().find(matches),
            };
            if let Some(format) = found
                && weight > best.map_or(0.0, |(_, weight)| weight)
            {
                best = Some((*format, weight));
            }
        }
        best.map(|(format, _)| format).ok_or_else(|| {
            let why = "none of the media types in Accept can be had here";
            Problem::new(StatusCode::NOT_ACCEPTABLE, why)
                .accepting(known.iter().map(|format| format.essence()))
        })
    }

    /// A response in this format, chosen by `Accept`.
    pub(in crate::http) fn response(self, body: Body) -> Response<Body> {
        let headers = [(CONTENT_TYPE, self.media_type()), (VARY, "accept")];
        (headers, body).into_response()
    }
}

/// A short JSON answer.
pub(in crate::http) fn json(status: StatusCode, body: impl Into<Vec<u8>>) -> Response<Body> {
    let mut body = body.into();
    body.push(b'\n');
    json_body(status, body.into())
}

/// 200 with a short document.
pub(in crate::http) fn ok(document: impl Display) -> Answer {
    Ok(json(StatusCode::OK, document.to_string()))
}

/// 201 with a short document.
pub(in crate::http) fn created(document: impl Display) -> Answer {
    Ok(json(StatusCode::CREATED, document.to_string()))
}

/// A JSON response from a body.
pub(in crate::http) fn json_body(status: StatusCode, body: Body) -> Response<Body> {
    (status, [(CONTENT_TYPE, Format::Json.media_type())], body).into_response()
}

/// The entries of a header such as `Accept`, in lower case, each with its weight `q` from 0 to 1.
pub(in crate::http) fn weighted(
    headers: &HeaderMap,
    name: axum::http::HeaderName,
) -> Vec<(String, f32)> {
    let all = headers.get_all(name).iter().filter_map(|it| it.to_str().ok());
    let items = all.flat_map(|header| header.split(','));
    let read = |item: &str| {
        let mut parts = item.split(';').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty())?;
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        let weight = weight.map_or(1.0_f32, |q| q.trim().parse().unwrap_or(0.0));
        Some((name.to_ascii_lowercase(), weight.clamp(0.0, 1.0)))
    };
    items.filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn wanted(accept: &str, known: &[Format]) -> Result<Format, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
        Format::wanted(None, &headers, known).map_err(|problem| problem.status.as_u16())
    }

    #[test]
    fn accept_chooses_the_format() {
        for (accept, format) in cases![
            "*/*" => Ok(Format::Json);
            "text/html,application/xhtml+xml,*/*;q=0.8" => Ok(Format::Json);
            "text/csv" => Ok(Format::Csv);
            "text/*" => Ok(Format::Csv);
            "application/*" => Ok(Format::Json);
            "TEXT/CSV; header=present ; q=0.5, application/json;q=0.4" => Ok(Format::Csv);
            "application/x-ndjson, */*;q=0.1" => Ok(Format::Ndjson);
            "text/csv;q=0, application/json;q=0.1" => Ok(Format::Json);
            "image/png" => Err(406);
            "application/json;q=0" => Err(406);
        ] {
            assert_eq!(wanted(accept, Format::ROWS), format, "{accept}");
        }
        let headers = HeaderMap::new();
        let wanted = |parameter| Format::wanted(parameter, &headers, Format::ROWS);
        assert_eq!(wanted(None), Ok(Format::Json));
        assert_eq!(wanted(Some("csv")), Ok(Format::Csv));
        assert!(wanted(Some("arrow")).is_err());
    }

    #[test]
    fn events_and_arrow_are_for_those_that_ask_for_them() {
        let followed = &[Format::Ndjson, Format::Sse];
        assert_eq!(wanted("*/*", followed), Ok(Format::Ndjson));
        assert_eq!(wanted("text/event-stream", followed), Ok(Format::Sse));
        assert_eq!(wanted("application/jsonl", followed), Ok(Format::Ndjson));
        assert_eq!(wanted("text/csv", followed), Err(406));
        let sql = &[Format::Json, Format::Ndjson, Format::Csv, Format::Arrow];
        assert_eq!(wanted("application/vnd.apache.arrow.stream", sql), Ok(Format::Arrow));
        assert_eq!(wanted("application/*", sql), Ok(Format::Json));
    }
}
