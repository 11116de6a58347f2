//! Result types of functions: of numbers (integers stay integers, decimals keep up to 38 digits,
//! anything else makes a double) and of a choice between values.

use datafusion::arrow::datatypes::{DataType, TimeUnit};

use crate::sql::functions::{ArgumentInfo, SECONDS};

fn is_whole(given: &DataType) -> bool {
    given.is_integer()
        || matches!(given, DataType::Boolean | DataType::Timestamp(..) | DataType::Date32)
}

/// Digits before and after the point; `None` for types calculated as doubles.
pub(super) fn digits(given: &DataType) -> Option<(i16, i8)> {
    match given {
        DataType::Decimal128(all, scale) => Some((i16::from(*all) - i16::from(*scale), *scale)),
        DataType::UInt64 => Some((20, 0)),
        DataType::Null => Some((1, 0)),
        whole if is_whole(whole) => Some((19, 0)),
        _ => None,
    }
}

/// A decimal with so many digits before and after the point, as far as there is room for them.
pub(super) fn decimal(whole: i16, scale: i8) -> DataType {
    DataType::Decimal128((whole + i16::from(scale)).clamp(1, 38) as u8, scale)
}

/// The type in which numbers are summed. Integers are decimals, so that no sum overflows; decimals
/// have all digits, so that a sum of sums, which DataFusion may make of a sum, has the same type.
pub(super) fn summand_type(known: &ArgumentInfo<'_>) -> DataType {
    match number_type(known) {
        DataType::Int64 | DataType::UInt64 => DataType::Decimal128(38, 0),
        DataType::Decimal128(_, scale) => DataType::Decimal128(38, scale),
        other => other,
    }
}

/// The type of arithmetic on these types; texts count as numbers.
pub(super) fn arithmetic_type(known: &ArgumentInfo<'_>) -> DataType {
    common(known.types, true)
}

/// The type of an argument as a number.
pub(super) fn number_type(known: &ArgumentInfo<'_>) -> DataType {
    match arithmetic_type(known) {
        DataType::Null => DataType::Int64,
        other => other,
    }
}

/// The type of a sum, a difference or a product of integers: unsigned if one of them is.
pub(super) fn integer_type(known: &ArgumentInfo<'_>) -> DataType {
    match known.types.contains(&DataType::UInt64) {
        true => DataType::UInt64,
        false => DataType::Int64,
    }
}

/// The type after a unary minus.
pub(super) fn negative_type(known: &ArgumentInfo<'_>) -> DataType {
    match arithmetic_type(known) {
        DataType::UInt64 => DataType::Decimal128(20, 0),
        other => other,
    }
}

/// The type of an integer quotient.
pub(super) fn whole_type(known: &ArgumentInfo<'_>) -> DataType {
    match known.types.iter().all(|given| *given == DataType::UInt64) {
        true => DataType::UInt64,
        false => DataType::Int64,
    }
}

/// The type of a choice between these.
pub(super) fn common_type(known: &ArgumentInfo<'_>) -> DataType {
    common(known.types, false)
}

/// The type of a value that is one of these, as the results of a CASE or the rows of a UNION: a
/// text if any is a text, or if there are times and other values.
pub(crate) fn branch_type(types: &[DataType]) -> DataType {
    let is_time = |given: &DataType| matches!(given, DataType::Timestamp(..) | DataType::Date32);
    let mut known: Vec<&DataType> = types.iter().filter(|given| !given.is_null()).collect();
    known.dedup();
    match known.as_slice() {
        [] => DataType::Null,
        [only] => DataType::clone(only),
        _ if known.iter().all(|given| is_time(given)) => {
            let whole = |given: &&DataType| matches!(given, DataType::Date32) || **given == SECONDS;
            let unit =
                if known.iter().all(whole) { TimeUnit::Second } else { TimeUnit::Microsecond };
            DataType::Timestamp(unit, None)
        }
        _ if !known.iter().all(|given| given.is_numeric() || **given == DataType::Boolean) => {
            DataType::Utf8View
        }
        _ => common(types, false),
    }
}

/// The type with room for all of these; texts count as numbers in arithmetic, or next to numbers.
pub(super) fn common(types: &[DataType], arithmetic: bool) -> DataType {
    let is_text = |given: &DataType| given.is_string() || matches!(given, DataType::Dictionary(..));
    let is_time = |given: &DataType| matches!(given, DataType::Timestamp(..) | DataType::Date32);
    let mut known: Vec<&DataType> = types.iter().filter(|given| !given.is_null()).collect();
    known.dedup();
    let all = |is: &dyn Fn(&DataType) -> bool| known.iter().all(|given| is(given));
    match known.as_slice() {
        [] => return DataType::Null,
        _ if !arithmetic && all(&is_text) => return DataType::Utf8View,
        [time] if !arithmetic && is_time(time) => return DataType::clone(time),
        _ if !arithmetic && all(&|given| *given == DataType::Date32 || is_text(given)) => {
            return DataType::Date32;
        }
        _ if !arithmetic && all(&|given| is_time(given) || is_text(given)) => return SECONDS,
        [DataType::Float32] if !arithmetic => return DataType::Float32,
        [DataType::UInt64] => return DataType::UInt64,
        // Of signed and unsigned values only a decimal holds each.
        _ if all(&is_whole) && (arithmetic || !known.contains(&&DataType::UInt64)) => {
            return DataType::Int64;
        }
        _ => {}
    }
    let digits: Option<Vec<(i16, i8)>> = known.iter().map(|given| digits(given)).collect();
    let Some(digits) = digits else { return DataType::Float64 };
    let whole = digits.iter().map(|(whole, _)| *whole).max().unwrap_or(0);
    decimal(whole, digits.iter().map(|(_, after)| *after).max().unwrap_or(0))
}
