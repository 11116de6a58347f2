//! Any text, through everything that looks at a statement before it is run ([`fuzz_text`]), and through a whole engine
//! ([`fuzz_run`]).
//!
//! The entries for random texts: tests with a fixed seed (`fuzz/tests.rs`) and a fuzz target call them. Nothing here may
//! panic, overflow a stack, take long or leave anything behind, whatever the text is; what it says is not looked at.

use std::time::{Duration, Instant};

use super::dialect::context::Context;
use super::dialect::lex::{self, Mode};
use super::dialect::rewrite::rewrite;
use super::engine::Engine;
use super::reply::Reply;
use super::session::{Literal, Session};
use super::settings::SqlSettings;
use super::statement::{self, Parsed, Statement};

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
        for mode in [Mode::default(), Mode::ANSI] {
            let Ok(Parsed {
                statement: Statement::Query(query),
                items,
                ..
            }) = statement::parse(statement, mode)
            else {
                continue;
            };
            let context = Context::new(&session, &settings, None);
            fit += usize::from(rewrite(&mut *query.clone(), &items, &context).is_ok());
            let context = Context::new(&session, &settings, Some(&values));
            let _ = rewrite(&mut *query.clone(), &items, &context);
        }
    }
    fit
}

/// How much longer than `time_max` a statement may take, and how long an engine may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a text, statement by statement, as one client of an engine whose time for a query is short, and reads all answers.
/// How many statements were answered.
///
/// # Errors
/// When it did harm: the daemon says of itself that it has a defect, a statement does not end, or the engine holds memory
/// or a place for a query when all is over.
pub async fn fuzz_run(engine: &Engine, text: &str) -> Result<usize, String> {
    let mut session = Session::new(1, "fuzz@localhost", false);
    session.database = Some("pinba".to_owned());
    let mut answered = 0;
    for statement in lex::split(text) {
        let patience = engine.0.settings.time_max + PATIENCE;
        let run = tokio::time::timeout(patience, answer(engine, &mut session, statement));
        match run.await {
            Err(_) => return Err(format!("no end: {statement}")),
            Ok(Ok(())) => answered += 1,
            Ok(Err(error)) if error.code == 1105 => return Err(format!("{error}: {statement}")),
            Ok(Err(_)) => {}
        }
    }
    let start = Instant::now();
    while !engine.is_at_rest() {
        if start.elapsed() > PATIENCE {
            return Err(format!("something is left of: {text}"));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(answered)
}

async fn answer(
    engine: &Engine,
    session: &mut Session,
    statement: &str,
) -> Result<(), super::SqlError> {
    if let Reply::Rows(mut rows) = engine.run(session, statement, &[]).await? {
        while let Some(batch) = rows.next().await {
            batch?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
