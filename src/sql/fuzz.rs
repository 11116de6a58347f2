//! Any text, through everything that looks at a statement before it is run.
//!
//! The entry for random texts: a test with a fixed seed (`fuzz/tests.rs`) and a fuzz target call it. Nothing here may panic,
//! overflow a stack or take long, whatever the text is; what it says is not looked at.

use super::dialect::lex;
use super::execute::write;
use super::session::{Literal, Session};
use super::settings::SqlSettings;
use super::statement::{self, Statement};

/// Cuts a text into statements, reads each of them and rewrites those that are queries. How many were fit to be planned.
#[must_use]
pub fn fuzz_text(text: &str) -> usize {
    let settings = SqlSettings::default();
    let session = Session::new(1, "fuzz@localhost", false);
    let values = [
        Literal::Int(1),
        Literal::Null,
        Literal::Text("x".to_owned()),
    ];
    let mut fit = 0;
    for statement in lex::split(text) {
        for ansi_quotes in [false, true] {
            let Ok(Statement::Query) = statement::read(&statement, ansi_quotes) else {
                continue;
            };
            fit += usize::from(write(&session, &settings, &statement, None).is_ok());
            let _ = write(&session, &settings, &statement, Some(&values));
        }
    }
    fit
}

#[cfg(test)]
pub(super) mod tests;
