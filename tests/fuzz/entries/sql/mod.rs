//! Runs any text through every stage before execution ([`fuzz_text`]), and through a whole engine
//! ([`fuzz_run`]).
//!
//! Entry points for random texts, called by tests with a fixed seed (`fuzz/tests.rs`) and by a fuzz
//! target. Nothing may panic, overflow a stack, take long or leave anything behind, whatever the
//! text is; the results are not checked.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use super::dialect::context::Context;
use super::dialect::lex::{self, Mode};
use super::dialect::rewrite::rewrite;
use super::engine::{Engine, STACK};
use super::session::{Literal, Session};
use super::settings::SqlSettings;
use super::statement::{self, Parsed, Statement};

/// Splits a text into statements, reads each of them and rewrites the queries, on a thread like the
/// engine's. Returns how many could be planned.
pub(crate) fn fuzz_text(text: &str) -> usize {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let read = thread.spawn_scoped(scope, || read_and_rewrite(text)).expect("a thread");
        read.join().expect("no statement makes it panic")
    })
}

fn read_and_rewrite(text: &str) -> usize {
    static SETTINGS: LazyLock<SqlSettings> = LazyLock::new(SqlSettings::default);

    let session = Session::new(1, "fuzz@localhost", false);
    let values = [Literal::Int(1), Literal::Null, Literal::Text("x".to_owned())];
    let mut fit = 0;
    let mut text = text;
    while let Some(statement) = lex::take_statement(&mut text, &session) {
        for mode in [Mode::default(), Mode::ANSI] {
            let Ok(Parsed { statement: Statement::Query(query), items, .. }) =
                statement::parse(statement, mode)
            else {
                continue;
            };
            let context = Context::new(&session, &SETTINGS, None);
            fit += usize::from(rewrite(&mut *query.clone(), &items, &context).is_ok());
            let context = Context::new(&session, &SETTINGS, Some(&values));
            let _ = rewrite(&mut *query.clone(), &items, &context);
        }
    }
    fit
}

/// How far a statement may exceed `time_max`, and how long an engine may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a text, statement by statement, as one client of an engine with a short time limit, and
/// reads all answers. Returns how many statements were answered.
///
/// # Errors
/// Fails if the daemon reports a defect of its own, a statement does not end, or the engine still
/// holds memory or a permit when everything is over.
pub(crate) async fn fuzz_run(engine: &Engine, text: &str) -> Result<usize, String> {
    let mut session = Session::new(1, "fuzz@localhost", false);
    session.database = Some("pinba".to_owned());
    let mut answered = 0;
    let mut rest = text;
    while let Some(statement) = lex::take_statement(&mut rest, &session) {
        let patience = engine.0.settings.limits.time_max + PATIENCE;
        let run = async { engine.run(&mut session, statement, &[]).await?.discard().await };
        match tokio::time::timeout(patience, run).await {
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

impl Engine {
    /// Whether no query runs and none holds memory.
    pub(super) fn is_at_rest(&self) -> bool {
        let memory = &self.0.state.runtime_env().memory_pool;
        let free = self.0.running.available_permits();
        free == self.0.settings.limits.queries_max && memory.reserved() == 0
    }
}

#[cfg(test)]
mod tests;
