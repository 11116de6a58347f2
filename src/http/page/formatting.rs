//! Names and values as parts of a page; their texts are those of [`text`](crate::value::text).
//!
//! Names come from packets: any content becomes text here, and maud escapes it for its context.

use std::borrow::Cow;

use maud::{Markup, Render, html};

use super::table::letter_px;
use crate::value::Value;
pub(super) use crate::value::text::{
    EMPTY, MINUS, Scale, UNKNOWN, bytes, change, count, counted, mebibytes, micros, name_or_empty,
    number, percent, roughly, roughly_many, secs, short, visible, with_two_digits,
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

/// A name from a packet, as text of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name<'a>(pub(super) &'a str);

impl Render for Name<'_> {
    fn render(&self) -> Markup {
        if self.0.is_empty() {
            return html! { span.none { (EMPTY) } };
        }
        let shown = visible(self.0);
        // Isolated, so that right-to-left text stays inside its own place.
        match end_of(&shown) {
            None => html! { bdi { (shown) } },
            Some((start, end)) => html! { bdi.cut { span { (start) } (end) } },
        }
    }
}

/// Characters of a name that fits everywhere.
const SHORT: usize = 12;
/// Characters at the end of a name that stay visible when space is short.
const END: usize = 10;

/// Splits a long name in two: when space is short, the first part shrinks, so that the name is cut
/// in the middle. A path keeps whole segments at its end.
fn end_of(name: &str) -> Option<(&str, &str)> {
    let count = name.chars().count();
    if count <= SHORT {
        return None;
    }
    // Wide letters, and those of some scripts, count twice.
    let wide = |it: char| 1 + usize::from(letter_px(it) > 12);
    let mut room = END.min(count * 2 / 3);
    let mut at = name.len();
    for (start, character) in name.char_indices().rev() {
        let Some(left) = room.checked_sub(wide(character)) else {
            break;
        };
        (room, at) = (left, start);
    }
    // Does not split a sign.
    if let Some(end) = name[at..].find('\u{27e9}')
        && !name[at..at + end].contains('\u{27e8}')
    {
        at += end + '\u{27e9}'.len_utf8();
    }
    let segment = name[at..].find('/').filter(|slash| at + slash + 1 < name.len());
    Some(name.split_at(at + segment.unwrap_or(0)))
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
    fn long_names_are_cut_in_the_middle() {
        let cut = |name: &'static str| end_of(name).map(|(_, end)| end);
        assert_eq!(cut("/a/index.php"), None);
        assert_eq!(cut("/var/www/html/public/index.php/cart/list"), Some("/cart/list"));
        assert_eq!(cut("a-name-without-any-place-to-break-it"), Some("o-break-it"));
        let page = Name("/var/www/<b>/html/shop/index.php").render().into_string();
        assert_has!(page => "<span>/var/www/&lt;b&gt;/html/shop</span>/index.php</bdi>");
        for wide in ["\u{5e97}", "W"].map(|letter| letter.repeat(30)) {
            assert_eq!(end_of(&wide).unwrap().1.chars().count(), END / 2);
        }
    }

    #[test]
    fn tags_are_cut_and_empty_ones_are_said() {
        let page = |text: &str| pairs(text, text.matches('=').count()).into_string();
        assert_eq!(page(""), "<span class=\"pair\"></span>");
        let pair = |text| format!("<span class=\"pair\">{text}</span>");
        let empty = format!("{}<wbr>{}", pair("(empty)=b,"), pair("a=(empty)"));
        assert_eq!(page("=b,a="), empty);
        let long = "<bdi class=\"cut\"><span>release=aaaa</span>aaaaaaaaaa</bdi>";
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
        assert_eq!(page("<b>'x'</b>\"&"), "<bdi>&lt;b&gt;'x'&lt;/b&gt;&quot;&amp;</bdi>");
        assert_eq!(
            page("a\nb\u{0}\u{7f}"),
            "<bdi class=\"cut\"><span>a\u{27e8}0A\u{27e9}b\u{27e8}00\u{27e9}</span>\u{27e8}7F\u{27e9}</bdi>"
        );
        assert_eq!(
            page("x\u{202e}y\u{200b}"),
            "<bdi class=\"cut\"><span>x\u{27e8}202E\u{27e9}</span>y\u{27e8}200B\u{27e9}</bdi>"
        );
        assert_eq!(page(""), "<span class=\"none\">(empty)</span>");
        assert_eq!(value(&Value::Int(107_355)).into_string(), "107355");
        assert_eq!(page("\u{5e9}\u{5dc} ü"), "<bdi>\u{5e9}\u{5dc} ü</bdi>");
    }
}
