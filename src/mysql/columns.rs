//! Column definitions, sent to the client before the rows.
//!
//! Clients act upon them: PHP rounds a float to `decimals` digits, Python turns values with charset
//! 63 into bytes, JDBC shows lengths. The values are those that MySQL sends for Pinba's tables.

use mysql_common::collations::Collation;
use mysql_common::constants::{ColumnFlags, ColumnType};
use mysql_common::io::BufMutExt as _;

use super::DATABASE;
use crate::grammar::FixedTable;
use crate::sql::{SqlColumn, SqlType};

/// First field of every definition.
const CATALOG: &str = "def";
/// Bytes after the names.
const FIXED_BYTES: u8 = 12;
/// The charset of values that are not text.
const BINARY: u16 = 63;
/// `decimals` of a number with as many digits as it needs.
const ANY_DECIMALS: u8 = 31;
/// Bytes of a text that has no declared length.
const TEXT_BYTES: u32 = 65_535;

/// The collation of texts in this charset, as SET NAMES takes it.
pub(super) fn collation_of(charset: &str) -> Option<u16> {
    Some(match charset.to_ascii_lowercase().as_str() {
        "utf8mb4" => 45,
        "utf8" | "utf8mb3" => 33,
        "latin1" => 8,
        "ascii" => 11,
        "binary" => BINARY,
        _ => return None,
    })
}

/// The key flags of a column: raw tables have keys, reports have none.
fn key_flags(table: &str, column: &str) -> ColumnFlags {
    let keys = FixedTable::raw(table).map_or(&[][..], FixedTable::keys);
    let kind = match keys.iter().find(|(_, key)| *key == column) {
        None => return ColumnFlags::empty(),
        Some(("PRI", _)) => ColumnFlags::PRI_KEY_FLAG,
        Some(("UNI", _)) => ColumnFlags::UNIQUE_KEY_FLAG,
        Some(_) => ColumnFlags::MULTIPLE_KEY_FLAG,
    };
    kind | ColumnFlags::PART_KEY_FLAG
}

/// Writes the definition of one column, for rows of the text or binary form, with texts in this
/// collation.
pub(super) fn put_column(to: &mut Vec<u8>, column: &SqlColumn, collation: u16, binary: bool) {
    let (mut kind, length, decimals) = shape(column, collation);
    // Pinba declares row counts as INT, which has four bytes in the binary form: too few for a
    // daemon that has run for some weeks. The wider form carries every value.
    if binary && kind == ColumnType::MYSQL_TYPE_LONG {
        kind = ColumnType::MYSQL_TYPE_LONGLONG;
    }
    let text = matches!(column.sql_type, SqlType::Varchar(_) | SqlType::Text);
    let mut flags = ColumnFlags::empty();
    flags.set(ColumnFlags::NOT_NULL_FLAG, !column.nullable);
    flags.set(ColumnFlags::UNSIGNED_FLAG, column.sql_type == SqlType::BigIntUnsigned);
    flags.set(ColumnFlags::BLOB_FLAG, kind == ColumnType::MYSQL_TYPE_BLOB);
    flags.set(ColumnFlags::BINARY_FLAG, !text && column.origin.is_none());
    let (database, origin, name) = match &column.origin {
        Some((table, name)) => {
            flags |= key_flags(table, name);
            (DATABASE, table.as_str(), name.as_str())
        }
        None => ("", "", ""),
    };
    // A column with a name of its own comes without the table's alias.
    let table = column.table.as_deref().unwrap_or(origin);
    let names = [database, table, origin, &column.name, name];
    let charset = if text { collation } else { BINARY };
    put_definition(to, names, charset, (kind, length, decimals), flags);
}

/// The definition of a `?`.
pub(super) fn put_parameter(to: &mut Vec<u8>) {
    let shape = (ColumnType::MYSQL_TYPE_VAR_STRING, 0, 0);
    put_definition(to, ["", "", "", "?", ""], BINARY, shape, ColumnFlags::BINARY_FLAG);
}

/// The packet: database, table, its own name, column, its own name; then the fields of fixed
/// length. (`mysql_common` has it too, but writes length and charset in the wrong order.)
fn put_definition(
    to: &mut Vec<u8>,
    names: [&str; 5],
    charset: u16,
    (kind, length, decimals): (ColumnType, u32, u8),
    flags: ColumnFlags,
) {
    for name in [CATALOG].into_iter().chain(names) {
        to.put_lenenc_str(name.as_bytes());
    }
    to.push(FIXED_BYTES);
    to.extend_from_slice(&charset.to_le_bytes());
    to.extend_from_slice(&length.to_le_bytes());
    to.push(kind as u8);
    to.extend_from_slice(&flags.bits().to_le_bytes());
    to.extend_from_slice(&[decimals, 0, 0]);
}

/// Type, length and decimals.
fn shape(column: &SqlColumn, collation: u16) -> (ColumnType, u32, u8) {
    match column.sql_type {
        SqlType::BigInt | SqlType::BigIntUnsigned => (ColumnType::MYSQL_TYPE_LONGLONG, 20, 0),
        SqlType::Int => (ColumnType::MYSQL_TYPE_LONG, 11, 0),
        SqlType::Float => (ColumnType::MYSQL_TYPE_FLOAT, 12, ANY_DECIMALS),
        SqlType::Double => (ColumnType::MYSQL_TYPE_DOUBLE, 22, ANY_DECIMALS),
        SqlType::Decimal(digits, scale) => {
            let length = u32::from(digits) + 1 + u32::from(scale > 0);
            (ColumnType::MYSQL_TYPE_NEWDECIMAL, length, scale)
        }
        SqlType::Varchar(characters) => {
            let bytes = Collation::resolve(collation.into()).max_len().max(1);
            let length = characters.saturating_mul(bytes.into());
            (ColumnType::MYSQL_TYPE_VAR_STRING, length, 0)
        }
        // A column declared as text is one; an expression is just long.
        SqlType::Text if column.origin.is_some() => (ColumnType::MYSQL_TYPE_BLOB, TEXT_BYTES, 0),
        SqlType::Text => (ColumnType::MYSQL_TYPE_VAR_STRING, TEXT_BYTES, ANY_DECIMALS),
        SqlType::Datetime(0) => (ColumnType::MYSQL_TYPE_DATETIME, 19, 0),
        SqlType::Datetime(fraction) => {
            let length = 20 + u32::from(fraction);
            (ColumnType::MYSQL_TYPE_DATETIME, length, fraction)
        }
        SqlType::Date => (ColumnType::MYSQL_TYPE_DATE, 10, 0),
        SqlType::Null => (ColumnType::MYSQL_TYPE_NULL, 0, 0),
    }
}
