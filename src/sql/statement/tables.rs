//! CREATE TABLE and DROP TABLE of reports.
//!
//! A report is its COMMENT: the columns and the other options that are written are passed over. Tables of any other engine, and
//! those that would keep rows, are refused as on a server that can only be read.

use super::Statement;
use super::reader::Reader;
use crate::sql::dialect::lex::Kind;
use crate::sql::error::SqlError;

/// `CREATE TABLE ... ENGINE=PINBA COMMENT='...'`.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sql) struct Create {
    pub(in crate::sql) database: Option<String>,
    pub(in crate::sql) name: String,
    pub(in crate::sql) if_not_exists: bool,
    pub(in crate::sql) comment: String,
}

/// `DROP TABLE a, b`.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sql) struct Drop {
    pub(in crate::sql) tables: Vec<(Option<String>, String)>,
    pub(in crate::sql) if_exists: bool,
}

impl Reader<'_> {
    /// Whether it is a table that is made or dropped.
    pub(super) fn is_table(&self) -> bool {
        let is = |ahead: usize, word: &str| {
            self.tokens
                .get(self.at + ahead)
                .is_some_and(|token| token.is(self.text, word))
        };
        is(0, "TABLE") || (is(0, "TEMPORARY") && is(1, "TABLE"))
    }

    /// What follows CREATE.
    pub(super) fn create(&mut self) -> Result<Statement, SqlError> {
        if self.word("TEMPORARY") {
            return Err(SqlError::read_only(
                "The pinbad server has no temporary tables; a report is made by CREATE TABLE ... ENGINE=PINBA COMMENT='...'",
            ));
        }
        self.at += 1;
        let if_not_exists = self.words(&["IF", "NOT", "EXISTS"]);
        let (database, name) = self.table()?;
        // The columns are what the report says, not what is written here.
        if self.sign("(") {
            let mut depth = 1_usize;
            while depth > 0 {
                let Some(token) = self.peek() else {
                    return Err(self.wrong());
                };
                match (token.kind, token.text(self.text)) {
                    (Kind::Sign, "(") => depth += 1,
                    (Kind::Sign, ")") => depth -= 1,
                    _ => {}
                }
                self.at += 1;
            }
        }
        let (mut engine, mut comment) = (None, None);
        while self.peek().is_some() {
            if self.word("ENGINE") || self.word("TYPE") {
                let _ = self.sign("=");
                engine = Some(self.name()?);
            } else if self.word("COMMENT") {
                let _ = self.sign("=");
                comment = Some(self.text_value()?);
            } else if self.word("AS") || self.word("SELECT") || self.word("LIKE") {
                return Err(SqlError::read_only(
                    "The pinbad server cannot keep rows; a report is made by CREATE TABLE ... ENGINE=PINBA COMMENT='...'",
                ));
            } else {
                self.at += 1;
            }
        }
        match engine {
            Some(engine) if engine.eq_ignore_ascii_case("pinba") => {}
            _ => {
                return Err(SqlError::read_only(
                    "The pinbad server has tables of ENGINE=PINBA only: CREATE TABLE ... ENGINE=PINBA COMMENT='...'",
                ));
            }
        }
        let comment = comment.ok_or_else(|| {
            SqlError::wrong_arguments("a report needs its definition: COMMENT='...'")
        })?;
        Ok(Statement::Create(Create {
            database,
            name,
            if_not_exists,
            comment,
        }))
    }

    /// What follows DROP.
    pub(super) fn drop(&mut self) -> Result<Statement, SqlError> {
        let _ = self.word("TEMPORARY");
        self.at += 1;
        let if_exists = self.words(&["IF", "EXISTS"]);
        let mut tables = vec![self.table()?];
        while self.sign(",") {
            tables.push(self.table()?);
        }
        let _ = self.word("CASCADE") || self.word("RESTRICT");
        self.end()?;
        Ok(Statement::Drop(Drop { tables, if_exists }))
    }
}
