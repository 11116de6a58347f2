//! Errors of questions, in terms that belong to no protocol.
//!
//! Created by the source and the front ends; each front end maps them once (`http/error.rs` to a
//! status). The text is for the client: it says what was wrong and what would be accepted. Details
//! for the operator go to the log instead.

use thiserror::Error;

use crate::config::suggest;

/// The reason why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueryError {
    /// No report has this name.
    #[error("there is no report called {name:?}{question}")]
    UnknownReport {
        /// The requested name.
        name: String,
        /// Asks for the name that was probably meant; empty if none is close.
        question: String,
    },

    /// No request in the pool has this id: it never came, or was evicted.
    #[error("there is no request {id} in memory; it never came, or it has expired")]
    UnknownRequest {
        /// The requested id.
        id: u64,
    },

    /// No request of this run has this id, or it was not kept, or no longer is.
    #[error(
        "there is no request {id} of run {run}, in memory or on disk; it never came, or it was not kept"
    )]
    UnknownPastRequest {
        /// The requested run.
        run: u64,
        /// The requested id.
        id: u64,
    },

    /// Raw rows are switched off.
    #[error("no raw data is kept: pool.request_pool_size is 0")]
    RawDataOff,

    /// The requested past is not kept.
    #[error("{0}")]
    NoHistory(String),

    /// A given value cannot be used.
    #[error("{what}: {why}")]
    BadValue {
        /// The parameter or member, as its user calls it: `limit`, `comment`, `keys[2]`.
        what: String,
        /// The problem and what is accepted.
        why: String,
    },

    /// A report of this name exists already.
    #[error("there is already a report called {name:?} ({defined})")]
    ReportExists {
        /// The name.
        name: String,
        /// Where the existing one is defined: `built-in`, `configuration`, `run time`.
        defined: String,
    },

    /// This report cannot be dropped.
    #[error("report {name:?} cannot be dropped: {reason}")]
    ReportFixed {
        /// The name.
        name: String,
        /// Where it is defined, and what to change there if that is possible.
        reason: String,
    },

    /// A limit of the configuration was reached.
    #[error("{0}")]
    LimitReached(String),

    /// A change that must survive a restart could not be saved, so it was not made.
    #[error("{0}; nothing was changed")]
    NotKept(String),

    /// Too many questions at once; the same one may succeed a moment later.
    #[error("{0}")]
    Busy(String),
}

impl QueryError {
    /// A [`QueryError::UnknownReport`].
    pub fn unknown_report(name: &str) -> Self {
        Self::UnknownReport { name: name.to_owned(), question: String::new() }
    }

    /// Adds the nearest of these names to the error for an unknown report.
    pub fn suggesting(self, names: impl FnOnce() -> Vec<String>) -> Self {
        match self {
            Self::UnknownReport { name, question } if question.is_empty() => {
                let mut names = names();
                if names.contains(&name) {
                    // Something else has that name, but not of the requested kind.
                    names.clear();
                }
                let question = suggest::question(&name, names.iter().map(String::as_str));
                Self::UnknownReport { name, question }
            }
            other => other,
        }
    }

    /// A [`QueryError::NoHistory`] when no history is kept at all.
    pub fn no_history() -> Self {
        let why = match cfg!(feature = "sql") {
            true => "no history is kept: --data DIR (data.dir) keeps it",
            false => "no history is kept: the program was built without SQL and history",
        };
        Self::NoHistory(why.to_owned())
    }

    /// A [`QueryError::BadValue`].
    pub fn bad_value(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::BadValue { what: what.into(), why: why.into() }
    }
}
