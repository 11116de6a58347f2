//! Names and values as parts of a page; their texts are those of [`text`](crate::value::text).
//!
//! Names come from packets: any content becomes text here, and maud escapes it for its context.

use std::borrow::Cow;

use maud::{Markup, Render, html};

use crate::value::Value;
pub(super) use crate::value::text::{
    EMPTY, MINUS, Scale, UNKNOWN, by, bytes, change, count, counted, lasting, mebibytes, micros,
    name_or_empty, number, percent, points, roughly, roughly_many, secs, short, visible,
    with_two_digits,
};

/// A text from a packet as a form field shows and accepts it: a field left empty means "not given",
/// so the empty text is `(empty)`, and a text that looks like that gets a backslash.
pub(super) fn or_empty(text: &str) -> Cow<'_, str> {
    match text {
        "" => EMPTY.into(),
        _ if is_like_empty(text) => format!("\\{text}").into(),
        _ => text.into(),
    }
}

/// Reads what [`or_empty`] wrote.
pub(super) fn read_empty(text: &mut String) {
    if text == EMPTY {
        text.clear();
    } else if is_like_empty(text) {
        text.remove(0);
    }
}

fn is_like_empty(text: &str) -> bool {
    text.trim_start_matches('\\') == EMPTY
}

/// A name from a packet, as text of a title.
pub(super) fn named(name: &str) -> String {
    visible(name_or_empty(name))
}

/// Where a name breaks before it breaks anywhere, if it is longer than [`SHORT`] characters.
const BREAKS: [char; 5] = ['/', '.', '-', '_', '='];
const SHORT: usize = 12;

/// A name from a packet, as text of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name<'a>(pub(super) &'a str);

impl Render for Name<'_> {
    fn render(&self) -> Markup {
        if self.0.is_empty() {
            return html! { span.none { (EMPTY) } };
        }
        let shown = visible(self.0);
        let is_short = shown.chars().count() <= SHORT;
        let parts = shown.split_inclusive(|it| BREAKS.contains(&it) && !is_short);
        // Isolated, so that right-to-left text stays inside its own place.
        html! { bdi { @for (at, part) in parts.enumerate() { @if at > 0 { wbr; } (part) } } }
    }
}

/// Formats a value of a column without a unit.
pub(super) fn value(value: &Value<'_>) -> Markup {
    match value {
        Value::Null => html! { span.none { (UNKNOWN) } },
        Value::Text(text) => Name(text).render(),
        // An id, or a code: counts have a unit.
        Value::Int(number) => html! { (number) },
        Value::Micros(us) => html! { (micros(*us)) },
        Value::Float(float) => html! { (number(*float)) },
    }
}

/// The tags of a timer.
pub(super) fn tags<'a>(tags: impl IntoIterator<Item = (&'a str, &'a str)>) -> Markup {
    let mut tags = tags.into_iter().peekable();
    html! {
        @if tags.peek().is_none() { span.none { "no tags" } }
        @for (at, (name, value)) in tags.enumerate() {
            @if at > 0 { " " }
            span.tag { small { (Name(name)) " " } (Name(value)) }
        }
    }
}

/// Tags as one text, which may wrap between them, if it is known where they are: with more commas
/// than `count` tags have between them, some are part of a name or value.
pub(super) fn pairs(text: &str, count: usize) -> Markup {
    let pairs: Vec<&str> = match count {
        ..=1 => vec![text],
        _ => text.split(',').collect(),
    };
    if pairs.len() > count.max(1) {
        return html! { (visible(text)) };
    }
    let last = pairs.len() - 1;
    html! {
        @for (at, pair) in pairs.into_iter().enumerate() {
            @if at > 0 { wbr; }
            span.pair {
                @match pair.split_once('=') {
                    Some((name, value)) if name.is_empty() || value.is_empty() => { (named(name)) "=" (named(value)) }
                    None if text.is_empty() => {}
                    _ => (Name(pair)),
                }
                // Outside the block it might begin a line.
                @if at < last { "," }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_may_wrap_between_each_other_and_empty_ones_are_said() {
        let page = |text: &str| pairs(text, text.matches('=').count()).into_string();
        assert_eq!(page(""), "<span class=\"pair\"></span>");
        let pair = |text: &str| format!("<span class=\"pair\">{text}</span>");
        let empty = format!("{}<wbr>{}", pair("(empty)=b,"), pair("a=(empty)"));
        assert_eq!(page("=b,a="), empty);
        let long = "<bdi>release=<wbr>aaaaaaaaaaaaaa</bdi>";
        assert_eq!(page("release=aaaaaaaaaaaaaa"), pair(long));
        assert_eq!(pairs("env=a,b=c", 1).into_string(), pair("<bdi>env=a,b=c</bdi>"));
        assert_eq!(pairs("env=a,b=c,d=e", 2).into_string(), "env=a,b=c,d=e");
    }

    #[test]
    fn a_name_like_the_words_for_the_empty_one_is_another() {
        for name in ["", "(empty)", "\\(empty)", "/a", "\\"] {
            let mut asked = or_empty(name).into_owned();
            assert!(!asked.is_empty());
            read_empty(&mut asked);
            assert_eq!(asked, name);
        }
    }

    #[test]
    fn names_stay_text() {
        let page = |name| Name(name).render().into_string();
        assert_eq!(page("/v1/a.php"), "<bdi>/v1/a.php</bdi>");
        assert_eq!(page("/blog/<b>.php"), "<bdi>/<wbr>blog/<wbr>&lt;b&gt;.<wbr>php</bdi>");
        assert_eq!(page("<b>'x'</b>\"&"), "<bdi>&lt;b&gt;'x'&lt;/b&gt;&quot;&amp;</bdi>");
        assert_eq!(
            page("a\nb\u{0}\u{7f}"),
            "<bdi>a\u{27e8}0A\u{27e9}b\u{27e8}00\u{27e9}\u{27e8}7F\u{27e9}</bdi>"
        );
        assert_eq!(
            page("x\u{202e}y\u{200b}"),
            "<bdi>x\u{27e8}202E\u{27e9}y\u{27e8}200B\u{27e9}</bdi>"
        );
        assert_eq!(page(""), "<span class=\"none\">(empty)</span>");
        assert_eq!(value(&Value::Int(107_355)).into_string(), "107355");
        assert_eq!(page("\u{5e9}\u{5dc} ü"), "<bdi>\u{5e9}\u{5dc} ü</bdi>");
    }
}
