//! What a statement is, from its first words.
//!
//! SELECT and its kin go to the grammar; everything else is small and read here, token by token: SET, USE, transactions,
//! SHOW and DESCRIBE, CREATE TABLE and DROP TABLE for reports. Writes and what is not known are refused with MySQL's errors.

mod reader;
mod set;
mod show;
mod tables;

use self::reader::Reader;
pub(super) use self::set::Setting;
pub(super) use self::show::{Show, What};
pub(super) use self::tables::{Create, Drop};
use super::dialect::lex::tokens;
use super::error::SqlError;

/// A statement, read as far as its form goes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Statement {
    /// Rows by the grammar.
    Query,
    /// The same, without its rows.
    Do(String),
    /// Its plan.
    Explain(String),
    Set(Vec<Setting>),
    Use(String),
    /// A transaction begins, or ends, or neither.
    Begin,
    End,
    /// Done by doing nothing.
    Nothing,
    Show(Show),
    Create(Create),
    Drop(Drop),
}

/// Reads a statement.
///
/// # Errors
/// When it is none, or a write, or one that is not done here.
pub(super) fn read(text: &str, ansi_quotes: bool) -> Result<Statement, SqlError> {
    let tokens = tokens(text, ansi_quotes);
    let mut end = tokens.len();
    while end > 0 && tokens[end - 1].is_sign(text, ";") {
        end -= 1;
    }
    let mut reader = Reader {
        text,
        tokens: &tokens[..end],
        at: 0,
    };
    reader.statement()
}

/// Statements that write, or change the server.
const WRITES: [&str; 32] = [
    "ALTER",
    "BACKUP",
    "BINLOG",
    "CALL",
    "CHANGE",
    "CREATE",
    "DELETE",
    "DROP",
    "GRANT",
    "HANDLER",
    "IMPORT",
    "INSERT",
    "INSTALL",
    "LOAD",
    "MERGE",
    "OPTIMIZE",
    "PREPARE",
    "EXECUTE",
    "DEALLOCATE",
    "PURGE",
    "RENAME",
    "REPAIR",
    "REPLACE",
    "RESET",
    "REVOKE",
    "SHUTDOWN",
    "START",
    "STOP",
    "TRUNCATE",
    "UNINSTALL",
    "UPDATE",
    "XA",
];

impl Reader<'_> {
    fn statement(&mut self) -> Result<Statement, SqlError> {
        let Some(first) = self.tokens.first() else {
            return Err(SqlError {
                code: 1065,
                state: "42000",
                message: "Query was empty".to_owned(),
            });
        };
        if first.is_sign(self.text, "(") {
            return Ok(Statement::Query);
        }
        let word = first.text(self.text).to_ascii_uppercase();
        match word.as_str() {
            "SELECT" | "WITH" | "VALUES" | "TABLE" => return Ok(Statement::Query),
            _ => self.at = 1,
        }
        match word.as_str() {
            "DO" => Ok(Statement::Do(self.rest().to_owned())),
            "SET" => self.set(),
            "USE" => {
                let name = self.name()?;
                self.end()?;
                Ok(Statement::Use(name))
            }
            "BEGIN" => Ok(Statement::Begin),
            "START" if self.word("TRANSACTION") => Ok(Statement::Begin),
            "COMMIT" => Ok(Statement::End),
            "ROLLBACK" => {
                let _ = self.word("WORK");
                match self.word("TO") {
                    true => Ok(Statement::Nothing),
                    false => Ok(Statement::End),
                }
            }
            "SAVEPOINT" | "RELEASE" | "LOCK" | "UNLOCK" | "FLUSH" => Ok(Statement::Nothing),
            "SHOW" => self.show(),
            "DESCRIBE" | "DESC" | "EXPLAIN" => self.describe(),
            "CREATE" if self.is_table() => self.create(),
            "DROP" if self.is_table() => self.drop(),
            "ANALYZE" | "CHECK" | "CHECKSUM" => {
                Err(SqlError::not_supported(format!("{word} is not done here")))
            }
            "KILL" => Err(SqlError::not_supported(
                "KILL is done by the connection that it is sent on, and this is none",
            )),
            "HELP" => Err(SqlError::not_supported("HELP")),
            write if WRITES.contains(&write) => Err(SqlError::read_only(format!(
                "The pinbad server is running with the --read-only option so it cannot execute this statement: {write}"
            ))),
            _ => {
                self.at = 0;
                Err(self.wrong())
            }
        }
    }
}

#[cfg(test)]
mod tests;
