//! Why a question got no answer, in terms that belong to no protocol.
//!
//! The source and the front ends make these; each front end maps them once (`http/error.rs` to a status). The text is
//! written for the person who asked: it says what was wrong and what would be accepted. What only the operator
//! needs to know goes to the log instead.

use thiserror::Error;

use crate::config::suggest;

/// Why a question got no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueryError {
    /// No report has this name.
    #[error("there is no report called {name:?}{}", did_you_mean(meant.as_ref()))]
    UnknownReport {
        /// The name asked for.
        name: String,
        /// The one that was probably meant.
        meant: Option<String>,
    },

    /// No request in the pool has this id: it never came, or it has left.
    #[error("there is no request {id} in memory; it never came, or it has expired")]
    UnknownRequest {
        /// The id asked for.
        id: u64,
    },

    /// No request of this run has this id, or it was not kept, or is not any more.
    #[error(
        "there is no request {id} of run {run}, in memory or on disk; it never came, or it was not kept"
    )]
    UnknownPastRequest {
        /// The run asked for.
        run: u64,
        /// The id asked for.
        id: u64,
    },

    /// Raw rows are switched off.
    #[error("no raw data is kept: pool.request_pool_size is 0")]
    RawDataOff,

    /// The past that was asked for is not kept.
    #[error("{0}")]
    NoHistory(String),

    /// Something that was given cannot be used.
    #[error("{what}: {why}")]
    BadValue {
        /// The parameter or member, as its user would call it: `limit`, `comment`, `keys[2]`.
        what: String,
        /// What is wrong with it and what is accepted.
        why: String,
    },

    /// A report of this name is there already.
    #[error("there is already a report called {name:?} ({defined})")]
    ReportExists {
        /// The name.
        name: String,
        /// Where the present one is defined: `built-in`, `configuration`, `run time`.
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

    /// A limit of the configuration leaves no room for what was asked.
    #[error("{0}")]
    LimitReached(String),

    /// A change that must survive a restart could not be written down, so it was not made.
    #[error("{0}; nothing was changed")]
    NotKept(String),

    /// Too much is being asked at once; the same question may do well a moment later.
    #[error("{0}")]
    Busy(String),
}

fn did_you_mean(meant: Option<&String>) -> String {
    meant.map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"))
}

impl QueryError {
    /// A [`QueryError::UnknownReport`].
    #[must_use]
    pub fn unknown_report(name: &str) -> Self {
        Self::UnknownReport {
            name: name.to_owned(),
            meant: None,
        }
    }

    /// The same; of an unknown report, with the nearest of these names.
    #[must_use]
    pub fn suggesting(self, names: impl FnOnce() -> Vec<String>) -> Self {
        match self {
            Self::UnknownReport { name, meant: None } => {
                let mut names = names();
                if names.contains(&name) {
                    // There is something of that name, which is no report of the kind that was asked for.
                    names.clear();
                }
                let meant = suggest::meant(&name, names.iter().map(String::as_str));
                let meant = meant.map(str::to_owned);
                Self::UnknownReport { name, meant }
            }
            other => other,
        }
    }

    /// A [`QueryError::NoHistory`] where none is kept at all.
    #[must_use]
    pub fn no_history() -> Self {
        let why = match cfg!(feature = "sql") {
            true => "no history is kept: --data DIR (data.dir) keeps it",
            false => "no history is kept: the program was built without SQL and history",
        };
        Self::NoHistory(why.to_owned())
    }

    /// A [`QueryError::BadValue`].
    pub fn bad_value(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::BadValue {
            what: what.into(),
            why: why.into(),
        }
    }
}
