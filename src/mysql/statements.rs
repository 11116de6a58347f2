//! The prepared statements of one connection, and the values that come for them.
//!
//! Bounded by `mysql.statements_max` in number, and by the budget of all connections in bytes (texts, and values sent in
//! pieces). What a client gets wrong here is an error of the next EXECUTE at the latest, because sending values in
//! pieces has no answer.

use std::collections::HashMap;

use mysql_common::constants::ColumnType;

use super::frames::{Budget, Share};
use super::login::not_utf8;
use super::numbers::{Moment, put_time};
use crate::sql::{Literal, Prepared, SqlError};

/// The type byte's bit for numbers without a sign.
const UNSIGNED: u8 = 0x80;

/// One prepared statement.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) prepared: Prepared,
    /// Type and sign of each value, as they were given last.
    types: Vec<(u8, bool)>,
    /// Values that came in pieces, by the number of their `?`.
    long: HashMap<u16, Vec<u8>>,
    /// Why the next EXECUTE fails.
    spoilt: Option<SqlError>,
    /// Of the budget, for the text and the columns.
    _share: Share,
    long_share: Share,
}

/// The statements of a connection.
#[derive(Debug)]
pub(super) struct Statements {
    list: HashMap<u32, Statement>,
    last: u32,
    max: usize,
    budget: Budget,
}

/// The number by which a client means the statement it prepared last.
const LAST: u32 = u32::MAX;

impl Statements {
    pub(super) fn new(max: usize, budget: Budget) -> Self {
        Self {
            list: HashMap::new(),
            last: 0,
            max,
            budget,
        }
    }

    /// Keeps a statement and gives its number.
    pub(super) fn add(&mut self, prepared: Prepared) -> Result<u32, SqlError> {
        if self.list.len() >= self.max {
            return Err(SqlError {
                code: 1461,
                state: "42000",
                message: format!(
                    "Can't create more than {} prepared statements on one connection (mysql.statements_max); close some",
                    self.max
                ),
            });
        }
        let mut share = Share::default();
        let names = prepared
            .columns
            .iter()
            .map(|column| column.name.len() + 128);
        let bytes = prepared.text.len() + names.sum::<usize>() + 256;
        if !self.budget.take(&mut share, bytes) {
            return Err(no_memory());
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
            long_share: Share::default(),
        };
        self.list.insert(self.last, statement);
        Ok(self.last)
    }

    /// A failed PREPARE: the client's "last one" means nothing.
    pub(super) fn none_prepared(&mut self) {
        while self.list.contains_key(&self.last) {
            self.last = self.last.wrapping_add(1);
        }
    }

    pub(super) fn get(&mut self, id: u32, command: &str) -> Result<&mut Statement, SqlError> {
        let id = if id == LAST { self.last } else { id };
        self.list.get_mut(&id).ok_or_else(|| SqlError {
            code: 1243,
            state: "HY000",
            message: format!("Unknown prepared statement handler ({id}) given to {command}"),
        })
    }

    pub(super) fn close(&mut self, id: u32) {
        self.list.remove(&if id == LAST { self.last } else { id });
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    /// Keeps a piece of a value. What is wrong comes out when the statement is executed: there is no answer to this.
    pub(super) fn add_long(&mut self, body: &[u8], value_max: usize) {
        let Some((id, rest)) = body.split_first_chunk::<4>() else {
            return;
        };
        let Some((parameter, piece)) = rest.split_first_chunk::<2>() else {
            return;
        };
        let (id, parameter) = (u32::from_le_bytes(*id), u16::from_le_bytes(*parameter));
        let budget = self.budget.clone();
        let Ok(statement) = self.get(id, "mysqld_stmt_send_long_data") else {
            return;
        };
        if statement.spoilt.is_some() {
            return;
        }
        if usize::from(parameter) >= statement.prepared.parameters {
            statement.spoilt = Some(SqlError::wrong_arguments(
                "Incorrect arguments to mysqld_stmt_send_long_data",
            ));
            return;
        }
        let value = statement.long.entry(parameter).or_default();
        let wanted = value.len() + piece.len();
        if wanted > value_max {
            statement.spoilt = Some(SqlError {
                code: 1153,
                state: "08S01",
                message: format!(
                    "Parameter of prepared statement is longer than {value_max} bytes (mysql.packet_max)"
                ),
            });
            statement.forget_long();
            return;
        }
        if wanted > value.capacity() {
            let more = wanted.max(2 * value.capacity()) - value.capacity();
            if !budget.take(&mut statement.long_share, more) {
                statement.spoilt = Some(no_memory());
                statement.forget_long();
                return;
            }
            value.reserve_exact(value.capacity() + more - value.len());
        }
        value.extend_from_slice(piece);
    }
}

fn no_memory() -> SqlError {
    SqlError::out_of_memory(
        "the memory of all connections is used up (mysql.memory); close statements",
    )
}

impl Statement {
    fn forget_long(&mut self) {
        self.long.clear();
        self.long_share = Share::default();
    }

    /// As after PREPARE.
    pub(super) fn reset(&mut self) {
        self.forget_long();
        self.spoilt = None;
    }

    /// The values of an EXECUTE, from what follows its head.
    ///
    /// # Errors
    /// When the packet is not what PREPARE announced.
    pub(super) fn values(&mut self, body: &[u8]) -> Result<Vec<Literal>, SqlError> {
        let values = match self.spoilt.take() {
            Some(error) => Err(error),
            None => self
                .read_values(body)
                .ok_or_else(malformed)
                .and_then(|read| read),
        };
        // They are for one execution.
        self.reset();
        values
    }

    /// `None` when the packet ends too early or names no type.
    fn read_values(&mut self, body: &[u8]) -> Option<Result<Vec<Literal>, SqlError>> {
        let count = self.prepared.parameters;
        if count == 0 {
            return Some(Ok(Vec::new()));
        }
        let (nulls, rest) = body.split_at_checked(count.div_ceil(8))?;
        let (&bound, mut rest) = rest.split_first()?;
        if bound == 1 {
            let (types, values) = rest.split_at_checked(2 * count)?;
            let types = types.chunks_exact(2);
            self.types = types
                .map(|pair| (pair[0], pair[1] & UNSIGNED != 0))
                .collect();
            rest = values;
        }
        if self.types.len() != count {
            return None;
        }
        let mut values = Vec::with_capacity(count);
        for (index, &(kind, unsigned)) in self.types.iter().enumerate() {
            let long = u16::try_from(index)
                .ok()
                .and_then(|index| self.long.get(&index));
            let value = if let Some(long) = long {
                text(long)
            } else if nulls[index / 8] >> (index % 8) & 1 == 1 {
                Ok(Literal::Null)
            } else {
                let (value, after) = value(kind, unsigned, rest)?;
                rest = after;
                value
            };
            match value {
                Ok(value) => values.push(value),
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(values))
    }
}

fn malformed() -> SqlError {
    SqlError {
        code: 1835,
        state: "HY000",
        message:
            "Malformed communication packet: the values are not those that the statement takes"
                .to_owned(),
    }
}

fn text(bytes: &[u8]) -> Result<Literal, SqlError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Literal::Text(text.to_owned())),
        Err(_) => Err(not_utf8()),
    }
}

type Read<'a> = (Result<Literal, SqlError>, &'a [u8]);

/// One value, and what follows it.
fn value(kind: u8, unsigned: bool, bytes: &[u8]) -> Option<Read<'_>> {
    let kind = ColumnType::try_from(kind).ok()?;
    let whole = |signed: i64, plain: u64| {
        Ok(match unsigned {
            true => i64::try_from(plain).map_or(Literal::UInt(plain), Literal::Int),
            false => Literal::Int(signed),
        })
    };
    Some(match kind {
        ColumnType::MYSQL_TYPE_NULL => (Ok(Literal::Null), bytes),
        ColumnType::MYSQL_TYPE_TINY => {
            let (&[byte], rest) = bytes.split_first_chunk()?;
            (whole((byte as i8).into(), byte.into()), rest)
        }
        ColumnType::MYSQL_TYPE_SHORT | ColumnType::MYSQL_TYPE_YEAR => {
            let (number, rest) = bytes.split_first_chunk()?;
            let value = whole(
                i16::from_le_bytes(*number).into(),
                u16::from_le_bytes(*number).into(),
            );
            (value, rest)
        }
        ColumnType::MYSQL_TYPE_LONG | ColumnType::MYSQL_TYPE_INT24 => {
            let (number, rest) = bytes.split_first_chunk()?;
            let value = whole(
                i32::from_le_bytes(*number).into(),
                u32::from_le_bytes(*number).into(),
            );
            (value, rest)
        }
        ColumnType::MYSQL_TYPE_LONGLONG => {
            let (number, rest) = bytes.split_first_chunk()?;
            let value = whole(i64::from_le_bytes(*number), u64::from_le_bytes(*number));
            (value, rest)
        }
        ColumnType::MYSQL_TYPE_FLOAT => {
            let (number, rest) = bytes.split_first_chunk()?;
            (float(f32::from_le_bytes(*number).into()), rest)
        }
        ColumnType::MYSQL_TYPE_DOUBLE => {
            let (number, rest) = bytes.split_first_chunk()?;
            (float(f64::from_le_bytes(*number)), rest)
        }
        ColumnType::MYSQL_TYPE_DATE
        | ColumnType::MYSQL_TYPE_DATETIME
        | ColumnType::MYSQL_TYPE_TIMESTAMP => {
            let (&length, rest) = bytes.split_first()?;
            let (packed, rest) = rest.split_at_checked(length.into())?;
            (Ok(Literal::Text(datetime(packed)?)), rest)
        }
        ColumnType::MYSQL_TYPE_TIME => {
            let (&length, rest) = bytes.split_first()?;
            let (packed, rest) = rest.split_at_checked(length.into())?;
            (Ok(Literal::Text(time(packed)?)), rest)
        }
        ColumnType::MYSQL_TYPE_DECIMAL
        | ColumnType::MYSQL_TYPE_NEWDECIMAL
        | ColumnType::MYSQL_TYPE_VARCHAR
        | ColumnType::MYSQL_TYPE_VAR_STRING
        | ColumnType::MYSQL_TYPE_STRING
        | ColumnType::MYSQL_TYPE_ENUM
        | ColumnType::MYSQL_TYPE_SET
        | ColumnType::MYSQL_TYPE_JSON
        | ColumnType::MYSQL_TYPE_TINY_BLOB
        | ColumnType::MYSQL_TYPE_MEDIUM_BLOB
        | ColumnType::MYSQL_TYPE_LONG_BLOB
        | ColumnType::MYSQL_TYPE_BLOB => {
            let (length, rest) = number(bytes)?;
            let (bytes, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            (text(bytes), rest)
        }
        _ => return None,
    })
}

fn float(value: f64) -> Result<Literal, SqlError> {
    if value.is_finite() {
        Ok(Literal::Float(value))
    } else {
        // As a literal it could not be written either.
        Ok(Literal::Null)
    }
}

/// A length, and what follows it.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let width = match first {
        0..=250 => return Some((first.into(), rest)),
        0xFC => 2,
        0xFD => 3,
        0xFE => 8,
        251 | 0xFF => return None,
    };
    let (number, rest) = rest.split_at_checked(width)?;
    let mut wide = [0; 8];
    wide[..width].copy_from_slice(number);
    Some((u64::from_le_bytes(wide), rest))
}

/// A moment as text.
fn datetime(packed: &[u8]) -> Option<String> {
    let mut moment = Moment {
        year: 0,
        month: 0,
        day: 0,
        hour: 0,
        minute: 0,
        second: 0,
        micros: 0,
    };
    if !matches!(packed.len(), 0 | 4 | 7 | 11) {
        return None;
    }
    if let [low, high, month, day, ..] = *packed {
        moment.year = u16::from_le_bytes([low, high]).min(9999).into();
        (moment.month, moment.day) = (month.min(99), day.min(99));
    }
    if let [_, _, _, _, hour, minute, second, ..] = *packed {
        (moment.hour, moment.minute, moment.second) =
            (hour.min(99), minute.min(99), second.min(99));
    }
    if let Some(micros) = packed.get(7..).and_then(<[u8]>::first_chunk) {
        moment.micros = u32::from_le_bytes(*micros).min(999_999);
    }
    let mut to = Vec::new();
    match packed.len() {
        4 => moment.put_date(&mut to),
        11 => moment.put(&mut to, 6),
        _ => moment.put(&mut to, 0),
    }
    String::from_utf8(to).ok()
}

/// A span of time as text.
fn time(packed: &[u8]) -> Option<String> {
    let mut micros = 0_i64;
    match *packed {
        [] => {}
        [negative, a, b, c, d, hour, minute, second, ref rest @ ..]
            if matches!(rest.len(), 0 | 4) =>
        {
            // MySQL's own limit is 838 hours.
            let days = i64::from(u32::from_le_bytes([a, b, c, d])).min(34);
            let secs =
                ((days * 24 + i64::from(hour)) * 60 + i64::from(minute)) * 60 + i64::from(second);
            let fraction = rest
                .first_chunk()
                .map_or(0, |bytes| u32::from_le_bytes(*bytes));
            micros = secs * 1_000_000 + i64::from(fraction.min(999_999));
            if negative != 0 {
                micros = -micros;
            }
        }
        _ => return None,
    }
    let mut to = Vec::new();
    put_time(&mut to, micros, if packed.len() > 8 { 6 } else { 0 });
    String::from_utf8(to).ok()
}

#[cfg(test)]
mod tests;
