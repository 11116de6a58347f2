//! SHOW, DESCRIBE and EXPLAIN, read to the end.

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::{Reader, Statement, question, wrong};
use crate::sql::error::SqlError;

/// A SHOW.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::sql) struct Show {
    /// The list to show, by its words in capitals.
    pub(in crate::sql) list: &'static str,
    pub(in crate::sql) full: bool,
    pub(in crate::sql) global: bool,
    pub(in crate::sql) database: Option<String>,
    /// The table, if the list belongs to one.
    pub(in crate::sql) table: String,
    /// `LIKE 'pattern'`.
    pub(in crate::sql) like: Option<String>,
    /// `WHERE condition`.
    pub(in crate::sql) condition: Option<Expr>,
}

/// The words of each list, the list they mean, and the clauses that follow.
const LISTS: &str = include_str!("show.txt");

impl Reader<'_> {
    /// DESCRIBE a table, or EXPLAIN a query.
    pub(super) fn describe(&mut self) -> Result<Statement, SqlError> {
        let start = self.parser.index();
        let _ = self.words("EXTENDED") || self.words("PARTITIONS");
        if self.words("FORMAT") {
            let _ = self.parser.consume_token(&Token::Eq);
            self.parser.advance_token();
        }
        let _ = self.words("ANALYZE");
        if self.is_query() {
            return Ok(Statement::Explain(self.query()?));
        }
        while self.parser.index() > start {
            self.parser.prev_token();
        }
        let (database, table) = self.table()?;
        let like = match self.parser.peek_token_ref().token {
            Token::EOF => None,
            _ => Some(self.quoted_text().or_else(|_| self.name())?),
        };
        Ok(Statement::Show(Box::new(Show {
            list: "COLUMNS",
            database,
            table,
            like,
            ..Show::default()
        })))
    }

    /// Reads after SHOW.
    pub(super) fn show(&mut self) -> Result<Statement, SqlError> {
        let mut show = Show::default();
        let _ = self.words("EXTENDED");
        show.full = self.words("FULL");
        show.global = self.words("GLOBAL");
        let _ = self.words("SESSION") || self.words("LOCAL");
        let mut lists = LISTS.lines().filter_map(|line| {
            let (words, meant) = line.split_once('|')?;
            Some((words, meant.split_once('|')?))
        });
        let Some((_, (list, after))) = lists.find(|(words, _)| self.words(words)) else {
            let lists = LISTS.lines().filter_map(|line| Some(line.split_once('|')?.0));
            return Err(match self.rest() {
                "" => self.wrong(),
                what => SqlError::not_supported(format!("SHOW {what}{}", question(what, lists))),
            });
        };
        show.list = list;
        match after {
            "of database" => show.database = self.of_database()?,
            "of table" => {
                if !self.words("FROM") && !self.words("IN") {
                    return Err(self.wrong());
                }
                (show.database, show.table) = self.table()?;
                show.database = self.of_database()?.or(show.database);
            }
            "table" => (show.database, show.table) = self.table()?,
            "database" => {
                let _ = self.words("IF NOT EXISTS");
                show.database = Some(self.name()?);
            }
            "anything" => {
                self.skip_to(Statement::Nothing);
            }
            _ => {}
        }
        if self.words("LIKE") {
            show.like = Some(self.quoted_text()?);
        } else if self.words("WHERE") {
            show.condition = Some(self.parser.parse_expr().map_err(wrong)?);
        }
        Ok(Statement::Show(Box::new(show)))
    }

    fn of_database(&mut self) -> Result<Option<String>, SqlError> {
        match self.words("FROM") || self.words("IN") {
            true => self.name().map(Some),
            false => Ok(None),
        }
    }
}
