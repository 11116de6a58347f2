//! Text from outside on a terminal: what it holds is shown, nothing of it is executed.
//!
//! Names come from packets, and so may come escape sequences that clear a screen, retitle a window or type commands, and
//! characters that turn the direction of a line. [`visible`] writes them out; everything that `tail` and `top` print of
//! a daemon goes through it. Widths are counted in columns of the terminal, not in characters. Pure functions.

use std::borrow::Cow;

use serde_json::Value as Json;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub use crate::value::grouped;

/// What is cut off is marked with this.
const CUT: char = '…';

/// Whether a terminal would do something else with this character than to show it in a cell of its own or, for a mark, in that
/// of the one before.
fn acts(c: char) -> bool {
    // C0, DEL, C1; separators of lines; what joins, hides or turns the direction; tags; private use, which is anything.
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e000}'..='\u{f8ff}'
                | '\u{e0000}'..='\u{e0fff}'
                | '\u{f0000}'..='\u{10ffff}'
        )
}

/// The text with every such character written out: `\x1b`, `\n`, `\u{202e}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    written_out(text, |c| match c {
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        c if c.is_ascii() => format!("\\x{:02x}", u32::from(c)),
        c => format!("\\u{{{:x}}}", u32::from(c)),
    })
}

/// JSON text with such characters as JSON writes them out: `\u009b`. Says the same to whoever parses it.
pub fn visible_json(line: &str) -> Cow<'_, str> {
    written_out(line, |c| {
        let units = c.encode_utf16(&mut [0; 2]).to_vec();
        units.iter().map(|unit| format!("\\u{unit:04x}")).collect()
    })
}

fn written_out(text: &str, write: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match acts(c) {
            true => shown.push_str(&write(c)),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// The columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The text in exactly `columns` columns: filled up with blanks, or cut with a mark.
pub fn fit(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let missing = columns.saturating_sub(width(&text));
    format!("{text}{}", " ".repeat(missing))
}

/// The same, filled up on the left.
pub fn fit_right(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let missing = columns.saturating_sub(width(&text));
    format!("{}{text}", " ".repeat(missing))
}

/// The text in at most `columns` columns, cut with a mark where it is longer.
pub fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let (mut kept, mut taken) = (String::new(), 0);
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if taken + wide + 1 > columns {
            break;
        }
        taken += wide;
        kept.push(c);
    }
    if columns > 0 {
        kept.push(CUT);
    }
    Cow::Owned(kept)
}

/// Seconds as a person reads them, three digits or so: `1.84 s`, `35.2 ms`, `0.41 ms`.
pub fn seconds(secs: f64) -> String {
    let ms = secs * 1000.0;
    match ms {
        ms if !ms.is_finite() => "-".to_owned(),
        0.0 => "0 ms".to_owned(),
        ms if ms < 9.995 => format!("{ms:.2} ms"),
        ms if ms < 99.95 => format!("{ms:.1} ms"),
        ms if ms < 999.5 => format!("{ms:.0} ms"),
        _ if secs < 9.995 => format!("{secs:.2} s"),
        _ if secs < 99.95 => format!("{secs:.1} s"),
        _ => format!("{} s", grouped(secs)),
    }
}

/// Bytes as a person reads them: `13.1 MB`.
pub fn bytes(bytes: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let (mut size, mut unit) = (bytes, 0);
    while size.abs() >= 999.5 && unit + 1 < units.len() {
        size /= 1000.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && size.abs() < 99.95);
    format!("{size:.decimals$} {}", units[unit])
}

/// The time of day of a unix second, UTC.
pub fn clock(unix_secs: u64) -> String {
    let day = unix_secs % 86_400;
    format!("{:02}:{:02}:{:02}", day / 3600, day / 60 % 60, day % 60)
}

/// Timer tags: `group=db server=db1`. A name with several values comes with each.
pub fn tag_text(tags: &Json) -> String {
    let mut pairs = Vec::new();
    for (name, value) in tags.as_object().into_iter().flatten() {
        for value in tag_values(value) {
            pairs.push(format!("{}={}", visible(name), visible(value)));
        }
    }
    pairs.join(" ")
}

/// The values of a timer tag: one, or a list.
pub fn tag_values(value: &Json) -> Vec<&str> {
    match value {
        Json::Array(values) => values.iter().filter_map(Json::as_str).collect(),
        value => value.as_str().into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_hostile_name_is_executed() {
        for (text, shown) in [
            ("/index.php", "/index.php"),
            ("\u{1b}[2J\u{1b}]0;owned\u{7}", "\\x1b[2J\\x1b]0;owned\\x07"),
            ("a\nb\tc\rd\u{7f}", "a\\nb\\tc\\rd\\x7f"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}php.exe\u{2066}", "\\u{202e}php.exe\\u{2066}"),
            ("a\u{200b}b\u{feff}", "a\\u{200b}b\\u{feff}"),
            ("grüße 日本 é", "grüße 日本 é"),
        ] {
            assert_eq!(visible(text), shown);
        }
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let text = c.to_string();
            let shown = visible(&text);
            assert!(!shown.contains(char::is_control), "{c:?}");
        }
    }

    #[test]
    fn json_says_the_same_without_them() {
        let text = "a\u{9b}b\u{202e}c\u{e0001}d日";
        let line = format!("{{\"x\":\"{text}\"}}");
        let shown = visible_json(&line);
        assert!(!shown.contains(acts));
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read["x"], text);
    }

    #[test]
    fn columns_are_those_of_the_terminal() {
        assert_eq!(fit("abc", 5), "abc  ");
        assert_eq!(fit("abcdef", 5), "abcd…");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日… ");
        assert_eq!(
            (fit("abc", 0), fit("abc", 1)),
            (String::new(), "…".to_owned())
        );
    }

    #[test]
    fn numbers_for_people() {
        for (secs, text) in [
            (0.0, "0 ms"),
            (0.000_412, "0.41 ms"),
            (0.009_994, "9.99 ms"),
            (0.009_996, "10.0 ms"),
            (0.035_2, "35.2 ms"),
            (0.5, "500 ms"),
            (0.999_6, "1.00 s"),
            (1.835_502, "1.84 s"),
            (12.34, "12.3 s"),
            (12_345.6, "12,346 s"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(seconds(secs), text);
        }
        assert_eq!(grouped(1_234_567.0), "1,234,567");
        assert_eq!(
            (grouped(-999.0), grouped(0.2)),
            ("-999".to_owned(), "0".to_owned())
        );
        for (size, text) in [
            (0.0, "0 B"),
            (999.0, "999 B"),
            (1500.0, "1.5 kB"),
            (13_100_000.0, "13.1 MB"),
            (256e6, "256 MB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }
}
