//! Bits and bases: every value is an unsigned 64-bit integer, as in MySQL.

use crate::sql::functions::value::Value;

/// A shift; by 64 or more the result is 0.
pub(super) fn shift(value: u64, by: u64, how: fn(u64, u32) -> Option<u64>) -> u64 {
    u32::try_from(by).ok().and_then(|by| how(value, by)).unwrap_or(0)
}

/// CONV: converts the integer that a text begins with from one base to another. BIN and OCT are
/// CONV from 10.
pub(super) fn conv(a: &[Value<'_>]) -> Option<String> {
    let base = |of: &Value<'_>| {
        let base = u32::try_from(of.int().unsigned_abs()).ok();
        base.filter(|base| (2..=36).contains(base))
    };
    let (from, to) = (base(&a[1])?, base(&a[2])?);
    let text = a[0].to_text();
    if text.is_empty() {
        return None;
    }
    let digits = text.trim();
    let positive = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    let values = positive.chars().map_while(|digit| digit.to_digit(from));
    let mut value = values.fold(0_u64, |value, digit| {
        let value = value.saturating_mul(from.into());
        value.saturating_add(digit.into())
    });
    if digits.starts_with('-') {
        value = value.wrapping_neg();
    }
    // A negative base asks for a sign.
    let is_negative = a[2].int() < 0 && value.cast_signed() < 0;
    if is_negative {
        value = value.wrapping_neg();
    }
    let mut written = String::new();
    while value > 0 || written.is_empty() {
        let digit = char::from_digit((value % u64::from(to)) as u32, to)?;
        written.insert(0, digit.to_ascii_uppercase());
        value /= u64::from(to);
    }
    if is_negative {
        written.insert(0, '-');
    }
    Some(written)
}
