//! The prepared statements of one connection, and their parameter values.
//!
//! Bounded by `mysql.statements_max` in number, and by the budget of all connections in bytes
//! (texts, and values sent in pieces). Errors of a client surface at the next EXECUTE at the
//! latest, because sending values in pieces has no answer.

use std::collections::HashMap;

use mysql_common::constants::{ColumnFlags, ColumnType};
use mysql_common::io::ParseBuf;
use mysql_common::proto::MyDeserialize as _;
use mysql_common::value::{BinValue, Value, ValueDeserializer};

use super::errors::{error, malformed, no_statement_memory, utf8};
use super::frames::{Budget, Received, Share};
use crate::sql::{Literal, Prepared, SqlError};

/// Bit of the type byte for unsigned numbers.
const UNSIGNED: u8 = 0x80;

/// One prepared statement.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) prepared: Prepared,
    /// Type and sign of each value, as last given.
    types: Vec<(u8, bool)>,
    /// Values sent in pieces, by parameter number.
    long: HashMap<u16, Received>,
    /// The error for the next EXECUTE.
    spoilt: Option<SqlError>,
    /// Share of the budget for text and columns.
    _share: Share,
}

/// The statements of a connection.
#[derive(Debug)]
pub(super) struct Statements {
    list: HashMap<u32, Statement>,
    last: u32,
    max: usize,
    budget: Budget,
}

/// The number by which a client refers to its latest statement.
const LAST: u32 = u32::MAX;

impl Statements {
    pub(super) fn new(max: usize, budget: Budget) -> Self {
        Self { list: HashMap::new(), last: 0, max, budget }
    }

    /// Stores a statement and returns its number.
    pub(super) fn add(&mut self, prepared: Prepared) -> Result<u32, SqlError> {
        if self.list.len() >= self.max {
            let problem = format!(
                "Can't create more than {} prepared statements on one connection (mysql.statements_max); close some",
                self.max
            );
            return Err(error(1461, "42000", problem));
        }
        let mut share = Share::default();
        let names = prepared.columns.iter().map(|column| column.name.len() + 128);
        let bytes = prepared.text.len() + names.sum::<usize>() + 256;
        if !self.budget.take(&mut share, bytes) {
            return Err(no_statement_memory());
        }
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && self.last != LAST && !self.list.contains_key(&self.last) {
                break;
            }
        }
        let statement = Statement {
            prepared,
            types: Vec::new(),
            long: HashMap::new(),
            spoilt: None,
            _share: share,
        };
        self.list.insert(self.last, statement);
        Ok(self.last)
    }

    /// Records a failed PREPARE: there is no latest statement.
    pub(super) fn none_prepared(&mut self) {
        while self.list.contains_key(&self.last) {
            self.last = self.last.wrapping_add(1);
        }
    }

    pub(super) fn get(&mut self, id: u32, command: &str) -> Result<&mut Statement, SqlError> {
        let id = if id == LAST { self.last } else { id };
        self.list.get_mut(&id).ok_or_else(|| {
            let problem = format!("Unknown prepared statement handler ({id}) given to {command}");
            error(1243, "HY000", problem)
        })
    }

    pub(super) fn close(&mut self, id: u32) {
        self.list.remove(&if id == LAST { self.last } else { id });
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    /// Stores a piece of a value. Errors surface when the statement is executed, since there is no
    /// answer to this.
    pub(super) fn add_long(&mut self, body: &[u8], value_max: usize) {
        let budget = self.budget.clone();
        if let Some((id, rest)) = body.split_first_chunk()
            && let Some((parameter, piece)) = rest.split_first_chunk()
            && let Ok(statement) = self.get(u32::from_le_bytes(*id), "mysqld_stmt_send_long_data")
            && statement.spoilt.is_none()
        {
            let parameter = u16::from_le_bytes(*parameter);
            if let Err(error) = statement.add_long(parameter, piece, value_max, &budget) {
                statement.long.clear();
                statement.spoilt = Some(error);
            }
        }
    }
}

impl Statement {
    fn add_long(
        &mut self,
        parameter: u16,
        piece: &[u8],
        value_max: usize,
        budget: &Budget,
    ) -> Result<(), SqlError> {
        if usize::from(parameter) >= self.prepared.parameters {
            let problem = "Incorrect arguments to mysqld_stmt_send_long_data";
            return Err(SqlError::wrong_arguments(problem));
        }
        let value = self.long.entry(parameter).or_default();
        if value.bytes.len() + piece.len() > value_max {
            let problem = format!(
                "Parameter of prepared statement is longer than {value_max} bytes (mysql.packet_max)"
            );
            return Err(SqlError::packet_too_large(problem));
        }
        match value.add(piece, value_max, 0, budget) {
            true => Ok(()),
            false => Err(no_statement_memory()),
        }
    }

    /// Resets to the state after PREPARE.
    pub(super) fn reset(&mut self) {
        self.long.clear();
        self.spoilt = None;
    }

    /// The values of an EXECUTE, parsed after its header.
    ///
    /// # Errors
    /// Fails if the packet does not match the PREPARE.
    pub(super) fn values(&mut self, body: &[u8]) -> Result<Vec<Literal>, SqlError> {
        let values = match self.spoilt.take() {
            Some(error) => Err(error),
            None => self.read_values(body),
        };
        // They apply to one execution.
        self.reset();
        values
    }

    fn read_values(&mut self, body: &[u8]) -> Result<Vec<Literal>, SqlError> {
        let count = self.prepared.parameters;
        if count == 0 {
            return Ok(Vec::new());
        }
        let nulls = body.split_at_checked(count.div_ceil(8));
        let (nulls, rest) = nulls.ok_or_else(mismatch)?;
        let (&bound, mut rest) = rest.split_first().ok_or_else(mismatch)?;
        if bound == 1 {
            let types = rest.split_at_checked(2 * count);
            let (types, values) = types.ok_or_else(mismatch)?;
            let types = types.chunks_exact(2);
            self.types = types.map(|pair| (pair[0], pair[1] & UNSIGNED != 0)).collect();
            rest = values;
        }
        if self.types.len() != count {
            return Err(mismatch());
        }
        let mut rest = ParseBuf(rest);
        let values = self.types.iter().zip(0_u16..).enumerate();
        values
            .map(|(index, (&(kind, unsigned), number))| match self.long.get(&number) {
                Some(long) => text(&long.bytes),
                None if nulls[index / 8] >> (index % 8) & 1 == 1 => Ok(Literal::Null),
                None => value(kind, unsigned, &mut rest),
            })
            .collect()
    }
}

/// The error for a packet that is truncated or lacks types.
fn mismatch() -> SqlError {
    malformed(": the values are not those that the statement takes")
}

fn text(bytes: &[u8]) -> Result<Literal, SqlError> {
    Ok(Literal::Text(utf8(bytes)?.to_owned()))
}

/// Parses the next value, of this type.
fn value(kind: u8, unsigned: bool, rest: &mut ParseBuf<'_>) -> Result<Literal, SqlError> {
    use ColumnType as T;

    let kind = match T::try_from(kind) {
        // Types that no client sends; `mysql_common` panics at some of them.
        Err(_)
        | Ok(
            T::MYSQL_TYPE_NEWDATE
            | T::MYSQL_TYPE_BIT
            | T::MYSQL_TYPE_TIMESTAMP2
            | T::MYSQL_TYPE_DATETIME2
            | T::MYSQL_TYPE_TIME2
            | T::MYSQL_TYPE_TYPED_ARRAY
            | T::MYSQL_TYPE_VECTOR
            | T::MYSQL_TYPE_UNKNOWN
            | T::MYSQL_TYPE_GEOMETRY,
        ) => return Err(mismatch()),
        Ok(kind) => kind,
    };
    let mut sign = ColumnFlags::empty();
    sign.set(ColumnFlags::UNSIGNED_FLAG, unsigned);
    // Dates and times have variable length.
    let length = rest.0.first().copied();
    let value = ValueDeserializer::<BinValue>::deserialize((kind, sign), rest);
    Ok(match value.map_err(|_| mismatch())?.0 {
        Value::NULL => Literal::Null,
        Value::Bytes(bytes) => {
            let is_decimal = matches!(kind, T::MYSQL_TYPE_DECIMAL | T::MYSQL_TYPE_NEWDECIMAL);
            return match text(&bytes)? {
                Literal::Text(digits) if is_decimal && is_plain_number(&digits) => {
                    Ok(Literal::Decimal(digits))
                }
                other => Ok(other),
            };
        }
        Value::Int(number) => Literal::Int(number),
        Value::UInt(number) => Literal::UInt(number),
        Value::Float(number) => float(number.into()),
        Value::Double(number) => float(number),
        Value::Date(year, month, day, hour, minute, second, micros) => {
            let mut text = format!("{year:04}-{month:02}-{day:02}");
            if length != Some(4) {
                text += &format!(" {hour:02}:{minute:02}:{second:02}");
            }
            if length == Some(11) {
                text += &format!(".{micros:06}");
            }
            Literal::Text(text)
        }
        Value::Time(negative, days, hours, minutes, seconds, micros) => {
            let sign = if negative { "-" } else { "" };
            // MySQL's own limit is 838 hours.
            let hours = days.min(34) * 24 + u32::from(hours);
            let mut text = format!("{sign}{hours:02}:{minutes:02}:{seconds:02}");
            if length == Some(12) {
                text += &format!(".{micros:06}");
            }
            Literal::Text(text)
        }
    })
}

/// Whether it is digits, with a sign and a point if need be.
fn is_plain_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    [whole, part].iter().all(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit()))
}

/// A number as a literal; NULL if it is not finite.
fn float(value: f64) -> Literal {
    if value.is_finite() { Literal::Float(value) } else { Literal::Null }
}

#[cfg(test)]
mod tests;
