//! Numbers as texts, texts as the numbers they begin with, and decimals with other digits after the point.

/// Other digits after the point, rounded half away from zero; `None` beyond 38 digits.
pub(crate) fn rescale(value: i128, from: i8, to: i8) -> Option<i128> {
    let by = 10_i128.checked_pow(u32::from(from.abs_diff(to)))?;
    if to >= from {
        return value.checked_mul(by);
    }
    let (whole, rest) = (value / by, value % by);
    match rest.abs() >= by - rest.abs() {
        true => Some(whole + value.signum()),
        false => Some(whole),
    }
}

/// `-12.50`.
pub(crate) fn decimal_text(value: i128, scale: i8) -> String {
    let digits = value.unsigned_abs().to_string();
    let sign = if value < 0 { "-" } else { "" };
    let Ok(scale) = usize::try_from(scale) else {
        return format!("{sign}{digits}{}", "0".repeat(scale.unsigned_abs().into()));
    };
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, rest) = digits.split_at(digits.len() - scale);
    format!("{sign}{whole}.{rest}")
}

/// A double as MySQL prints it: the shortest digits that say it, with an exponent from 1e15 on and below 1e-15.
pub(crate) fn double_text(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let size = value.abs();
    match (1e-15..1e15).contains(&size) || !value.is_finite() {
        true => value.to_string(),
        false => format!("{value:e}"),
    }
}

/// A float as MySQL prints it: six digits.
pub(crate) fn float_text(value: f32) -> String {
    let value = f64::from(value);
    if value == 0.0 || !value.is_finite() {
        return double_text(value);
    }
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    double_text(rounded)
}

/// The number that a text begins with, 0 if it does not.
pub(crate) fn number_prefix(text: &str) -> f64 {
    let text = text.trim_start();
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let sign = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole = digits(sign);
    let mut end = whole;
    if bytes.get(end) == Some(&b'.') {
        let after = digits(end + 1);
        if after > end + 1 || whole > sign {
            end = after;
        }
    }
    if end == sign || text[sign..end] == *"." {
        return 0.0;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    let value: f64 = text[..end].parse().unwrap_or(0.0);
    value.clamp(f64::MIN, f64::MAX)
}

/// The same for a text that is a whole number and no more.
pub(super) fn whole_prefix(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_texts_and_back() {
        assert_eq!(double_text(0.1 + 0.2), "0.30000000000000004");
        assert_eq!(double_text(1e15), "1e15");
        assert_eq!(double_text(-0.0), "0");
        assert_eq!(float_text(0.123_456_79), "0.123457");
        assert_eq!(float_text(16_777_216.0), "16777200");
        assert_eq!(float_text(3.4e38), "3.4e38");
        assert_eq!(decimal_text(-5, 2), "-0.05");
        assert_eq!(rescale(285_715, 4, 3), Some(28_572));
        assert_eq!(rescale(-25, 1, 0), Some(-3));
        for (text, number) in [
            ("12abc", 12.0),
            (" -1.5e2x", -150.0),
            ("", 0.0),
            (".", 0.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e", 1.0),
            ("é", 0.0),
            ("1e999", f64::MAX),
        ] {
            assert_eq!(number_prefix(text), number, "{text}");
        }
    }
}
