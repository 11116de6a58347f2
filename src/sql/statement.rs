//! Reads statements, with sqlparser's parser.
//!
//! SELECT and the like become sqlparser's trees; statements that it does not parse as MySQL's
//! clients write them are read here, token by token: SET, USE, transactions, SHOW and DESCRIBE,
//! CREATE TABLE and DROP TABLE for reports. Writes and unknown statements are refused with MySQL's
//! errors.

mod set;
mod show;

use datafusion::sql::sqlparser::ast::{Expr, Query, SelectItem, SetExpr};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

pub(super) use self::set::Setting;
pub(super) use self::show::Show;
use super::dialect::grammar;
use super::dialect::lex::{Mode, is_word, range_of};
use super::dialect::tokens::{Items, Tokens};
use super::error::{SqlError, unprefixed};
use super::performance_schema::LAYOUTS;
use crate::config::suggest;

/// Words that begin a key, not a column, in the lines of CREATE TABLE.
const KEYS: &str = "PRIMARY UNIQUE KEY INDEX FULLTEXT SPATIAL CONSTRAINT FOREIGN CHECK";

/// A parsed statement.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) statement: Statement,
    /// Number of `?` in it.
    pub(super) parameters: usize,
    /// The items of its SELECTs as written.
    pub(super) items: Items,
}

/// The kinds of statements.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Statement {
    /// Returns rows.
    Query(Box<Query>),
    /// Runs a query and discards its rows.
    Do(Box<Query>),
    /// Returns the plan of a query.
    Explain(Box<Query>),
    Set(Vec<Setting>),
    /// `SET STATEMENT ... FOR`: settings for one statement.
    SetFor(Vec<Setting>, Box<Statement>),
    Use(String),
    /// Begins or ends a transaction.
    Begin,
    End,
    /// Has no effect.
    Nothing,
    Show(Box<Show>),
    Create(Create),
    Drop(Drop),
    Update(Update),
    /// `TRUNCATE` of a table of events or sums.
    Truncate(Option<String>, String),
}

/// `CREATE TABLE ... ENGINE=PINBA COMMENT='...'`: the comment defines the report. Column names are
/// compared with those of the report; types, keys and other options are ignored.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Create {
    pub(super) database: Option<String>,
    pub(super) name: String,
    pub(super) if_not_exists: bool,
    pub(super) comment: String,
    /// The names of its columns, as written.
    pub(super) columns: Vec<String>,
}

/// `DROP TABLE a, b`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Drop {
    pub(super) tables: Vec<(Option<String>, String)>,
    pub(super) if_exists: bool,
}

/// `UPDATE` of a table that configures instruments.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Update {
    pub(super) database: Option<String>,
    pub(super) table: String,
    /// Columns and their new values, as written.
    pub(super) settings: Vec<(String, String)>,
    /// The rest, from WHERE on, as written.
    pub(super) rows: String,
}

/// Reads a statement.
///
/// # Errors
/// Fails if it cannot be parsed, writes, or is not supported.
pub(super) fn parse(text: &str, mode: Mode) -> Result<Parsed, SqlError> {
    let Tokens { tokens, parameters, items, .. } = Tokens::read(text, mode)?;
    let parser = grammar::parser(tokens);
    let mut reader = Reader { text, parser };
    let statement = reader.statement()?;
    reader.end()?;
    Ok(Parsed { statement, parameters, items })
}

/// A query that evaluates expressions.
///
/// # Errors
/// Never.
pub(super) fn select_of(expressions: Vec<Expr>) -> Result<Box<Query>, SqlError> {
    let tokens = Tokens::read("SELECT NULL", Mode::default())?.tokens;
    let mut query = grammar::parser(tokens).parse_query().map_err(wrong)?;
    if let SetExpr::Select(select) = &mut *query.body {
        let items = expressions.into_iter().map(SelectItem::UnnamedExpr);
        select.projection = items.collect();
    }
    Ok(query)
}

fn wrong(error: ParserError) -> SqlError {
    SqlError::parse(unprefixed(&error.to_string()))
}

/// Which word was meant by the first one of this text, if it is none of these.
fn question<'a>(text: &str, words: impl Iterator<Item = &'a str> + Clone) -> String {
    let word = text.split(|it: char| !it.is_ascii_alphabetic()).next().unwrap_or_default();
    let begins = |it: &str| it.split(' ').next().is_some_and(|it| it.eq_ignore_ascii_case(word));
    let is_known = words.clone().any(begins);
    suggest::question(if is_known { "" } else { word }, words)
}

/// Verbs of statements that write, or change the server.
const WRITES: &str = "ALTER BACKUP BINLOG CALL CHANGE CREATE DELETE DROP GRANT HANDLER IMPORT INSERT INSTALL \
    LOAD MERGE OPTIMIZE PURGE RENAME REPAIR REPLACE RESET REVOKE \
    SHUTDOWN START STOP UNINSTALL XA";

/// Other words of statements that may be misspelt.
const WORDS: &str = "SELECT SHOW DESCRIBE EXPLAIN SET USE UPDATE TRUNCATE FROM WHERE GROUP ORDER HAVING LIMIT JOIN UNION";

/// A statement and the read position.
struct Reader<'a> {
    text: &'a str,
    parser: Parser<'static>,
}

impl Reader<'_> {
    fn statement(&mut self) -> Result<Statement, SqlError> {
        let first = self.parser.peek_token();
        let word = match &first.token {
            Token::EOF => {
                return Err(SqlError::empty_query("Query was empty"));
            }
            Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
            _ => String::new(),
        };
        if self.is_query() {
            return Ok(Statement::Query(self.query()?));
        }
        self.parser.advance_token();
        match word.as_str() {
            "DO" => {
                let expressions = self.parser.parse_comma_separated(Parser::parse_expr);
                Ok(Statement::Do(select_of(expressions.map_err(wrong)?)?))
            }
            "SET" => self.set(),
            "USE" => Ok(Statement::Use(self.name()?)),
            "BEGIN" => Ok(self.skip_to(Statement::Begin)),
            "START" if self.words("TRANSACTION") => Ok(self.skip_to(Statement::Begin)),
            "COMMIT" => Ok(self.skip_to(Statement::End)),
            "ROLLBACK" => {
                let _ = self.words("WORK");
                match self.words("TO") {
                    true => Ok(self.skip_to(Statement::Nothing)),
                    false => Ok(self.skip_to(Statement::End)),
                }
            }
            "SAVEPOINT" | "RELEASE" | "LOCK" | "UNLOCK" | "FLUSH" => {
                Ok(self.skip_to(Statement::Nothing))
            }
            "SHOW" => self.show(),
            "DESCRIBE" | "DESC" | "EXPLAIN" => self.describe(),
            "CREATE" if self.words("TEMPORARY TABLE") => Err(SqlError::read_only(
                "The pinbad server has no temporary tables; a report is made by CREATE TABLE ... ENGINE=PINBA COMMENT='...'",
            )),
            "CREATE" if self.words("TABLE") => self.create(),
            "DROP" if self.words("TABLE") => Ok(Statement::Drop(self.drop_tables()?)),
            // A report is none: clients say TEMPORARY so that nothing else is dropped.
            "DROP" if self.words("TEMPORARY TABLE") => {
                let Drop { tables, if_exists } = self.drop_tables()?;
                let names: Vec<_> = tables.iter().map(|(_, name)| format!("'{name}'")).collect();
                match if_exists {
                    true => Ok(Statement::Nothing),
                    false => Err(SqlError::unknown_table(format!(
                        "Unknown table {}; there are no temporary tables",
                        names.join(",")
                    ))),
                }
            }
            "ANALYZE" | "CHECK" | "CHECKSUM" => Err(SqlError::not_supported(&word)),
            "KILL" => Err(SqlError::not_supported("KILL but on MySQL connections")),
            "HELP" => Err(SqlError::not_supported("HELP")),
            "PREPARE" | "EXECUTE" | "DEALLOCATE" => Err(SqlError::not_supported(format!(
                "{word} as a statement; clients prepare statements over the protocol"
            ))),
            "UPDATE" => self.update(),
            "TRUNCATE" => {
                let _ = self.words("TABLE");
                match self.table() {
                    Ok((database, table)) if LAYOUTS.named(&table).is_some() => {
                        Ok(Statement::Truncate(database, table))
                    }
                    _ => Err(SqlError::writes("TRUNCATE")),
                }
            }
            write if WRITES.split(' ').any(|it| it == write) => Err(SqlError::writes(write)),
            _ => {
                self.parser.prev_token();
                Err(self.wrong())
            }
        }
    }

    /// Whether a query comes next.
    fn is_query(&self) -> bool {
        let next = &self.parser.peek_token_ref().token;
        *next == Token::LParen || is_word(next, "SELECT WITH VALUES TABLE")
    }

    fn query(&mut self) -> Result<Box<Query>, SqlError> {
        self.parser.parse_query().map_err(wrong)
    }

    /// Reads after CREATE TABLE.
    fn create(&mut self) -> Result<Statement, SqlError> {
        let if_not_exists = self.words("IF NOT EXISTS");
        let (database, name) = self.table()?;
        let (mut depth, mut engine, mut comment) = (0_usize, None, None);
        let (mut columns, mut begins) = (Vec::new(), false);
        while self.parser.peek_token_ref().token != Token::EOF {
            if depth == 0 && (self.words("ENGINE") || self.words("TYPE")) {
                let _ = self.parser.consume_token(&Token::Eq);
                engine = Some(self.name()?);
            } else if depth == 0 && self.words("COMMENT") {
                let _ = self.parser.consume_token(&Token::Eq);
                comment = Some(self.quoted_text()?);
            } else if depth == 0 && (self.words("AS") || self.words("SELECT") || self.words("LIKE"))
            {
                return Err(SqlError::read_only(
                    "The pinbad server cannot keep rows; a report is made by CREATE TABLE ... ENGINE=PINBA COMMENT='...'",
                ));
            } else {
                let token = self.parser.next_token().token;
                if let Token::Word(word) = &token
                    && begins
                    && !is_word(&token, KEYS)
                {
                    columns.push(word.value.clone());
                }
                begins = matches!((&token, depth), (Token::LParen, 0) | (Token::Comma, 1));
                match token {
                    Token::LParen => depth += 1,
                    Token::RParen => depth = depth.saturating_sub(1),
                    _ => {}
                }
            }
        }
        if depth > 0 {
            return Err(self.wrong());
        }
        if !engine.is_some_and(|engine| engine.eq_ignore_ascii_case("pinba")) {
            return Err(SqlError::read_only(
                "The pinbad server has tables of ENGINE=PINBA only: CREATE TABLE ... ENGINE=PINBA COMMENT='...'",
            ));
        }
        let comment = comment.ok_or_else(|| {
            SqlError::wrong_arguments("a report needs its definition: COMMENT='...'")
        })?;
        Ok(Statement::Create(Create { database, name, if_not_exists, comment, columns }))
    }

    /// Reads after DROP TABLE.
    fn drop_tables(&mut self) -> Result<Drop, SqlError> {
        let if_exists = self.words("IF EXISTS");
        let mut tables = vec![self.table()?];
        while self.parser.consume_token(&Token::Comma) {
            tables.push(self.table()?);
        }
        let _ = self.words("CASCADE") || self.words("RESTRICT");
        Ok(Drop { tables, if_exists })
    }

    /// Reads after UPDATE, in full if the table can be updated.
    fn update(&mut self) -> Result<Statement, SqlError> {
        let _ = self.words("LOW_PRIORITY") || self.words("IGNORE");
        let (database, table) = match self.table() {
            Ok((database, table)) if LAYOUTS.named(&table).is_some() => (database, table),
            _ => return Err(SqlError::writes("UPDATE")),
        };
        if !self.words("SET") {
            return Err(self.wrong());
        }
        let mut settings = Vec::new();
        loop {
            // The last part of the name: there is only one table.
            let (_, column) = self.table()?;
            if !self.parser.consume_token(&Token::Eq) {
                return Err(self.wrong());
            }
            let before = self.rest().len();
            self.parser.parse_expr().map_err(wrong)?;
            let value = &self.text[self.text.len() - before..self.text.len() - self.rest().len()];
            settings.push((column, value.trim_end().trim_end_matches(';').to_owned()));
            if !self.parser.consume_token(&Token::Comma) {
                break;
            }
        }
        let rows = self.rest().to_owned();
        if !rows.is_empty() && !self.words("WHERE") && !self.words("ORDER") && !self.words("LIMIT")
        {
            return Err(self.wrong());
        }
        Ok(self.skip_to(Statement::Update(Update { database, table, settings, rows })))
    }

    /// Consumes these words and signs, in any case, if all of them come next.
    fn words(&mut self, words: &str) -> bool {
        let is_next = |(at, word): (usize, &str)| {
            let token = &self.parser.peek_nth_token_ref(at).token;
            token.to_string().eq_ignore_ascii_case(word)
        };
        let found = words.split(' ').enumerate().all(is_next);
        if found {
            words.split(' ').for_each(|_| self.parser.advance_token());
        }
        found
    }

    /// Returns a statement whose remaining words have no effect here.
    fn skip_to(&mut self, statement: Statement) -> Statement {
        while self.parser.next_token().token != Token::EOF {}
        statement
    }

    /// A name, in backticks or not.
    fn name(&mut self) -> Result<String, SqlError> {
        match self.parser.next_token().token {
            Token::Word(word) => Ok(word.value),
            Token::Number(number, _) => Ok(number),
            _ => Err(self.wrong_before()),
        }
    }

    /// `table` or `database.table`.
    fn table(&mut self) -> Result<(Option<String>, String), SqlError> {
        let first = self.name()?;
        match self.parser.consume_token(&Token::Period) {
            true => Ok((Some(first), self.name()?)),
            false => Ok((None, first)),
        }
    }

    /// The value of a text in quotes.
    fn quoted_text(&mut self) -> Result<String, SqlError> {
        match self.parser.next_token().token {
            Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => Ok(text),
            _ => Err(self.wrong_before()),
        }
    }

    /// Refuses leftover tokens.
    fn end(&self) -> Result<(), SqlError> {
        match self.parser.peek_token_ref().token {
            Token::EOF => Ok(()),
            _ => Err(self.wrong()),
        }
    }

    /// The text from here on.
    fn rest(&self) -> &str {
        let next = self.parser.peek_token_ref();
        match next.token {
            Token::EOF => "",
            _ => &self.text[range_of(next).start..],
        }
    }

    /// MySQL's error 1064 at this position.
    fn wrong(&self) -> SqlError {
        let near: String = match self.rest() {
            "" => "the end".to_owned(),
            rest => rest.chars().take(80).collect(),
        };
        let words = WORDS.split(' ').chain(WRITES.split_ascii_whitespace());
        let question = question(&near, words);
        SqlError::parse(format!(
            "You have an error in your SQL syntax; check the manual for what is accepted near '{near}'{question}"
        ))
    }

    /// MySQL's error 1064 at the token just consumed.
    fn wrong_before(&mut self) -> SqlError {
        self.parser.prev_token();
        self.wrong()
    }
}

#[cfg(test)]
mod tests;
