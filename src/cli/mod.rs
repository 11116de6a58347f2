//! The command line: `args` lists the commands; each has a module of its name.
//!
//! `query`, `top`, `tail` and `import` read a running daemon over HTTP, through `client`. Answers
//! go to stdout, errors and the log to stderr; a command that fails says so with a [`Failure`],
//! which `main` turns into the exit code.

pub mod alert;
pub mod args;
pub mod check;
pub mod client;
pub mod doctor;
pub mod format;
#[cfg(feature = "sql")]
pub mod history;
pub mod import;
pub mod import_log;
pub mod import_stat;
mod lexer;
pub mod load;
pub mod man;
pub mod query;
pub mod serve;
pub mod signals;
pub mod stat;
pub mod tables;
pub mod tail;
pub mod top;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use self::client::ClientError;
use crate::config::ConfigErrors;
use crate::daemon::{self, StartError};
use crate::state::{StateError, folder};

/// The failure of a command.
#[derive(Debug)]
pub struct Failure {
    /// The exit code: 1 failure, 2 wrong usage or configuration.
    pub code: u8,
    /// Messages for [`complain`] to print; empty if they were printed already.
    pub problems: Vec<String>,
}

impl Failure {
    /// Exit code 1.
    pub fn failed(problem: impl Display) -> Self {
        Self::new(problem, false)
    }

    /// Exit code 2.
    pub fn usage(problem: impl Display) -> Self {
        Self::new(problem, true)
    }

    /// A failure of the command or of its usage.
    pub fn new(problem: impl Display, is_usage: bool) -> Self {
        Self { code: if is_usage { 2 } else { 1 }, problems: vec![problem.to_string()] }
    }

    /// An I/O error of the output. A reader that goes away (`| head`) is no failure: the command
    /// ends with exit code 0.
    #[expect(clippy::needless_pass_by_value, reason = "for `map_err`, which passes it on")]
    pub fn write(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { code: 0, problems: Vec::new() },
            _ => Self::failed(format!("cannot write: {error}")),
        }
    }

    /// Exit code 1 of a command that has reported everything itself.
    pub const fn reported() -> Self {
        Self { code: 1, problems: Vec::new() }
    }

    /// Exit code 2, for all that is wrong with a configuration.
    pub fn misconfigured(errors: &[impl Display]) -> Self {
        Self { code: 2, problems: errors.iter().map(ToString::to_string).collect() }
    }

    /// All that is wrong with a configuration, and the reports, secrets and certificates in it.
    pub fn of_configuration(errors: ConfigErrors) -> Self {
        let others = daemon::check(&errors.1).err().unwrap_or_default();
        let mut failure = Self::from(errors);
        failure.problems.extend(others.iter().map(ToString::to_string));
        failure
    }
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Self::misconfigured(&errors.0)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let mut failure = Self::new(&error, matches!(error, ClientError::Usage(_)));
        if let (Some(advice), Some(problem)) = (error.advice(), failure.problems.last_mut()) {
            problem.push_str("; ");
            problem.push_str(advice);
        }
        failure
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let mut problem = error.to_string();
        if let StartError::State(state @ StateError::Io { what, path, .. }) = &error
            && *what == folder::MAKE
        {
            problem += &format!("; {}", state.advice(path));
        }
        Self::new(problem, error.is_configuration())
    }
}

/// Opens a file; `-` is stdin.
fn open<'a>(path: &Path, stdin: &'a mut dyn Read) -> Result<Box<dyn Read + 'a>, Failure> {
    match path == Path::new("-") {
        true => Ok(Box::new(stdin)),
        false => Ok(Box::new(File::open(path).map_err(cannot_read(path))?)),
    }
}

fn cannot_read(path: &Path) -> impl Fn(io::Error) -> Failure + use<'_> {
    move |error| Failure::failed(format!("cannot read {}: {error}", path.display()))
}

/// Prints an answer on stdout.
///
/// # Errors
/// Fails if it cannot be written.
pub fn print(answer: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{answer}").map_err(Failure::write)
}

/// Prints a problem on stderr.
pub fn complain(problem: impl Display) {
    // A daemon's errors quote names that came in packets.
    let problem = problem.to_string();
    let lines: Vec<_> = problem.lines().map(format::visible).collect();
    // A terminal that is gone is no reason to panic.
    let _unseen = writeln!(io::stderr(), "pinbad: {}", lines.join("\n"));
}
