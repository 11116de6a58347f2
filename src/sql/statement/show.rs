//! SHOW, DESCRIBE and EXPLAIN: what is asked for, read to the end.
//!
//! Lists of what there never is here (triggers, routines, events) are empty ones with MySQL's columns, because clients ask for
//! them whenever they connect.

use super::Statement;
use super::reader::Reader;
use crate::sql::dialect::lex::Kind;
use crate::sql::error::SqlError;

/// What is shown.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sql) struct Show {
    pub(in crate::sql) what: What,
    /// `LIKE 'pattern'`.
    pub(in crate::sql) like: Option<String>,
    /// `WHERE condition`, as it is written.
    pub(in crate::sql) condition: Option<String>,
}

/// What SHOW can show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sql) enum What {
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

impl Reader<'_> {
    /// DESCRIBE a table, or EXPLAIN a query.
    pub(super) fn describe(&mut self) -> Result<Statement, SqlError> {
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

    /// What follows SHOW.
    pub(super) fn show(&mut self) -> Result<Statement, SqlError> {
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
}
