//! Functions of numbers: MySQL's division, remainders, rounding, bits, and the usual mathematics.
//!
//! Whole numbers and decimals are calculated exactly, 38 digits at most, and by doubles beyond that; a division has four digits
//! more after the point than what is divided. By zero it is NULL, as is whatever is not a finite number. Here is what each takes
//! and gives; how it is worked out is in `arithmetic`, `rounding` and `bits`, the types of the results in `types`.

mod arithmetic;
mod bits;
mod rounding;
mod types;

use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use self::arithmetic::{
    checked, divide, divide_reals, divide_whole, division_type, negate, remainder,
};
use self::bits::{bits, conv, shift, word};
use self::rounding::{Rounding, cut, format, rounded_type, whole, whole_or_real};
use self::types::{arithmetic_type, common_type, is_number, number_type, sum_type, whole_type};
use super::value::{V, rescale};
use super::{Def, MANY, def, int_type, or_null, real_type, text_type, uint_type};

pub(super) const FUNCTIONS: &[Def] = &[
    Def {
        whole: Some(divide_reals),
        ..def("__div", (2, 2), division_type, divide)
    },
    Def {
        whole: Some(|arguments, rows| checked(arguments, rows, numeric::add)),
        ..def("__plus", (2, 2), int_type, |_| V::Null)
    },
    Def {
        whole: Some(|arguments, rows| checked(arguments, rows, numeric::sub)),
        ..def("__minus", (2, 2), int_type, |_| V::Null)
    },
    Def {
        whole: Some(|arguments, rows| checked(arguments, rows, numeric::mul)),
        ..def("__times", (2, 2), int_type, |_| V::Null)
    },
    def("__div_int", (2, 2), whole_type, divide_whole),
    def("__mod", (2, 2), arithmetic_type, remainder),
    def("mod", (2, 2), arithmetic_type, remainder),
    def("__neg", (1, 1), arithmetic_type, negate),
    Def {
        identity: is_number,
        ..def("__number", (1, 1), number_type, |a| a[0].clone().number())
    },
    Def {
        identity: |given| !matches!(given, DataType::Int64 | DataType::UInt64),
        ..def("__sum_type", (1, 1), sum_type, |a| a[0].clone())
    },
    def("abs", (1, 1), arithmetic_type, |a| {
        match a[0].clone().number() {
            V::Int(value) => V::Int(value.saturating_abs()),
            V::Decimal(value, scale) => V::Decimal(value.saturating_abs(), scale),
            V::Real(value) => V::Real(value.abs()),
            other => other,
        }
    }),
    def("sign", (1, 1), int_type, |a| {
        or_null(a, |a| {
            let real = a[0].real();
            V::Int(if real == 0.0 { 0 } else { real.signum() as i64 })
        })
    }),
    def("round", (1, 2), rounded_type, |a| cut(a, Rounding::Nearest)),
    def("truncate", (2, 2), rounded_type, |a| cut(a, Rounding::Down)),
    def("floor", (1, 1), whole_or_real, |a| {
        whole(a, f64::floor, i128::div_euclid)
    }),
    def("ceil", (1, 1), whole_or_real, |a| {
        whole(a, f64::ceil, |value, by| -(-value).div_euclid(by))
    }),
    def("ceiling", (1, 1), whole_or_real, |a| {
        whole(a, f64::ceil, |value, by| -(-value).div_euclid(by))
    }),
    def("format", (2, 3), text_type, format),
    def("greatest", (2, MANY), common_type, |a| extreme(a, true)),
    def("least", (2, MANY), common_type, |a| extreme(a, false)),
    def("pow", (2, 2), real_type, |a| two_reals(a, f64::powf)),
    def("power", (2, 2), real_type, |a| two_reals(a, f64::powf)),
    def("atan2", (2, 2), real_type, |a| two_reals(a, f64::atan2)),
    def("sqrt", (1, 1), real_type, |a| real(a, f64::sqrt)),
    def("exp", (1, 1), real_type, |a| real(a, f64::exp)),
    def("ln", (1, 1), real_type, |a| real(a, f64::ln)),
    def("log2", (1, 1), real_type, |a| real(a, f64::log2)),
    def("log10", (1, 1), real_type, |a| real(a, f64::log10)),
    def("log", (1, 2), real_type, |a| match a.len() {
        1 => real(a, f64::ln),
        _ => two_reals(a, |base, value| value.ln() / base.ln()),
    }),
    def("sin", (1, 1), real_type, |a| real(a, f64::sin)),
    def("cos", (1, 1), real_type, |a| real(a, f64::cos)),
    def("tan", (1, 1), real_type, |a| real(a, f64::tan)),
    def("asin", (1, 1), real_type, |a| real(a, f64::asin)),
    def("acos", (1, 1), real_type, |a| real(a, f64::acos)),
    def("atan", (1, 2), real_type, |a| match a.len() {
        1 => real(a, f64::atan),
        _ => two_reals(a, f64::atan2),
    }),
    def("degrees", (1, 1), real_type, |a| real(a, f64::to_degrees)),
    def("radians", (1, 1), real_type, |a| real(a, f64::to_radians)),
    def("pi", (0, 0), real_type, |_| V::Real(std::f64::consts::PI)),
    def("__bitand", (2, 2), uint_type, |a| bits(a, |a, b| a & b)),
    def("__bitor", (2, 2), uint_type, |a| bits(a, |a, b| a | b)),
    def("__bitxor", (2, 2), uint_type, |a| bits(a, |a, b| a ^ b)),
    def("__shl", (2, 2), uint_type, |a| {
        bits(a, |a, b| shift(a, b, u64::checked_shl))
    }),
    def("__shr", (2, 2), uint_type, |a| {
        bits(a, |a, b| shift(a, b, u64::checked_shr))
    }),
    def("__bitnot", (1, 1), uint_type, |a| {
        or_null(a, |a| V::UInt(!word(&a[0])))
    }),
    def("bit_count", (1, 1), int_type, |a| {
        or_null(a, |a| V::Int(i64::from(word(&a[0]).count_ones())))
    }),
    def("conv", (3, 3), text_type, conv),
    def("bin", (1, 1), text_type, |a| {
        or_null(a, |a| V::text(format!("{:b}", word(&a[0]))))
    }),
    def("oct", (1, 1), text_type, |a| {
        or_null(a, |a| V::text(format!("{:o}", word(&a[0]))))
    }),
    def("crc32", (1, 1), int_type, |a| {
        or_null(a, |a| {
            V::Int(i64::from(crc32fast::hash(a[0].said().as_bytes())))
        })
    }),
];

fn real<'a>(a: &'a [V<'a>], row: fn(f64) -> f64) -> V<'a> {
    match a[0].is_null() {
        true => V::Null,
        false => finite(row(a[0].real())),
    }
}

fn two_reals<'a>(a: &'a [V<'a>], row: fn(f64, f64) -> f64) -> V<'a> {
    match a[0].is_null() || a[1].is_null() {
        true => V::Null,
        false => finite(row(a[0].real(), a[1].real())),
    }
}

fn finite(value: f64) -> V<'static> {
    match value.is_finite() {
        true => V::Real(value),
        false => V::Null,
    }
}

fn extreme<'a>(a: &'a [V<'a>], greatest: bool) -> V<'a> {
    if a.iter().any(V::is_null) {
        return V::Null;
    }
    let texts = a.iter().all(|it| matches!(it, V::Text(_)));
    let times = a.iter().any(|it| matches!(it, V::Time(_) | V::Date(_)))
        && a.iter()
            .all(|it| matches!(it, V::Time(_) | V::Date(_) | V::Text(_)));
    let mut best = &a[0];
    for other in &a[1..] {
        let order = match (texts, times) {
            (true, _) => other.said().as_bytes().cmp(best.said().as_bytes()),
            (_, true) => other.moment().cmp(&best.moment()),
            _ => match (other.decimal(), best.decimal()) {
                (Some((left, after)), Some((right, more))) => {
                    let scale = after.max(more);
                    rescale(left, after, scale).cmp(&rescale(right, more, scale))
                }
                _ => other.real().total_cmp(&best.real()),
            },
        };
        if order.is_gt() == greatest && order.is_ne() {
            best = other;
        }
    }
    best.clone()
}

/// A number in a statement, for conversions made when it is planned.
pub(crate) fn literal_number(text: &str) -> ScalarValue {
    let trimmed = text.trim();
    match trimmed.parse::<i64>() {
        Ok(whole) => ScalarValue::Int64(Some(whole)),
        Err(_) => ScalarValue::Float64(Some(super::value::number_prefix(text))),
    }
}
