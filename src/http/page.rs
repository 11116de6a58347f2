//! The page at `/`: what can be asked here, with links that work.
//!
//! One document without scripts and without anything from outside, made for someone who just started the daemon. The list
//! of reports is the live one. Names of reports come from outside and are escaped for where they stand; the content
//! security policy would not run a script in any case.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, Response};

use super::error::Problem;
use super::params::encode;
use super::routes::App;
use crate::query::source::ReportSummary;

/// The part before the list of reports; `{{version}}` is replaced.
const TOP: &str = include_str!("page.html");
/// What stands in the page where the reports go.
const PLACE: &str = "<!-- reports -->";
/// Reports listed at most; the rest is behind a link.
const REPORTS_MAX: usize = 200;

/// `GET /`. Parameters are let through: nobody asks a page for data by them.
pub(super) async fn read(State(app): State<App>) -> Result<Response<Body>, Problem> {
    let reports = app.ask(|source| Ok(source.reports())).await?;
    let page = TOP
        .replace("{{version}}", env!("CARGO_PKG_VERSION"))
        .replace(PLACE, &rows(&reports));
    let mut response = Response::new(Body::from(page));
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                  form-action 'none'; frame-ancestors 'none'";
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    Ok(response)
}

fn rows(reports: &[ReportSummary]) -> String {
    let mut html = String::new();
    for report in reports.iter().take(REPORTS_MAX) {
        // By the first column that is a sum of time, where there is one: the slowest come first.
        let busiest = ["req_time_total", "timer_value", "time_total", "req_count"];
        let sort = busiest
            .iter()
            .find(|name| report.columns.iter().any(|it| it.name == **name));
        let query = sort
            .map(|name| format!("?sort=-{name}&amp;limit=20"))
            .unwrap_or_default();
        let path = encode(&report.name);
        html.push_str(&format!(
            "<tr><td><a href=\"/api/v1/reports/{path}{query}\">{}</a></td><td>{}</td><td>{}</td>\
             <td class=\"number\">{}</td></tr>\n",
            escape(&report.name),
            escape(&report.kind),
            escape(&report.keys.join(", ")),
            report.rows,
        ));
    }
    if reports.len() > REPORTS_MAX {
        let more = reports.len() - REPORTS_MAX;
        html.push_str(&format!(
            "<tr><td><a href=\"/api/v1/reports\">and {more} more</a></td></tr>\n"
        ));
    }
    html
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::source::Defined;

    #[test]
    fn names_cannot_leave_their_place() {
        let report = ReportSummary {
            name: "<script>\"'&".into(),
            kind: "base".into(),
            comment: None,
            keys: vec!["a<b".into()],
            window_seconds: 1.0,
            rows: 7,
            columns: Vec::new(),
            definition: serde_json::Value::Null,
            defined: Defined::RunTime,
            persistent: false,
            complete: true,
        };
        let html = rows(&[report]);
        assert!(
            html.contains("/api/v1/reports/%3Cscript%3E%22%27%26\""),
            "{html}"
        );
        assert!(
            html.contains("&lt;script&gt;&quot;&#39;&amp;</a>"),
            "{html}"
        );
        assert!(html.contains("a&lt;b"), "{html}");
        assert!(!html.contains("<script"), "{html}");
    }

    #[test]
    fn the_page_takes_nothing_from_outside() {
        assert!(TOP.contains(PLACE) && TOP.contains("{{version}}"));
        for outside in ["http://", "https://", "=\"//", "<script", "@import"] {
            assert!(!TOP.contains(outside), "{outside}");
        }
    }
}
