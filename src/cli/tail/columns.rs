//! Formats requests in aligned columns, with their timers beneath them.
//!
//! Columns of names grow with their content, up to a bound, so that lines stay aligned without
//! knowledge of the future; longer names are cut in the middle. The script, which is what one looks
//! for, and the tags come last and are shown whole. Used by `tail` alone.

use std::io::{self, Write};

use serde_json::Value as Json;

use crate::cli::format::{EMPTY, clock, cut, cut_name, fit, secs, tag_text, visible, width};
use crate::value::text::percent;

/// Smallest and largest width of a column of names.
const NAMES: (usize, usize) = (10, 28);
/// The heading up to the first name.
const LEFT: &str = "UTC       STATUS       TIME  ";
/// Columns of a timer before its tags.
const TIMER_LEFT: usize = 17;

const RED: &str = "\u{1b}[31m";
const YELLOW: &str = "\u{1b}[33m";
const DIM: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

/// Seconds from which on a request is slow.
const SLOW_SECS: f64 = 0.3;
/// Seconds from which on it is very slow.
const VERY_SLOW_SECS: f64 = 1.0;

/// Prints rows in columns.
#[derive(Debug)]
pub(super) struct Columns {
    colour: bool,
    begun: bool,
    host: usize,
    server: usize,
}

impl Columns {
    pub(super) fn new(colour: bool) -> Self {
        Self { colour, begun: false, host: NAMES.0, server: NAMES.0 }
    }

    /// Prints the heading, the first time.
    pub(super) fn begin(&mut self, out: &mut impl Write) -> io::Result<()> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let names = format!("{}  {}  SCRIPT", fit("HOST", self.host), fit("SERVER", self.server));
        writeln!(out, "{}", self.paint(DIM, &format!("{LEFT}{names}")))
    }

    /// Prints one request.
    pub(super) fn row(&mut self, out: &mut impl Write, row: &Json) -> io::Result<()> {
        let text = |name: &str| match row[name].as_str() {
            Some("") if name != "tags" => EMPTY.into(),
            text => visible(text.unwrap_or_default()),
        };
        let (host, server) = (text("hostname"), text("server_name"));
        self.host = self.host.max(width(&host)).min(NAMES.1);
        self.server = self.server.max(width(&server)).min(NAMES.1);
        let status = row["status"].as_u64().unwrap_or_default();
        let time = row["req_time"].as_f64().unwrap_or_default();
        let status_colour = match status {
            500.. => RED,
            400.. => YELLOW,
            _ => "",
        };
        write!(
            out,
            "{}  {}  {}  {}  {}  {}",
            clock(row["timestamp"].as_u64().unwrap_or_default()),
            self.paint(status_colour, &format!("{status:>6}")),
            self.paint(slowness(time), &format!("{:>9}", secs(time))),
            fit(&cut_name(&host, self.host), self.host),
            fit(&cut_name(&server, self.server), self.server),
            text("script_name"),
        )?;
        let tags = text("tags");
        if !tags.is_empty() {
            write!(out, "  {}", self.paint(DIM, &tags))?;
        }
        writeln!(out)?;
        for timer in row["timers"].as_array().into_iter().flatten() {
            self.timer(out, timer, time)?;
        }
        Ok(())
    }

    /// Formats one timer: hits, time, share of the request's time, tags.
    fn timer(&self, out: &mut impl Write, timer: &Json, request_secs: f64) -> io::Result<()> {
        let time = timer["value"].as_f64().unwrap_or_default();
        let share = match request_secs {
            0.0 => String::new(),
            whole => percent(time / whole * 100.0),
        };
        let hits = format!("x{}", timer["hit_count"].as_u64().unwrap_or_default());
        writeln!(
            out,
            "{:TIMER_LEFT$} {:>9}  {:>6} {:>6}  {}",
            "",
            secs(time),
            share,
            cut(&hits, 6),
            self.paint(DIM, &tag_text(&timer["tags"])),
        )
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colour && !colour.is_empty() {
            format!("{colour}{text}{PLAIN}")
        } else {
            text.to_owned()
        }
    }
}

fn slowness(secs: f64) -> &'static str {
    match secs {
        VERY_SLOW_SECS.. => RED,
        SLOW_SECS.. => YELLOW,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn printed(colour: bool, rows: &[Json]) -> String {
        let mut columns = Columns::new(colour);
        let mut out = Vec::new();
        columns.begin(&mut out).unwrap();
        columns.begin(&mut out).unwrap();
        for row in rows {
            columns.row(&mut out, row).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    fn row() -> Json {
        json!({"id": 1, "hostname": "web-01", "server_name": "shop.example.com", "script_name": "/a.php",
            "req_time": 0.5, "status": 200, "tags": "env=prod", "timestamp": 1_700_000_000,
            "timers": [{"id": 1, "hit_count": 3, "value": 0.125, "tags": {"group": "db", "server": ["a", "b"]}}]})
    }

    #[test]
    fn rows_and_timers_stand_in_columns() {
        let expected = "\
UTC       STATUS       TIME  HOST        SERVER      SCRIPT
22:13:20     200     500 ms  web-01      shop.example.com  /a.php  env=prod
                     125 ms  25.0 %     x3  group=db server=a server=b
";
        assert_eq!(printed(false, &[row()]), expected);
        // Neighbours often differ at their ends only.
        let shown = ["01", "02"].map(|number| {
            let mut row = row();
            row["hostname"] = json!(format!("web-frontend-production-eu-central-1-{number}"));
            printed(false, &[row])
        });
        assert_has!(shown[0] => "  web-frontend-…u-central-1-01  ");
        assert_has!(shown[1] => "  web-frontend-…u-central-1-02  ");
    }

    #[test]
    fn colours_only_where_there_is_something_to_see() {
        let mut failed = row();
        failed["status"] = json!(500);
        failed["tags"] = json!("");
        failed["script_name"] = json!("");
        failed["timers"] = json!([]);
        let text = printed(true, &[failed]);
        let line = text.lines().nth(1).unwrap();
        assert!(line.contains("\u{1b}[31m   500\u{1b}[0m"), "{line:?}");
        assert!(line.contains("\u{1b}[33m   500 ms\u{1b}[0m"), "{line:?}");
        assert!(line.ends_with("  (empty)"), "{line:?}");
        assert!(!printed(false, &[row()]).contains('\u{1b}'));
    }

    #[test]
    fn hostile_names_and_odd_rows_are_shown() {
        let evil = "\u{1b}[2J\u{9b}1m\n\u{202e}";
        let mut row = row();
        for field in ["hostname", "server_name", "script_name", "tags"] {
            row[field] = json!(evil);
        }
        row["timers"][0]["tags"] = json!({evil: evil});
        let text = printed(false, &[row, json!(null), json!({"timers": [1]})]);
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
        assert_has!(text => "\\x1b[2J\\u{9b}1m\\n\\u{202e}=\\x1b[2J");
        assert_eq!(text.lines().count(), 6);
    }
}
