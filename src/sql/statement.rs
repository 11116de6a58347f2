//! What a statement is, from its first words.
//!
//! SELECT and its kin go to the grammar; everything else is small and read here, token by token: SET, USE, transactions,
//! SHOW and DESCRIBE, CREATE TABLE and DROP TABLE for reports. Writes and what is not known are refused with MySQL's errors.

use super::dialect::lex::{Kind, Token, tokens};
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

/// One of SET's.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Setting {
    /// A system variable, to an expression, or to its default.
    System { name: String, value: Option<String> },
    /// A variable of the user's.
    Own { name: String, value: String },
    /// `SET NAMES`.
    Names(Option<String>),
}

/// `CREATE TABLE ... ENGINE=PINBA COMMENT='...'`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Create {
    pub(super) database: Option<String>,
    pub(super) name: String,
    pub(super) if_not_exists: bool,
    pub(super) comment: String,
}

/// `DROP TABLE a, b`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Drop {
    pub(super) tables: Vec<(Option<String>, String)>,
    pub(super) if_exists: bool,
}

/// What is shown.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Show {
    pub(super) what: What,
    /// `LIKE 'pattern'`.
    pub(super) like: Option<String>,
    /// `WHERE condition`, as it is written.
    pub(super) condition: Option<String>,
}

/// What SHOW can show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    Databases,
    Tables {
        database: Option<String>,
        full: bool,
    },
    TableStatus {
        database: Option<String>,
    },
    Columns {
        database: Option<String>,
        table: String,
        full: bool,
    },
    Index {
        database: Option<String>,
        table: String,
    },
    CreateTable {
        database: Option<String>,
        table: String,
    },
    CreateDatabase(String),
    Variables {
        global: bool,
    },
    Status,
    Warnings,
    Errors,
    CountWarnings,
    CountErrors,
    Engines,
    Plugins,
    Collation,
    CharacterSet,
    Processlist,
    Grants,
    Privileges,
    /// Lists that are always empty, with their columns.
    Empty(&'static [&'static str]),
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

struct Reader<'a> {
    text: &'a str,
    tokens: &'a [Token],
    at: usize,
}

/// Statements that write, or change the server.
const WRITES: [&str; 33] = [
    "ALTER",
    "ANALYZE",
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

impl<'a> Reader<'a> {
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
                let near: String = self.text[first.start..].chars().take(80).collect();
                Err(SqlError::parse(format!(
                    "You have an error in your SQL syntax; check the manual for what is accepted near '{near}'"
                )))
            }
        }
    }

    fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).copied()
    }

    /// Takes a keyword if it comes next.
    fn word(&mut self, keyword: &str) -> bool {
        let found = self
            .peek()
            .is_some_and(|token| token.is(self.text, keyword));
        self.at += usize::from(found);
        found
    }

    /// Takes keywords if they come next, all of them.
    fn words(&mut self, keywords: &[&str]) -> bool {
        let found = keywords.iter().enumerate().all(|(ahead, keyword)| {
            self.tokens
                .get(self.at + ahead)
                .is_some_and(|token| token.is(self.text, keyword))
        });
        if found {
            self.at += keywords.len();
        }
        found
    }

    fn sign(&mut self, sign: &str) -> bool {
        let found = self
            .peek()
            .is_some_and(|token| token.is_sign(self.text, sign));
        self.at += usize::from(found);
        found
    }

    /// The text from here on.
    fn rest(&self) -> &'a str {
        match (self.tokens.get(self.at), self.tokens.last()) {
            (Some(first), Some(last)) => &self.text[first.start..last.end],
            _ => "",
        }
    }

    fn wrong(&self) -> SqlError {
        let near: String = match self.peek() {
            Some(token) => self.text[token.start..].chars().take(80).collect(),
            None => "the end".to_owned(),
        };
        SqlError::parse(format!(
            "You have an error in your SQL syntax; check the manual for what is accepted near '{near}'"
        ))
    }

    fn end(&self) -> Result<(), SqlError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.wrong()),
        }
    }

    fn name(&mut self) -> Result<String, SqlError> {
        match self.peek() {
            Some(token) if matches!(token.kind, Kind::Word | Kind::Quoted | Kind::Number) => {
                self.at += 1;
                Ok(token.value(self.text).into_owned())
            }
            _ => Err(self.wrong()),
        }
    }

    /// `table` or `database.table`.
    fn table(&mut self) -> Result<(Option<String>, String), SqlError> {
        let first = self.name()?;
        match self.sign(".") {
            true => Ok((Some(first), self.name()?)),
            false => Ok((None, first)),
        }
    }

    fn text_value(&mut self) -> Result<String, SqlError> {
        match self.peek() {
            Some(token) if token.kind == Kind::Text => {
                self.at += 1;
                Ok(token.value(self.text).into_owned())
            }
            _ => Err(self.wrong()),
        }
    }

    fn set(&mut self) -> Result<Statement, SqlError> {
        let mut settings = Vec::new();
        loop {
            settings.extend(self.setting()?);
            if !self.sign(",") {
                break;
            }
        }
        self.end()?;
        Ok(Statement::Set(settings))
    }

    fn setting(&mut self) -> Result<Vec<Setting>, SqlError> {
        if self.word("NAMES") || self.words(&["CHARACTER", "SET"]) || self.word("CHARSET") {
            let charset = match self.peek() {
                Some(token) if token.kind == Kind::Text => self.text_value()?,
                _ => self.name()?,
            };
            if self.word("COLLATE") {
                let _collation = self.peek();
                self.at += 1;
            }
            let charset = (!charset.eq_ignore_ascii_case("default")).then_some(charset);
            return Ok(vec![Setting::Names(charset)]);
        }
        if self.word("PASSWORD") || self.word("ROLE") || self.words(&["DEFAULT", "ROLE"]) {
            return Err(SqlError::not_supported(
                "passwords and roles are set in the configuration",
            ));
        }
        let global = self.word("GLOBAL") || self.word("PERSIST");
        if !global {
            let _ = self.word("SESSION") || self.word("LOCAL");
        }
        if self.word("TRANSACTION") {
            self.at = self.tokens.len();
            return Ok(Vec::new());
        }
        let token = self.peek().ok_or_else(|| self.wrong())?;
        self.at += 1;
        let written = token.text(self.text).to_ascii_lowercase();
        let (own, name) = match token.kind {
            Kind::UserVariable => (true, written[1..].trim_matches(['`', '\'', '"']).to_owned()),
            Kind::SystemVariable => (false, written[2..].replace('`', "")),
            Kind::Word | Kind::Quoted => (false, token.value(self.text).to_lowercase()),
            _ => {
                self.at -= 1;
                return Err(self.wrong());
            }
        };
        if !self.sign("=") && !self.sign(":=") {
            return Err(self.wrong());
        }
        let value = self.value()?;
        if own {
            return Ok(vec![Setting::Own { name, value }]);
        }
        let (scope, name) = match name.split_once('.') {
            Some((scope, name)) => (scope.to_owned(), name.to_owned()),
            None => (String::new(), name),
        };
        if global || scope == "global" {
            return Err(SqlError::access_denied(
                "global variables are set in the configuration; SET SESSION is done",
            ));
        }
        let default = value.eq_ignore_ascii_case("default");
        Ok(vec![Setting::System {
            name,
            value: (!default).then_some(value),
        }])
    }

    /// An expression, up to the next comma outside of parentheses.
    fn value(&mut self) -> Result<String, SqlError> {
        let start = self.at;
        let mut depth = 0_usize;
        while let Some(token) = self.peek() {
            match token.kind {
                Kind::Sign => match token.text(self.text) {
                    "(" => depth += 1,
                    ")" => depth = depth.saturating_sub(1),
                    "," if depth == 0 => break,
                    _ => {}
                },
                Kind::Word if depth == 0 && token.is(self.text, "FOR") => {
                    return Err(SqlError::not_supported("SET STATEMENT ... FOR"));
                }
                _ => {}
            }
            self.at += 1;
        }
        match (self.tokens.get(start), self.at > start) {
            (Some(first), true) => {
                Ok(self.text[first.start..self.tokens[self.at - 1].end].to_owned())
            }
            _ => Err(self.wrong()),
        }
    }

    /// DESCRIBE a table, or EXPLAIN a query.
    fn describe(&mut self) -> Result<Statement, SqlError> {
        let start = self.at;
        let _ = self.word("EXTENDED") || self.word("PARTITIONS");
        if self.word("FORMAT") {
            let _ = self.sign("=");
            self.at += 1;
        }
        let _ = self.word("ANALYZE");
        if let Some(next) = self.peek()
            && (next.is_sign(self.text, "(")
                || ["SELECT", "WITH", "VALUES"]
                    .iter()
                    .any(|word| next.is(self.text, word)))
        {
            return Ok(Statement::Explain(self.rest().to_owned()));
        }
        self.at = start;
        let (database, table) = self.table()?;
        let like = match self.peek() {
            None => None,
            Some(token) if token.kind == Kind::Text => Some(self.text_value()?),
            Some(_) => Some(self.name()?),
        };
        self.end()?;
        Ok(Statement::Show(Show {
            what: What::Columns {
                database,
                table,
                full: false,
            },
            like,
            condition: None,
        }))
    }

    fn show(&mut self) -> Result<Statement, SqlError> {
        let full = self.word("FULL");
        let extended = self.word("EXTENDED");
        let full = full || (extended && self.word("FULL"));
        let global = self.word("GLOBAL");
        if !global {
            let _ = self.word("SESSION") || self.word("LOCAL");
        }
        let what = if self.word("DATABASES") || self.word("SCHEMAS") {
            What::Databases
        } else if self.words(&["TABLE", "STATUS"]) {
            What::TableStatus {
                database: self.of_database()?,
            }
        } else if self.word("TABLES") {
            What::Tables {
                database: self.of_database()?,
                full,
            }
        } else if self.word("COLUMNS") || self.word("FIELDS") {
            let (database, table) = self.of_table()?;
            What::Columns {
                database,
                table,
                full,
            }
        } else if self.word("INDEX") || self.word("INDEXES") || self.word("KEYS") {
            let (database, table) = self.of_table()?;
            What::Index { database, table }
        } else if self.words(&["CREATE", "TABLE"]) {
            let (database, table) = self.table()?;
            What::CreateTable { database, table }
        } else if self.words(&["CREATE", "DATABASE"]) || self.words(&["CREATE", "SCHEMA"]) {
            if self.words(&["IF", "NOT"]) {
                let _ = self.word("EXISTS");
            }
            What::CreateDatabase(self.name()?)
        } else if self.word("VARIABLES") {
            What::Variables { global }
        } else if self.word("STATUS") {
            What::Status
        } else if self.word("WARNINGS") {
            self.skip_limit();
            What::Warnings
        } else if self.word("ERRORS") {
            self.skip_limit();
            What::Errors
        } else if self.word("COUNT") {
            let star = self.sign("(") && self.sign("*") && self.sign(")");
            match (star, self.word("WARNINGS"), self.word("ERRORS")) {
                (true, true, _) => What::CountWarnings,
                (true, _, true) => What::CountErrors,
                _ => return Err(self.wrong()),
            }
        } else if self.words(&["STORAGE", "ENGINES"]) || self.word("ENGINES") {
            What::Engines
        } else if self.word("PLUGINS") {
            What::Plugins
        } else if self.word("COLLATION") {
            What::Collation
        } else if self.words(&["CHARACTER", "SET"]) || self.word("CHARSET") {
            What::CharacterSet
        } else if self.word("PROCESSLIST") {
            What::Processlist
        } else if self.word("GRANTS") {
            self.at = self.tokens.len();
            What::Grants
        } else if self.word("PRIVILEGES") {
            What::Privileges
        } else {
            self.show_nothing()?
        };
        let mut show = Show {
            what,
            like: None,
            condition: None,
        };
        if self.word("LIKE") {
            show.like = Some(self.text_value()?);
            self.end()?;
        } else if self.word("WHERE") {
            show.condition = Some(self.rest().to_owned());
        } else {
            self.end()?;
        }
        Ok(Statement::Show(show))
    }

    /// Lists of what there never is here.
    fn show_nothing(&mut self) -> Result<What, SqlError> {
        const TRIGGERS: &[&str] = &[
            "Trigger",
            "Event",
            "Table",
            "Statement",
            "Timing",
            "Created",
            "sql_mode",
            "Definer",
            "character_set_client",
            "collation_connection",
            "Database Collation",
        ];
        const ROUTINES: &[&str] = &[
            "Db",
            "Name",
            "Type",
            "Definer",
            "Modified",
            "Created",
            "Security_type",
            "Comment",
            "character_set_client",
            "collation_connection",
            "Database Collation",
        ];
        const EVENTS: &[&str] = &[
            "Db",
            "Name",
            "Definer",
            "Time zone",
            "Type",
            "Execute at",
            "Interval value",
            "Interval field",
            "Starts",
            "Ends",
            "Status",
            "Originator",
            "character_set_client",
            "collation_connection",
            "Database Collation",
        ];
        const OPEN_TABLES: &[&str] = &["Database", "Table", "In_use", "Name_locked"];
        const PROFILES: &[&str] = &["Query_ID", "Duration", "Query"];
        let columns = if self.word("TRIGGERS") {
            TRIGGERS
        } else if self.words(&["PROCEDURE", "STATUS"]) || self.words(&["FUNCTION", "STATUS"]) {
            ROUTINES
        } else if self.word("EVENTS") {
            EVENTS
        } else if self.words(&["OPEN", "TABLES"]) {
            OPEN_TABLES
        } else if self.word("PROFILES") {
            PROFILES
        } else {
            let what = self.rest().to_owned();
            return match what.is_empty() {
                true => Err(self.wrong()),
                false => Err(SqlError::not_supported(format!("SHOW {what}"))),
            };
        };
        let _ = self.of_database()?;
        Ok(What::Empty(columns))
    }

    fn skip_limit(&mut self) {
        if self.word("LIMIT") {
            self.at = self.tokens.len();
        }
    }

    fn of_database(&mut self) -> Result<Option<String>, SqlError> {
        match self.word("FROM") || self.word("IN") {
            true => self.name().map(Some),
            false => Ok(None),
        }
    }

    /// `FROM table [FROM database]`.
    fn of_table(&mut self) -> Result<(Option<String>, String), SqlError> {
        if !self.word("FROM") && !self.word("IN") {
            return Err(self.wrong());
        }
        let (database, table) = self.table()?;
        let other = self.of_database()?;
        Ok((other.or(database), table))
    }

    fn is_table(&self) -> bool {
        let is = |ahead: usize, word: &str| {
            self.tokens
                .get(self.at + ahead)
                .is_some_and(|token| token.is(self.text, word))
        };
        is(0, "TABLE") || (is(0, "TEMPORARY") && is(1, "TABLE"))
    }

    fn create(&mut self) -> Result<Statement, SqlError> {
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

    fn drop(&mut self) -> Result<Statement, SqlError> {
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

#[cfg(test)]
mod tests;
