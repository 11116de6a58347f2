//! Numbers and names as a person reads them.
//!
//! Names come from packets: whatever they hold becomes text here, and maud escapes it for where it stands. Characters that
//! are invisible, or that turn the direction of what follows, are shown as signs, so that no name can pass for another or
//! rearrange the row in which it stands.

use maud::{Markup, Render, html};

use crate::value::{Value, grouped};

/// A name out of a packet, as text of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name<'a>(pub(super) &'a str);

impl Render for Name<'_> {
    fn render(&self) -> Markup {
        if self.0.is_empty() {
            return html! { span.none { "(empty)" } };
        }
        let shown = visible(self.0);
        // Isolated, so that text from right to left stays inside its own place.
        match end_of(&shown) {
            None => html! { bdi { (shown) } },
            Some((start, end)) => html! { bdi.cut { span { (start) } (end) } },
        }
    }
}

/// Characters of a name that fits everywhere.
const SHORT: usize = 12;
/// Characters of its end that a name keeps where there is no room for all of it; the style sheet has as many.
const END: usize = 10;

/// A long name in two parts: where there is no room, the first gives way, so that it is cut in the middle. A path keeps whole
/// segments at its end.
fn end_of(name: &str) -> Option<(&str, &str)> {
    let count = name.chars().count();
    if count <= SHORT {
        return None;
    }
    // Letters of some scripts are twice as wide.
    let wide = |it: char| 1 + usize::from(it >= '\u{1100}');
    let mut room = END.min(count * 2 / 3);
    let mut at = name.len();
    for (start, character) in name.char_indices().rev() {
        let Some(left) = room.checked_sub(wide(character)) else {
            break;
        };
        (room, at) = (left, start);
    }
    // A sign stays whole.
    if let Some(end) = name[at..].find('\u{27e9}')
        && !name[at..at + end].contains('\u{27e8}')
    {
        at += end + '\u{27e9}'.len_utf8();
    }
    let segment = name[at..]
        .find('/')
        .filter(|slash| at + slash + 1 < name.len());
    Some(name.split_at(at + segment.unwrap_or(0)))
}

/// The same text with signs for what could not be seen: `⟨0A⟩`, `⟨202E⟩`.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) {
            shown += &format!("\u{27e8}{:02X}\u{27e9}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Controls, soft hyphen, marks and overrides of direction, characters without width, line separators, tags.
const fn is_hidden(character: char) -> bool {
    matches!(character,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// For what is no number.
const UNKNOWN: &str = "\u{2013}";

/// A number with three digits that count: `0.0123`, `1.23`, `12.3`, `1,234`.
pub(super) fn number(number: f64) -> String {
    match number.abs() {
        size if !size.is_finite() => UNKNOWN.to_owned(),
        1e15.. => format!("{number:.2e}"),
        99.95.. | 0.0 => grouped(number),
        9.995.. => format!("{number:.1}"),
        0.0995.. => format!("{number:.2}"),
        0.000_05.. => format!("{number:.4}"),
        _ => format!("{number:.1e}"),
    }
}

/// A whole number in full.
pub(super) fn count(count: u64) -> String {
    grouped(count as f64)
}

/// Seconds in the unit that fits: `812 µs`, `36.1 ms`, `2.05 s`, `3,738 s`, `4.2 h`.
pub(super) fn secs(secs: f64) -> String {
    match secs.abs() {
        size if !size.is_finite() => UNKNOWN.to_owned(),
        0.0 => "0".to_owned(),
        ..0.000_999_5 => format!("{} \u{b5}s", number((secs * 1e6).round())),
        ..0.9995 => format!("{} ms", number(secs * 1e3)),
        ..9999.5 => format!("{} s", number(secs)),
        ..172_800.0 => format!("{} h", number(secs / 3600.0)),
        _ => format!("{} d", number(secs / 86_400.0)),
    }
}

/// A unit in which all numbers of a column, or of a scale, are written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unit {
    size: f64,
    name: &'static str,
}

const TIMES: [Unit; 4] = units([(1e-6, "\u{b5}s"), (1e-3, "ms"), (1.0, "s"), (3600.0, "h")]);
const SIZES: [Unit; 5] = units([
    (1.0, "B"),
    (1024.0, "KiB"),
    (1_048_576.0, "MiB"),
    (1_073_741_824.0, "GiB"),
    (1_099_511_627_776.0, "TiB"),
]);

/// From here on a number has a larger unit, whatever is beside it.
const MANY: f64 = 99_999.5;

const fn units<const N: usize>(named: [(f64, &'static str); N]) -> [Unit; N] {
    let mut units = [Unit {
        size: 1.0,
        name: "",
    }; N];
    let mut at = 0;
    while at < N {
        (units[at].size, units[at].name) = named[at];
        at += 1;
    }
    units
}

impl Unit {
    /// For these numbers of seconds.
    pub(super) fn of_secs(numbers: impl IntoIterator<Item = f64>) -> Self {
        // A number alone goes over to hours late.
        Self::fit(&TIMES, numbers, 2)
    }

    /// For these numbers of bytes.
    pub(super) fn of_bytes(numbers: impl IntoIterator<Item = f64>) -> Self {
        Self::fit(&SIZES, numbers, SIZES.len() - 1)
    }

    /// That of the middle one; a larger one if the largest would be too long in it. `last`: the largest that is chosen by the middle.
    fn fit(units: &[Self], numbers: impl IntoIterator<Item = f64>, last: usize) -> Self {
        let numbers = numbers.into_iter().map(f64::abs);
        let mut known: Vec<f64> = numbers.filter(|it| it.is_finite() && *it > 0.0).collect();
        known.sort_by(f64::total_cmp);
        let middle = known.get(known.len() / 2).copied().unwrap_or(0.0);
        let largest = known.last().copied().unwrap_or(0.0);
        let fits = |unit: &&Self| middle >= unit.size * 0.9995;
        let at = units[..=last].iter().rposition(|unit| fits(&unit));
        let mut units = units[at.unwrap_or(0)..].iter().copied();
        let mut unit = units.next().expect("there is a unit");
        for larger in units {
            if largest / unit.size >= MANY {
                unit = larger;
            }
        }
        unit
    }

    /// A number of seconds or bytes in it.
    pub(super) fn text(self, of_base: f64) -> String {
        match of_base {
            size if !size.is_finite() => UNKNOWN.to_owned(),
            0.0 => "0".to_owned(),
            size if self.size < 1e-5 || self.name == "B" => {
                format!("{} {}", grouped((size / self.size).round()), self.name)
            }
            size => format!("{} {}", number(size / self.size), self.name),
        }
    }
}

/// A number for a scale, where there is little room: `850`, `12k`, `1.2M`.
pub(super) fn short(value: f64) -> String {
    let (digits, unit) = match value.abs() {
        // Marks of one axis must not look alike.
        tiny @ 1e-7..0.001 => {
            let decimals = (1.0 - tiny.log10().floor()) as usize;
            (format!("{value:.decimals$}"), "")
        }
        1e6.. => (number(value / 1e6), "M"),
        1e4.. => (number(value / 1e3), "k"),
        _ => (number(value), ""),
    };
    match digits.contains('.') {
        true => format!(
            "{}{unit}",
            digits.trim_end_matches('0').trim_end_matches('.')
        ),
        false => digits + unit,
    }
}

/// A count and what is counted: `1 error`, `12 errors`.
pub(super) fn counted(many: u64, one: &str) -> String {
    let ending = if many == 1 { "" } else { "s" };
    format!("{} {one}{ending}", count(many))
}

/// Microseconds likewise.
pub(super) fn micros(us: u64) -> String {
    secs(us as f64 / 1e6)
}

/// `12.3 %`; what rounds to nothing and is not nothing says so.
pub(super) fn percent(percent: f64) -> String {
    match percent {
        percent if !percent.is_finite() => UNKNOWN.to_owned(),
        0.0 => "0 %".to_owned(),
        ..0.05 => "<0.1 %".to_owned(),
        ..99.95 => format!("{percent:.1} %"),
        _ => format!("{} %", grouped(percent)),
    }
}

/// By which part something changed: `+12 %`, `−3.2 %`, `×14`.
pub(super) fn change(part: f64) -> String {
    match part {
        part if !part.is_finite() => UNKNOWN.to_owned(),
        10.0.. => format!("\u{d7}{}", grouped((1.0 + part).round())),
        part if part.abs() < 0.000_5 => "0 %".to_owned(),
        part => {
            let sign = if part < 0.0 { '\u{2212}' } else { '+' };
            let digits = usize::from(part.abs() < 0.099_5);
            format!("{sign}{:.digits$} %", 100.0 * part.abs())
        }
    }
}

/// A number of seconds that need not be exact: `21 s`, `15 min`.
pub(super) fn roughly(secs: f64) -> String {
    match secs {
        ..120.0 => format!("{secs:.0} s"),
        3600.0 => "1 h".to_owned(),
        ..7200.0 => format!("{:.0} min", secs / 60.0),
        ..172_800.0 => format!("{:.0} h", secs / 3600.0),
        _ => format!("{:.0} d", secs / 86_400.0),
    }
}

/// A count that is an estimate: two digits of it.
pub(super) fn roughly_many(many: u64) -> String {
    let digits = many.checked_ilog10().unwrap_or(0);
    let unit = 10_u64.pow(digits.saturating_sub(1));
    count(many.saturating_add(unit / 2) / unit * unit)
}

/// Bytes in powers of 1024.
pub(super) fn bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    if !bytes.is_finite() {
        return UNKNOWN.to_owned();
    }
    let mut scaled = bytes;
    let mut unit = 0;
    while scaled.abs() >= 999.5 && unit + 1 < units.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let digits = match unit {
        0 => grouped(scaled),
        _ => number(scaled),
    };
    format!("{digits} {}", units[unit])
}

/// A value of a report's own columns, by the name of its column. Names of keys decide nothing: the type of the value does.
pub(super) fn value(column: &str, value: &Value<'_>) -> Markup {
    match value {
        Value::Null => html! { span.none { (UNKNOWN) } },
        Value::Text(text) => Name(text).render(),
        Value::Int(number) => html! { (grouped(*number as f64)) },
        Value::Micros(us) => html! { (micros(*us)) },
        Value::Float(float) if column.ends_with("_percent") || column == "percent" => {
            html! { (percent(*float)) }
        }
        Value::Float(float) if is_secs(column) => html! { (secs(*float)) },
        Value::Float(float) => html! { (number(*float)) },
    }
}

/// Whether a column of floats is in seconds: percentiles and medians.
pub(super) fn is_secs(column: &str) -> bool {
    let percentile = column
        .strip_prefix('p')
        .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
    percentile || column.ends_with("_median") || column == "time_value"
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

/// Tags in one text, which may be broken between them.
pub(super) fn pairs(text: &str) -> Markup {
    let shown = visible(text);
    html! {
        @for (at, pair) in shown.split(',').enumerate() { @if at > 0 { "," wbr; } (pair) }
    }
}

/// A value as the text by which it can be searched for.
pub(super) fn plain(value: &Value<'_>) -> String {
    match value {
        Value::Null => String::new(),
        Value::Text(text) => text.clone().into_owned(),
        Value::Int(number) => number.to_string(),
        Value::Micros(us) => (*us as f64 / 1e6).to_string(),
        Value::Float(float) => float.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        let cases = [
            (0.0, "0"),
            (0.001_234, "0.0012"),
            (0.1, "0.10"),
            (1.234, "1.23"),
            (9.999, "10.0"),
            (99.94, "99.9"),
            (99.96, "100"),
            (1_234_567.4, "1,234,567"),
            (-1234.0, "-1,234"),
            (f64::NAN, "\u{2013}"),
        ];
        for (given, shown) in cases {
            assert_eq!(number(given), shown);
        }
    }

    #[test]
    fn times_find_their_unit() {
        let cases = [
            (0.0, "0"),
            (0.000_000_9, "1.00 \u{b5}s"),
            (0.000_812, "812 \u{b5}s"),
            (0.000_999_9, "1.00 ms"),
            (0.036_1, "36.1 ms"),
            (0.999_9, "1.00 s"),
            (2.05, "2.05 s"),
            (599.0, "599 s"),
            (3738.4, "3,738 s"),
            (15_120.0, "4.20 h"),
        ];
        for (given, shown) in cases {
            assert_eq!(secs(given), shown);
        }
        assert_eq!(bytes(799_449_764_864.0), "745 GiB");
        assert_eq!(bytes(17.0), "17 B");
        assert_eq!(percent(0.01), "<0.1 %");
        assert_eq!(percent(12.34), "12.3 %");
        assert_eq!(percent(100.0), "100 %");
        assert_eq!(
            ["error", "request"].map(|it| counted(1, it)),
            ["1 error", "1 request"]
        );
        assert_eq!(counted(1200, "error"), "1,200 errors");
        assert_eq!(
            [850.0, 0.5, 10.0, 12_000.0, 1.25e6].map(short),
            ["850", "0.5", "10", "12k", "1.25M"]
        );
        let changes = [0.0, 0.123, 0.012, -0.5, -1.0, 13.2, f64::NAN];
        let shown = [
            "0 %",
            "+12 %",
            "+1.2 %",
            "\u{2212}50 %",
            "\u{2212}100 %",
            "\u{d7}14",
            "\u{2013}",
        ];
        assert_eq!(changes.map(change), shown);
    }

    #[test]
    fn a_column_has_one_unit() {
        let shown = |numbers: &[f64]| {
            let unit = Unit::of_secs(numbers.iter().copied());
            let shown = numbers.iter().map(|it| unit.text(*it));
            shown.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(shown(&[11_664.0, 2_940.0]), "11,664 s, 2,940 s");
        assert_eq!(shown(&[5.2, 0.0123, 0.125]), "5,200 ms, 12.3 ms, 125 ms");
        assert_eq!(
            shown(&[0.000_812, 0.0, 0.000_5]),
            "812 \u{b5}s, 0, 500 \u{b5}s"
        );
        assert_eq!(shown(&[400_000.0, 40_000.0]), "111 h, 11.1 h");
        assert_eq!(shown(&[f64::NAN]), "\u{2013}");
        let unit = Unit::of_bytes([2048.0, 5e6, 17.0]);
        assert_eq!(
            [2048.0, 5e6, 17.0].map(|it| unit.text(it)),
            ["2.00 KiB", "4,883 KiB", "0.0166 KiB"]
        );
    }

    #[test]
    fn long_names_are_cut_in_the_middle() {
        let cut = |name: &'static str| end_of(name).map(|(_, end)| end);
        assert_eq!(cut("/a/index.php"), None);
        assert_eq!(
            cut("/var/www/html/public/index.php/cart/list"),
            Some("/cart/list")
        );
        assert_eq!(
            cut("a-name-without-any-place-to-break-it"),
            Some("o-break-it")
        );
        let page = Name("/var/www/<b>/html/shop/index.php")
            .render()
            .into_string();
        assert!(
            page.contains("<span>/var/www/&lt;b&gt;/html/shop</span>/index.php</bdi>"),
            "{page}"
        );
        let wide = "\u{5e97}".repeat(30);
        assert_eq!(end_of(&wide).unwrap().1.chars().count(), END / 2);
    }

    #[test]
    fn names_stay_text() {
        let page = |name| Name(name).render().into_string();
        assert_eq!(
            page("<b>'x'</b>\"&"),
            "<bdi>&lt;b&gt;'x'&lt;/b&gt;&quot;&amp;</bdi>"
        );
        assert_eq!(
            page("a\nb\u{0}\u{7f}"),
            "<bdi class=\"cut\"><span>a\u{27e8}0A\u{27e9}b\u{27e8}00\u{27e9}</span>\u{27e8}7F\u{27e9}</bdi>"
        );
        assert_eq!(
            page("x\u{202e}y\u{200b}"),
            "<bdi class=\"cut\"><span>x\u{27e8}202E\u{27e9}</span>y\u{27e8}200B\u{27e9}</bdi>"
        );
        assert_eq!(page(""), "<span class=\"none\">(empty)</span>");
        assert_eq!(page("\u{5e9}\u{5dc} ü"), "<bdi>\u{5e9}\u{5dc} ü</bdi>");
    }
}
