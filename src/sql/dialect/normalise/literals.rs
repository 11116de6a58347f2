//! Values as the grammar reads them: texts on one line, numbers in brackets when they have a sign, bits as the text they spell.

use crate::sql::error::SqlError;
use crate::sql::session::Literal;

/// A text as the grammar reads it, on one line.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('\'');
    for sign in text.chars() {
        match sign {
            '\'' => quoted.push_str("''"),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            sign => quoted.push(sign),
        }
    }
    quoted.push('\'');
    quoted
}

/// A value as the grammar reads it.
pub(crate) fn literal(value: &Literal) -> String {
    match value {
        Literal::Null => "NULL".to_owned(),
        Literal::Int(value) if *value < 0 => format!("({value})"),
        Literal::Int(value) => value.to_string(),
        Literal::UInt(value) => value.to_string(),
        Literal::Float(value) if !value.is_finite() => "NULL".to_owned(),
        Literal::Float(value) if *value < 0.0 => format!("({value:e})"),
        Literal::Float(value) => format!("{value:e}"),
        Literal::Text(text) => quote(text),
    }
}

/// A value for LIMIT, which clients give as a number, as a fraction or as a text.
pub(super) fn limit(value: &Literal) -> Result<String, SqlError> {
    let rows = match value {
        Literal::Int(value) => u64::try_from(*value).ok(),
        Literal::UInt(value) => Some(*value),
        Literal::Float(value) if *value >= 0.0 && value.fract() == 0.0 => Some(*value as u64),
        Literal::Text(text) => text.trim().parse().ok(),
        Literal::Null | Literal::Float(_) => None,
    };
    let rows = rows.ok_or_else(|| {
        SqlError::wrong_arguments(format!("LIMIT takes a whole number, not {value:?}"))
    })?;
    Ok(rows.min(i64::MAX as u64).to_string())
}

/// `0x1f`, `x'1f'`, `b'1'`: text, as in MySQL.
pub(super) fn bits(written: &str) -> Result<String, SqlError> {
    let wrong = || SqlError::parse(format!("not a number in base 2 or 16: {written}"));
    let lower = written.to_ascii_lowercase();
    let digits = lower[1..].trim_start_matches(['x', 'b']).trim_matches('\'');
    let digits = match lower.starts_with('0') {
        true => &lower[2..],
        false => digits,
    };
    let base_2 = lower.starts_with('b') || lower.starts_with("0b");
    let (base, each) = if base_2 { (2, 8) } else { (16, 2) };
    let padded = format!(
        "{}{digits}",
        "0".repeat((each - digits.len() % each) % each)
    );
    let mut bytes = Vec::with_capacity(padded.len() / each);
    for piece in padded.as_bytes().chunks(each) {
        let piece = std::str::from_utf8(piece).map_err(|_| wrong())?;
        bytes.push(u8::from_str_radix(piece, base).map_err(|_| wrong())?);
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| SqlError::not_supported(format!("{written}: bytes that are not UTF-8")))?;
    Ok(quote(&text))
}
