//! Text for people: numbers, times, sizes, and names with every character visible.
//!
//! Pages and the terminal use this for all text, so that a number looks the same everywhere.
//! Characters that are invisible, or that reverse the direction of what follows, are replaced by
//! signs, so that no name can pass for another or rearrange its row. Pure functions.

use std::borrow::Cow;
use std::fmt;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::Unit;

/// Shown in place of an empty name.
pub const EMPTY: &str = "(empty)";

/// A name, or [`EMPTY`].
pub(crate) fn name_or_empty(name: &str) -> &str {
    if name.is_empty() { EMPTY } else { name }
}

/// Marks a text that was cut.
pub const CUT: char = '…';

/// The width of a text on a terminal, in columns.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Cuts a text to at most `columns` columns, with a mark.
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

/// Cuts a name to at most `columns` columns, with a mark in its middle: many names differ at their
/// ends only.
pub fn cut_name(name: &str, columns: usize) -> Cow<'_, str> {
    if width(name) <= columns {
        return Cow::Borrowed(name);
    }
    let begin = cut(name, columns.div_ceil(2));
    let room = columns - width(&begin);
    let mut taken = 0;
    let from_end = name.char_indices().rev().take_while(|(_, c)| {
        taken += c.width().unwrap_or(0);
        taken <= room
    });
    let end = from_end.last().and_then(|(at, _)| name.get(at..));
    Cow::Owned(format!("{begin}{}", end.unwrap_or_default()))
}

/// Replaces invisible characters: `⟨0A⟩`, `⟨202E⟩`.
pub(crate) fn visible(text: &str) -> String {
    let sign = |c| format!("\u{27e8}{:02X}\u{27e9}", u32::from(c));
    written_out(text, sign).into_owned()
}

/// Replaces characters that are invisible, or would act on a terminal, by the output of `write`;
/// also blanks at the ends.
pub(crate) fn written_out(text: &str, write: impl Fn(char) -> String) -> Cow<'_, str> {
    let inner = text.trim();
    if inner.len() == text.len() && !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let start = text.len() - text.trim_start().len();
    let inner = start..start + inner.len();
    let mut shown = String::with_capacity(text.len() + 16);
    for (at, c) in text.char_indices() {
        match is_hidden(c) || !inner.contains(&at) {
            true => shown.push_str(&write(c)),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Controls, soft hyphen, direction marks and overrides, zero-width characters, line separators,
/// tags, and private use, which may be anything.
const fn is_hidden(character: char) -> bool {
    matches!(character,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e000}'..='\u{f8ff}' | '\u{feff}'
        | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' | '\u{f0000}'..='\u{10ffff}')
}

/// Sign of negative numbers.
pub(crate) const MINUS: char = '\u{2212}';

/// Shown in place of a missing number.
pub(crate) const UNKNOWN: &str = "\u{2013}";

/// Formats a number with three significant digits: `0.00123`, `0.123`, `12.3`, `1,234`; `<0.0001`
/// below that.
pub fn number(number: f64) -> String {
    /// From each of them on, a number has one decimal less than from the next.
    const STEPS: [f64; 5] = [9.995, 0.999_5, 0.099_95, 0.009_995, 0.000_999_5];
    match number.abs() {
        size if !size.is_finite() => UNKNOWN.to_owned(),
        size if number < 0.0 && size >= 0.000_1 => format!("{MINUS}{}", self::number(size)),
        1e15.. => format!("{number:.2e}"),
        99.95.. | 0.0 => grouped(number),
        0.000_1.. => {
            let decimals = 1 + STEPS.iter().take_while(|step| number < **step).count();
            format!("{number:.decimals$}")
        }
        _ if number > 0.0 => "<0.0001".to_owned(),
        _ => format!("{number:.1e}"),
    }
}

/// Formats an integer in full.
pub(crate) fn count(count: u64) -> String {
    grouped(count as f64)
}

/// Formats seconds in a fitting unit: `812 µs`, `36.1 ms`, `2.05 s`, `3,738 s`, `4.20 h`.
pub fn secs(secs: f64) -> String {
    const ENDS: [f64; 4] = [0.000_999_5, 0.999_5, 9_999.5, 172_800.0];
    let at = ENDS.iter().take_while(|end| secs.abs() >= **end).count();
    Scale { units: TIMES, at }.text(secs)
}

/// Formats a number of this unit: `36.1 ms`, `2.05 MiB/s`, `12.3 %`.
pub(crate) fn with_unit(value: f64, unit: Unit) -> String {
    let plain = |value: f64| match value.fract() == 0.0 {
        true => grouped(value),
        false => number(value),
    };
    match unit {
        Unit::Seconds => secs(value),
        Unit::Microseconds => number(value) + " \u{b5}s",
        Unit::Bytes => bytes(value),
        Unit::Kib => bytes(value * 1024.0),
        Unit::BytesPerSecond => bytes(value) + "/s",
        Unit::KibPerSecond => bytes(value * 1024.0) + "/s",
        Unit::Percent => percent(value),
        Unit::Part | Unit::Ratio => percent(value * 100.0),
        Unit::CountPerSecond => plain(value) + "/s",
        Unit::None | Unit::Count | Unit::UnixSeconds | Unit::SecondsPerSecond => plain(value),
    }
}

/// A unit shared by the numbers of a column, or of an axis: `ms`, `KiB`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    /// Sizes and names, ascending.
    units: &'static [(f64, &'static str)],
    /// Which of them.
    at: usize,
}

const TIMES: &[(f64, &str)] =
    &[(1e-6, "\u{b5}s"), (1e-3, "ms"), (1.0, "s"), (3600.0, "h"), (86_400.0, "d")];
const SIZES: &[(f64, &str)] = &[
    (1.0, "B"),
    (1024.0, "KiB"),
    (1_048_576.0, "MiB"),
    (1_073_741_824.0, "GiB"),
    (1_099_511_627_776.0, "TiB"),
    (1_125_899_906_842_624.0, "PiB"),
];

/// Numbers from here on are too long for their unit; of hours as in [`secs`].
const MANY: f64 = 99_999.5;
const MANY_HOURS: f64 = 48.0;
/// The least that a median may be in a unit that a larger number asks for: it keeps three digits.
const FEW: f64 = 0.001;

impl Scale {
    /// The scale for these numbers of seconds.
    pub(crate) fn of_secs(numbers: impl IntoIterator<Item = f64>) -> Self {
        // Single numbers switch to hours late.
        Self::fit(TIMES, numbers, 2)
    }

    /// The scale for these numbers of bytes.
    pub(crate) fn of_bytes(numbers: impl IntoIterator<Item = f64>) -> Self {
        Self::fit(SIZES, numbers, SIZES.len() - 1)
    }

    /// The unit for the median, or a larger one where the largest number is too long in it. `last`:
    /// the largest one, unless the median would be too long in that.
    fn fit(
        units: &'static [(f64, &'static str)],
        numbers: impl IntoIterator<Item = f64>,
        last: usize,
    ) -> Self {
        let numbers = numbers.into_iter().map(f64::abs);
        let mut known: Vec<f64> = numbers.filter(|it| it.is_finite() && *it > 0.0).collect();
        known.sort_by(f64::total_cmp);
        let middle = known.get(known.len() / 2).copied().unwrap_or(0.0);
        let most = known.last().copied().unwrap_or(0.0);
        let at = units[..=last].iter().rposition(|(size, _)| middle >= size * 0.9995).unwrap_or(0);
        let is_too_long = |at: usize, number: f64| {
            let (size, name) = units[at];
            number / size >= if name == "h" { MANY_HOURS } else { MANY }
        };
        let is_fit = |at: &usize| {
            let larger = units.get(at + 1);
            let is_small = larger.is_none_or(|it| *at >= last || middle < it.0 * FEW);
            !is_too_long(*at, middle) && (is_small || !is_too_long(*at, most))
        };
        Self { units, at: (at..units.len()).find(is_fit).unwrap_or(units.len() - 1) }
    }

    /// Formats a number of seconds or bytes.
    pub(crate) fn text(self, of_base: f64) -> String {
        let (size, name) = self.units[self.at];
        match of_base {
            number if !number.is_finite() => UNKNOWN.to_owned(),
            0.0 => "0".to_owned(),
            number if self.at == 0 => format!("{} {name}", grouped((number / size).round())),
            number => format!("{} {name}", self::number(number / size)),
        }
    }
}

/// Formats a number briefly, for a scale: `850`, `12k`, `1.2M`.
pub(crate) fn short(value: f64) -> String {
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
        true => format!("{}{unit}", digits.trim_end_matches('0').trim_end_matches('.')),
        false => digits + unit,
    }
}

/// A count with its noun: `1 error`, `12 errors`.
pub(crate) fn counted(many: u64, one: &str) -> String {
    let ending = if many == 1 { "" } else { "s" };
    format!("{} {one}{ending}", count(many))
}

/// A number and what is said of it: `1 row is lost`, `12 rows are lost`.
pub(crate) fn numbered<N: fmt::Display + PartialEq + From<u8>>(
    number: N,
    one: &str,
    many: &str,
) -> String {
    let what = if number == N::from(1) { one } else { many };
    format!("{number} {what}")
}

/// Items, with `between` between them.
pub(crate) fn joined<T: fmt::Display>(items: impl IntoIterator<Item = T>, between: &str) -> String {
    items.into_iter().map(|it| it.to_string()).collect::<Vec<_>>().join(between)
}

/// Formats microseconds like [`secs`].
pub(crate) fn micros(us: u64) -> String {
    secs(us as f64 / 1e6)
}

/// `12.3 %`; a nonzero value that rounds to zero is shown as such.
pub(crate) fn percent(percent: f64) -> String {
    match percent {
        percent if !percent.is_finite() => UNKNOWN.to_owned(),
        0.0 => "0 %".to_owned(),
        ..0.05 => "<0.1 %".to_owned(),
        ..99.95 => format!("{percent:.1} %"),
        _ => format!("{} %", grouped(percent)),
    }
}

/// Formats a relative change: `+12 %`, `−3.2 %`, `×14`.
pub(crate) fn change(part: f64) -> String {
    match part {
        part if !part.is_finite() => UNKNOWN.to_owned(),
        10.0.. => format!("\u{d7}{}", grouped((1.0 + part).round())),
        part if part.abs() < 0.000_5 => "0 %".to_owned(),
        part => {
            let sign = if part < 0.0 { MINUS } else { '+' };
            // All of it is gone only at 100 %.
            let (percent, is_nearly_all) = (100.0 * part.abs(), part > -1.0 && part <= -0.995);
            let percent = if is_nearly_all { percent.min(99.9) } else { percent };
            let digits = usize::from(part.abs() < 0.099_5 || is_nearly_all);
            let unit = [1.0, 10.0][digits];
            let percent = (percent * unit).round() / unit;
            format!("{sign}{percent:.digits$} %")
        }
    }
}

/// Formats the difference of two percentages: `+1.5 points`.
pub(crate) fn points(difference: f64) -> String {
    let size = difference.abs();
    match size >= 0.05 {
        true => format!("{}{size:.1} points", if difference < 0.0 { MINUS } else { '+' }),
        false => "0 points".to_owned(),
    }
}

/// Formats an approximate number of seconds: `21 s`, `15 min`.
pub(crate) fn roughly(secs: f64) -> String {
    match secs {
        ..120.0 => format!("{secs:.0} s"),
        3600.0 => "1 h".to_owned(),
        ..7200.0 => format!("{:.0} min", secs / 60.0),
        ..172_800.0 => format!("{:.0} h", secs / 3600.0),
        _ => format!("{:.0} d", secs / 86_400.0),
    }
}

/// Formats seconds that rates are over, less than a percent off: `146 s` as `2 min 26 s`, and
/// `15 min`, `1 h 5 min`.
pub(crate) fn lasting(secs: u64) -> String {
    let (large, small, [name, name_small]) = match secs {
        ..120 => return format!("{secs} s"),
        120..3_600 => (60, 1, ["min", "s"]),
        3_600..172_800 => (3_600, 60, ["h", "min"]),
        _ => (86_400, 3_600, ["d", "h"]),
    };
    let unit = if secs / large < 50 { small } else { large };
    let secs = secs.saturating_add(unit / 2) / unit * unit;
    match (secs / large, secs % large / small) {
        (many, 0) => format!("{many} {name}"),
        (many, rest) => format!("{many} {name} {rest} {name_small}"),
    }
}

/// The step of points or columns, in words: `by the second`, `by 10 s`.
pub(crate) fn by(step_secs: u64) -> String {
    match step_secs {
        1 => "by the second".to_owned(),
        60 => "by the minute".to_owned(),
        3_600 => "by the hour".to_owned(),
        86_400 => "by the day".to_owned(),
        secs => format!("by {}", lasting(secs)),
    }
}

/// The part of its window, in seconds, that the numbers of a live table are of: `last 2 min 26 s`.
pub(crate) fn last(covered: u64, window: u64) -> String {
    let is_whole = covered == 0 || covered + window / 100 >= window;
    format!("last {}", lasting(if is_whole { window } else { covered }))
}

/// Formats an estimated count with two digits.
pub(crate) fn roughly_many(many: u64) -> String {
    count(with_two_digits(many))
}

/// Rounds a number to two digits.
pub(crate) fn with_two_digits(number: u64) -> u64 {
    let digits = number.checked_ilog10().unwrap_or(0);
    let unit = 10_u64.pow(digits.saturating_sub(1));
    number.saturating_add(unit / 2) / unit * unit
}

/// Formats bytes in the unit that fits them: `17 B`, `1.50 KiB`, `745 GiB`.
pub fn bytes(bytes: f64) -> String {
    Scale::of_bytes([bytes]).text(bytes)
}

/// Formats bytes in MiB, however many, for figures that add up: `2,046.3 MiB`.
pub(crate) fn mebibytes(bytes: u64) -> String {
    let tenths = (bytes as f64 / 104_857.6).round() as u64;
    format!("{}.{} MiB", count(tenths / 10), tenths % 10)
}

/// Formats an integer with commas: `12,345`.
pub fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if number < 0.0 && digits != "0" {
        text.push(MINUS);
    }
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_a_small_axis_differ() {
        let marks = [0.0, 0.000_05, 0.000_1, 0.000_15, 0.5, 20_000.0];
        let shown = ["0", "0.00005", "0.0001", "0.00015", "0.5", "20k"];
        assert_eq!(marks.map(short), shown);
    }

    #[test]
    fn numbers_have_three_digits_that_count() {
        let cases = [
            (0.0, "0"),
            (0.000_09, "<0.0001"),
            (0.000_123_4, "0.000123"),
            (0.001_234, "0.00123"),
            (0.099_96, "0.100"),
            (0.1, "0.100"),
            (0.999_6, "1.00"),
            (1.234, "1.23"),
            (9.999, "10.0"),
            (99.94, "99.9"),
            (99.96, "100"),
            (1_234_567.4, "1,234,567"),
            (-1234.0, "\u{2212}1,234"),
            (-12.34, "\u{2212}12.3"),
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
            (0.000_000_9, "1 \u{b5}s"),
            // As in a column of milliseconds.
            (0.007_725, &Scale::of_secs([0.007_725]).text(0.007_725)),
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
        assert_eq!(
            [0, 1 << 16, 2_145_684_480].map(mebibytes),
            ["0.0 MiB", "0.1 MiB", "2,046.3 MiB"]
        );
        assert_eq!(bytes(1000.0), Scale::of_bytes([1000.0; 3]).text(1000.0));
        assert_eq!([1023.0, 1024.0, 3e15].map(bytes), ["1,023 B", "1.00 KiB", "2.66 PiB"]);
        assert_eq!(percent(0.01), "<0.1 %");
        assert_eq!(percent(12.34), "12.3 %");
        assert_eq!(percent(100.0), "100 %");
        assert_eq!(["error", "request"].map(|it| counted(1, it)), ["1 error", "1 request"]);
        assert_eq!(counted(1200, "error"), "1,200 errors");
        assert_eq!(
            [850.0, 0.5, 10.0, 12_000.0, 1.25e6].map(short),
            ["850", "0.5", "10", "12k", "1.25M"]
        );
        let changes =
            [0.0, 0.123, 0.012, -0.125, 0.0625, -0.5, -0.9962, -0.9999, -1.0, 13.2, f64::NAN];
        let shown = [
            "0 %",
            "+12 %",
            "+1.2 %",
            "\u{2212}13 %",
            "+6.3 %",
            "\u{2212}50 %",
            "\u{2212}99.6 %",
            "\u{2212}99.9 %",
            "\u{2212}100 %",
            "\u{d7}14",
            "\u{2013}",
        ];
        assert_eq!(changes.map(change), shown);
        let shown = ["+1.5 points", "\u{2212}12.0 points", "0 points"];
        assert_eq!([1.5, -12.04, 0.04].map(points), shown);
    }

    #[test]
    fn spans_of_rates_are_less_than_a_percent_off() {
        for (secs, shown) in [
            (0, "0 s"),
            (60, "60 s"),
            (119, "119 s"),
            (120, "2 min"),
            (146, "2 min 26 s"),
            (900, "15 min"),
            (3_570, "60 min"),
            (3_600, "1 h"),
            (3_929, "1 h 5 min"),
            (7_199, "2 h"),
            (86_400, "24 h"),
            (190_000, "2 d 5 h"),
            (30 * 86_400, "30 d"),
            (50 * 86_400 + 7_200, "50 d"),
        ] {
            assert_eq!(lasting(secs), shown);
        }
        let steps = [1, 2, 10, 60, 300, 3_600, 9_000, 86_400].map(by);
        let shown = [
            "the second",
            "2 s",
            "10 s",
            "the minute",
            "5 min",
            "the hour",
            "2 h 30 min",
            "the day",
        ];
        assert_eq!(steps, shown.map(|it| format!("by {it}")));
    }

    #[test]
    fn blank_names_can_be_seen() {
        assert_eq!(visible(" \u{a0}"), "\u{27e8}20\u{27e9}\u{27e8}A0\u{27e9}");
        assert_eq!(visible(" web 01 "), "\u{27e8}20\u{27e9}web 01\u{27e8}20\u{27e9}");
        assert_eq!(["a b", ""].map(visible), ["a b", ""]);
    }

    #[test]
    fn a_column_has_one_unit() {
        let shown = |numbers: &[f64]| {
            let unit = Scale::of_secs(numbers.iter().copied());
            let shown = numbers.iter().map(|it| unit.text(*it));
            shown.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(shown(&[11_664.0, 2_940.0]), "11,664 s, 2,940 s");
        assert_eq!(shown(&[5.2, 0.0123, 0.125]), "5,200 ms, 12.3 ms, 125 ms");
        assert_eq!(shown(&[0.000_812, 0.0, 0.000_5]), "812 \u{b5}s, 0, 500 \u{b5}s");
        assert_eq!(shown(&[150_000.0, 40_000.0]), "41.7 h, 11.1 h");
        assert_eq!(shown(&[2_592_000.0, 43_200.0]), "30.0 d, 0.500 d");
        assert_eq!(shown(&[f64::NAN]), "\u{2013}");
        // Of all of them, also where some are long in it.
        assert_eq!(
            shown(&[103.0, 0.09, 90.0, 0.05, 0.04]),
            "103 s, 0.0900 s, 90.0 s, 0.0500 s, 0.0400 s"
        );
        assert_eq!(
            shown(&[0.07, 1e6, 0.06, 101.0, 0.05]),
            "0.0700 s, 1,000,000 s, 0.0600 s, 101 s, 0.0500 s"
        );
        assert_eq!(shown(&[0.000_4, 0.000_5, 1.0]), "0.400 ms, 0.500 ms, 1,000 ms");
        assert_eq!(shown(&[0.000_4, 0.000_5, 200.0]), "0.400 ms, 0.500 ms, 200,000 ms");
        let unit = Scale::of_bytes([2048.0, 5e6, 17.0]);
        assert_eq!(
            [2048.0, 5e6, 17.0].map(|it| unit.text(it)),
            ["2.00 KiB", "4,883 KiB", "0.0166 KiB"]
        );
    }
}
