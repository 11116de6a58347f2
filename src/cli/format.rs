//! Text from outside, made safe for a terminal: shown, never executed.
//!
//! Names come from packets and may contain escape sequences that clear a screen, retitle a window
//! or type commands, and characters that reverse the direction of a line. [`visible`] escapes them;
//! everything that `tail` and `top` print of a daemon goes through it. Widths are counted in
//! columns of the terminal, not in characters. Pure functions.

use std::borrow::Cow;

use serde_json::Value as Json;

pub use crate::value::text::{CUT, EMPTY, bytes, cut, cut_name, grouped, number, secs, width};
use crate::value::text::{name_or_empty, written_out};

/// Escapes every such character: `\x1b`, `\n`, `\u{202e}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    written_out(text, |c| match c {
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        c if c.is_ascii() => format!("\\x{:02x}", u32::from(c)),
        c => format!("\\u{{{:x}}}", u32::from(c)),
    })
}

/// Escapes such characters in JSON text the way JSON does (`\u009b`). Parses to the same value.
pub fn visible_json(line: &str) -> Cow<'_, str> {
    written_out(line, |c| {
        let units = c.encode_utf16(&mut [0; 2]).to_vec();
        units.iter().map(|unit| format!("\\u{unit:04x}")).collect()
    })
}

/// Pads a text with blanks to exactly `columns` columns, or cuts it with a mark.
pub fn fit(text: &str, columns: usize) -> String {
    pad(&cut(text, columns), columns, false)
}

/// Like [`fit`], padded on the left.
pub fn fit_right(text: &str, columns: usize) -> String {
    pad(&cut(text, columns), columns, true)
}

/// Fills a text up to that many columns with spaces, at its left if `right`.
pub fn pad(text: &str, columns: usize, right: bool) -> String {
    let space = " ".repeat(columns.saturating_sub(width(text)));
    if right { space + text } else { text.to_owned() + &space }
}

/// Rows as lines of aligned cells, from column `numbers` on to the right.
pub fn aligned<const N: usize>(rows: &[[String; N]], numbers: usize) -> Vec<String> {
    let widths: [usize; N] =
        std::array::from_fn(|at| rows.iter().map(|row| width(&row[at])).max().unwrap_or(0));
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).enumerate();
        let cells = cells.map(|(at, (cell, width))| pad(cell, width, at >= numbers));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Cuts tags, `group=db server=db1`, to at most `columns` columns: the names at their ends down to
/// a letter, and then each value in its middle, the longest first, so that tags that differ still
/// do. Other names, and tags without room for that, are cut as a whole.
pub fn cut_tags(text: &str, columns: usize) -> Cow<'_, str> {
    let tags: Option<Vec<_>> = text.split(' ').map(|tag| tag.split_once('=')).collect();
    let Some(tags) = tags.filter(|tags| tags.len() > 1 && width(text) > columns) else {
        return cut_name(text, columns);
    };
    let between = 2 * tags.len() - 1;
    let fits = |&(of_name, of_value): &(usize, usize)| {
        let widths =
            tags.iter().map(|(name, value)| width(name).min(of_name) + width(value).min(of_value));
        widths.sum::<usize>() + between <= columns
    };
    let of_names = (1..=columns).rev().map(|most| (most, usize::MAX));
    let of_values = (1..=columns).rev().map(|most| (1, most));
    match of_names.chain(of_values).find(fits) {
        None => cut_name(text, columns),
        Some((of_name, of_value)) => {
            let tags = tags.iter().map(|(name, value)| {
                let name: String = name.chars().take(of_name).collect();
                format!("{}={}", cut(&name, of_name), cut_name(value, of_value))
            });
            Cow::Owned(tags.collect::<Vec<_>>().join(" "))
        }
    }
}

/// The time of day of a unix second, UTC.
pub fn clock(unix_secs: u64) -> String {
    let day = unix_secs % 86_400;
    format!("{:02}:{:02}:{:02}", day / 3600, day / 60 % 60, day % 60)
}

/// Timer tags: `group=db server=db1`. A name with several values is repeated for each.
pub fn tag_text(tags: &Json) -> String {
    let mut pairs = Vec::new();
    for (name, value) in tags.as_object().into_iter().flatten() {
        for value in tag_values(value) {
            pairs.push(format!("{}={}", visible(name), visible(name_or_empty(value))));
        }
    }
    pairs.join(" ")
}

/// The elements of a member that is a list.
pub fn list<'a>(of: &'a Json, member: &str) -> &'a [Json] {
    of[member].as_array().map_or(&[], Vec::as_slice)
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
        assert_eq!(shown, visible_json(&shown));
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read["x"], text);
    }

    #[test]
    fn columns_are_those_of_the_terminal() {
        assert_eq!(fit("abc", 5), "abc  ");
        assert_eq!(fit("abcdef", 5), "abcd…");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日… ");
        assert_eq!((fit("abc", 0), fit("abc", 1)), (String::new(), "…".to_owned()));
        assert_eq!(cut_name("group=db server=db1", 11), "group…r=db1");
        assert_eq!(cut_name("日本語日本語", 7), "日…本語");
        let tags = "group=database op=read server=db1";
        assert_eq!(cut_tags(tags, 40), tags);
        assert_eq!(cut_tags(tags, 32), "group=database op=read serve=db1");
        assert_eq!(cut_tags(tags, 28), "gro=database op=read ser=db1");
        assert_eq!(cut_tags(tags, 22), "g=dat…ase o=read s=db1");
        // What differs in a value that is not cut stays apart.
        let [select, insert] = ["select", "insert"].map(|operation| {
            cut_tags(&format!("group=mysql operation={operation} server=db-master1"), 35)
                .into_owned()
        });
        assert_eq!(select, "gro=mysql ope=select ser=db-master1");
        assert_eq!(insert, "gro=mysql ope=insert ser=db-master1");
        assert_eq!(cut_tags(tags, 10), cut_name(tags, 10));
        assert_eq!(cut_tags("/a b=c/long name", 9), cut_name("/a b=c/long name", 9));
        for columns in 0..20 {
            assert!(width(&cut_name("group=db server=db1", columns)) <= columns);
            assert!(width(&cut_tags("group=db server=db1", columns)) <= columns);
        }
    }
}
