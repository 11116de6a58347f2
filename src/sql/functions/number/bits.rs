//! Bits and bases: every value is 64 bits without a sign, as in MySQL.

use crate::sql::functions::or_null;
use crate::sql::functions::value::V;

/// A value as 64 bits.
pub(super) fn word(of: &V<'_>) -> u64 {
    match of {
        V::UInt(value) => *value,
        other => other.int().cast_unsigned(),
    }
}

/// An operator on bits.
pub(super) fn bits<'a>(a: &'a [V<'a>], row: fn(u64, u64) -> u64) -> V<'a> {
    match a.iter().any(V::is_null) {
        true => V::Null,
        false => V::UInt(row(word(&a[0]), word(&a[1]))),
    }
}

/// A shift; by 64 and more nothing is left.
pub(super) fn shift(value: u64, by: u64, how: fn(u64, u32) -> Option<u64>) -> u64 {
    u32::try_from(by)
        .ok()
        .and_then(|by| how(value, by))
        .unwrap_or(0)
}

/// CONV: a whole number from one base to another.
pub(super) fn conv<'a>(a: &'a [V<'a>]) -> V<'a> {
    or_null(a, |a| {
        let (from, to) = (a[1].int(), a[2].int());
        if !(2..=36).contains(&from) || !(2..=36).contains(&to) {
            return V::Null;
        }
        let said = a[0].said();
        let digits = said.trim();
        let (negative, digits) = match digits.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, digits),
        };
        let mut value = 0_u64;
        for digit in digits
            .chars()
            .map_while(|digit| digit.to_digit(from as u32))
        {
            value = value
                .saturating_mul(from as u64)
                .saturating_add(u64::from(digit));
        }
        if negative {
            value = value.wrapping_neg();
        }
        let mut written = Vec::new();
        loop {
            let digit = char::from_digit((value % to as u64) as u32, to as u32);
            written.push(digit.unwrap_or('0').to_ascii_uppercase());
            value /= to as u64;
            if value == 0 {
                break;
            }
        }
        V::text(written.into_iter().rev().collect::<String>())
    })
}
