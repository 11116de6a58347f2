//! Physical planning: for all threads, for one, or from a cached plan.
//!
//! A query that reads few rows spends its time in planning, so it is planned for one thread; the
//! tables decide that from their conditions. Pages about one request ask the same statement
//! (`SELECT * FROM request WHERE id = 7`, or its timers with their tags) for many requests, so such
//! plans are cached briefly and run with other numbers ([`Plans`]).

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use datafusion::common::tree_node::TreeNode as _;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use parking_lot::Mutex;
use regex::Regex;
use tokio::sync::OwnedSemaphorePermit;

use super::dialect::context::Context;
use super::dialect::lex::Mode;
use super::engine::Engine;
use super::error::SqlError;
use super::optimizer::PushDown;
use super::reply::SqlColumn;
use super::session::{Literal, Session};
use super::statement::{self, Statement};
use super::tables::{brings_few, with_number};

/// Matches statements of names compared for equality that end in a number: without other values,
/// calls and sub-queries.
static ABOUT_ONE: LazyLock<Regex> = LazyLock::new(|| {
    let (names, number) = (r"(?:[a-z_`][\w`]*|[\s.,*=])+", r"('\d{1,18}'|\d{1,18}|\?)");
    let end = r"(?:\s+limit\s+\d+)?\s*;?\s*$";
    let text = format!(r"(?i)^\s*select\s{names}\swhere\s{names}=\s*{number}{end}");
    Regex::new(&text).expect("the tests use it")
});

/// Names that are values of the session, not columns.
const VALUES: [&str; 3] = ["current_", "local", "utc_"];

/// Stands for that number in a cached plan.
const OURS: i64 = 8_088_405_913_107_421_861;

/// Longest statement whose plan is cached, in bytes.
const TEXT_MAX: usize = 2_000;

/// Most plans cached.
const PLANS_MAX: usize = 32;

/// Lifetime of a cached plan, which depends on the number of rows in the tables.
const KEPT: Duration = Duration::from_secs(10);

/// A plan and the columns of its answer.
pub(super) type Plan = (Arc<dyn ExecutionPlan>, Arc<[SqlColumn]>);

/// Plans with [`OURS`] in place of the number at the end of their statements, by database and text;
/// `None` where the number has further effects. Raw tables always exist and never change their
/// columns.
pub(super) type Plans = Mutex<HashMap<(Option<String>, String), (Instant, Option<Plan>)>>;

/// Whether a plan starts from few rows.
fn begins_at_few(plan: &LogicalPlan) -> bool {
    let begins = plan.exists(|node| match node {
        LogicalPlan::TableScan(scan) => {
            let table = source_as_provider(&scan.source)?;
            Ok(brings_few(&*table, &scan.filters))
        }
        _ => Ok(false),
    });
    begins.unwrap_or(false)
}

/// Replaces the number at the end of a statement by [`OURS`]; returns both.
fn with_ours(text: &str, values: &[Literal]) -> Option<(String, i64)> {
    let is_value = |name: &&str| text.to_ascii_lowercase().contains(name);
    if text.len() > TEXT_MAX || VALUES.iter().any(is_value) {
        return None;
    }
    let written = ABOUT_ONE.captures(text)?.get(1)?;
    let number = match (written.as_str(), values) {
        ("?", [value]) => value.to_string().parse().ok()?,
        (digits, []) => digits.trim_matches('\'').parse().ok()?,
        _ => return None,
    };
    let (before, after) = (&text[..written.start()], &text[written.end()..]);
    Some((format!("{before}{OURS}{after}"), number))
}

impl Engine {
    /// Creates the physical plan.
    ///
    /// # Errors
    /// Errors of DataFusion.
    pub(super) async fn physical(
        &self,
        plan: &LogicalPlan,
    ) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
        let plan = self.0.state.optimize(plan)?;
        let state = match begins_at_few(&plan) {
            true => &self.0.single_threaded,
            false => &self.0.state,
        };
        let planner = state.query_planner();
        Ok(planner.create_physical_plan(&plan, state).await?)
    }

    /// Returns the cached plan of a statement like an earlier one, and a permit to run it.
    ///
    /// # Errors
    /// Fails if no permit becomes free; DataFusion's errors.
    pub(super) async fn kept(
        &self,
        session: &Session,
        text: &str,
        values: &[Literal],
    ) -> Result<Option<(OwnedSemaphorePermit, Plan)>, SqlError> {
        let Some((text, number)) = with_ours(text, values) else { return Ok(None) };
        let has_limit = session.variables.contains_key("sql_select_limit");
        if has_limit || Mode::of(session) != Mode::default() {
            return Ok(None);
        }
        let place = self.place().await?;
        let key = (session.database.clone(), text);
        let known = self.0.plans.lock().get(&key).cloned();
        let plan = match known.filter(|(made, _)| made.elapsed() < KEPT) {
            Some((_, plan)) => plan,
            None => {
                let made = self.plan_for_ours(session, &key.1).await;
                // Errors are reported for the original statement.
                let plan = made.unwrap_or_default();
                let mut plans = self.0.plans.lock();
                if plans.len() >= PLANS_MAX {
                    plans.clear();
                }
                plans.insert(key, (Instant::now(), plan.clone()));
                plan
            }
        };
        let Some((plan, columns)) = plan else { return Ok(None) };
        let (plan, _) = with_number(plan, OURS, number)?;
        // Drops the hints that joins gave the scans in an earlier run.
        let hints = PushDown(FilterPushdown::new_post_optimization());
        let plan = hints.optimize(plan, self.0.state.config_options())?;
        Ok(Some((place, (plan, columns))))
    }

    /// Makes a plan to cache, if it is valid for other numbers.
    async fn plan_for_ours(&self, session: &Session, text: &str) -> Result<Option<Plan>, SqlError> {
        let parsed = statement::parse(text, Mode::default())?;
        let Statement::Query(query) = parsed.statement else { return Ok(None) };
        let context = Context::new(session, &self.0.settings, Some(&[]));
        let query = self.plan(query, &parsed.items, context).await?;
        let plan = self.physical(&query.plan).await?;
        // Scans show the number of their conditions, other nodes their content.
        let elsewhere = displayable(&*plan).indent(true).to_string();
        let (_, is_good) = with_number(Arc::clone(&plan), OURS, 0)?;
        let is_good = is_good && !elsewhere.contains(&OURS.to_string());
        Ok(is_good.then_some((plan, query.columns)))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::util::pretty::pretty_format_batches;

    use super::*;
    use crate::cli::load::TrafficOptions;
    use crate::sql::reply::Reply;
    use crate::sql::settings::SqlSettings;
    use crate::sql::tests::pools::Pools;

    /// Whether the plan of a statement is cached.
    async fn is_kept(engine: &Engine, session: &Session, text: &str) -> bool {
        let plan = engine.kept(session, text, &[]).await;
        plan.expect(text).is_some()
    }

    /// Columns and rows of an answer.
    async fn answer(reply: Reply) -> (Arc<[SqlColumn]>, String) {
        let Reply::Rows(mut rows) = reply else {
            panic!("no rows");
        };
        let mut batches = Vec::new();
        while let Some(batch) = rows.next().await {
            batches.push(batch.expect("rows"));
        }
        let shown = pretty_format_batches(&batches).expect("shown").to_string();
        (Arc::clone(&rows.columns), shown)
    }

    #[tokio::test]
    async fn both_ways_bring_the_same() {
        let mut pools = Pools::new(500, 2_000);
        pools.fill(&TrafficOptions::default(), 700);
        let engine =
            Engine::new(Arc::clone(&pools.catalog), SqlSettings::default()).expect("threads");
        let mut session = Session::new(1, "test", false);
        // 1 was evicted, 9999 has not arrived yet.
        for id in ["1", "300", "700", "9999"] {
            for (select, table, key) in [
                ("*", "request", "id"),
                ("req_time, `id`, tags", "request", "id"),
                ("*", "timer", "id"),
                ("*", "timer", "request_id"),
                ("value", "timer", "request_id"),
                ("*", "timertag", "timer_id"),
                ("*", "request_tag", "request_id"),
            ] {
                for limit in ["", " LIMIT 1"] {
                    let short = format!("SELECT {select} FROM {table} WHERE {key} = {id}{limit}");
                    assert!(is_kept(&engine, &session, &short).await, "{short}");
                    // Anything more, and it is planned again.
                    let long =
                        format!("SELECT {select} FROM {table} WHERE {key} = {id} AND 1 = 1{limit}");
                    assert!(!is_kept(&engine, &session, &long).await, "{long}");
                    let short_answer =
                        answer(engine.run(&mut session, &short, &[]).await.expect("rows")).await;
                    let long_answer =
                        answer(engine.run(&mut session, &long, &[]).await.expect("rows")).await;
                    assert_eq!(short_answer, long_answer, "{short}");
                    // A parameter works the same way.
                    let asked = format!("SELECT {select} FROM {table} WHERE {key} = ?{limit}");
                    let prepared = engine.prepare(&session, &asked).await.expect("prepared");
                    assert_eq!((prepared.parameters, &prepared.columns), (1, &long_answer.0));
                    let number: i32 = id.parse().expect("a number");
                    for value in [
                        Literal::Int(number.into()),
                        Literal::Text(id.to_owned()),
                        Literal::Float(number.into()),
                    ] {
                        let given = engine.run(&mut session, &asked, &[value]).await.expect("rows");
                        assert_eq!(answer(given).await, long_answer, "{asked}");
                    }
                }
            }
        }
    }

    /// Joins for one request return the same rows with and without the cache.
    #[tokio::test]
    async fn joins_bring_the_same() {
        let mut pools = Pools::new(500, 5_000);
        let traffic = TrafficOptions { timers: 3, ..TrafficOptions::default() };
        pools.fill(&traffic, 700);
        let engine =
            Engine::new(Arc::clone(&pools.catalog), SqlSettings::default()).expect("threads");
        let mut session = Session::new(1, "test", false);
        let joined = "SELECT t.id, r.script_name, t.hit_count, t.value, tag.name AS tag_name, tt.value AS tag_value \
            FROM timer t JOIN request r ON t.request_id = r.id JOIN timertag tt ON tt.timer_id = t.id \
            JOIN tag ON tt.tag_id = tag.id WHERE t.request_id =";
        let left = "SELECT * FROM request r LEFT JOIN timer t ON t.request_id = r.id WHERE r.id =";
        let commas =
            "SELECT r.id, t.value FROM request r, timer t WHERE t.request_id = r.id AND r.id =";
        for joined in [joined, left, commas] {
            for id in [1, 300, 700, 299, 9_999] {
                let short = format!("{joined} {id}");
                assert!(is_kept(&engine, &session, &short).await, "{short}");
                let long = format!("{joined} {id} AND 1 = 1");
                let short_answer =
                    answer(engine.run(&mut session, &short, &[]).await.expect("rows")).await;
                let long_answer =
                    answer(engine.run(&mut session, &long, &[]).await.expect("rows")).await;
                assert_eq!(short_answer, long_answer, "{short}");
            }
        }
    }

    #[tokio::test]
    async fn only_what_is_the_same_for_other_numbers_is_kept() {
        let engine = Engine::new(Pools::new(5_000, 10).catalog, SqlSettings::default());
        let engine = engine.expect("threads");
        let mut session = Session::new(1, "test", false);
        for text in [
            "SELECT * FROM request WHERE id = '7'",
            "SELECT id, id AS i, hostname = tags FROM request WHERE id = 7 LIMIT 3",
            "select r.id, `tags` from pinba.request r where `hostname`=`server_name` and id=7 ;",
            "SELECT r.id FROM request r, timer WHERE r.id = 7",
            "SELECT DISTINCT status FROM request WHERE status = 200",
            "SELECT timer.* FROM request r LEFT JOIN timer ON timer.request_id = r.id WHERE NOT r.id = 7",
        ] {
            assert!(is_kept(&engine, &session, text).await, "{text}");
        }
        for text in [
            "SELECT id FROM request WHERE id = 7e0",
            "SELECT id FROM request WHERE id = -7",
            "/* 5 */ SELECT id FROM request WHERE id = 7",
            "SELECT table_name FROM information_schema.columns WHERE ordinal_position = 7",
            "SELECT count(*) FROM request WHERE id = 7",
            "SELECT now() FROM request WHERE id = 7",
            "SELECT utc_date FROM request WHERE id = 7",
            "SELECT 5 FROM request WHERE id = 7",
            "SELECT @x FROM request WHERE id = 7",
            "SELECT id FROM request WHERE id = 7 OR hostname = 'x'",
            "SELECT id FROM request WHERE hostname = 'x' OR id = 7",
            "SELECT id FROM request WHERE id > 2 AND id = 7",
            "SELECT id FROM request WHERE id = 7 LIMIT 1, 1",
            "SELECT id FROM request WHERE id >= 7",
            "SELECT id FROM request WHERE id = 3 = 7",
            "SELECT id FROM request WHERE hostname = '7'",
            "SELECT id FROM request WHERE req_time = 7",
            "SELECT id FROM request ORDER BY id = 7",
            "SELECT id FROM request WHERE id = (SELECT max(request_id) FROM timer WHERE id = 7)",
            "SELECT r.id FROM request r LEFT JOIN timer t ON t.request_id = 7",
            "SELECT req_count FROM report_by_script_name WHERE req_count = 7",
            "SELECT 1 = 7",
            "SELECT id FROM request",
        ] {
            assert!(!is_kept(&engine, &session, text).await, "{text}");
        }
        assert!(is_kept(&engine, &session, "SELECT id FROM request WHERE id = 7").await);
        for set in ["SET sql_mode = 'ANSI'", "SET sql_select_limit = 3"] {
            let mut session = session.clone();
            engine.run(&mut session, set, &[]).await.expect(set);
            let text = "SELECT id FROM request WHERE id = 7";
            assert!(!is_kept(&engine, &session, text).await, "{set}");
        }
        session.database = None;
        for wrong in [
            "SELECT * FROM request WHERE id = 7",
            "SELECT * FROM nowhere.request WHERE id = 7",
            "SELECT * FROM pinba.request WHERE nothing = 7",
            "SELECT nothing FROM pinba.request WHERE id = 7",
        ] {
            let answer = engine.run(&mut session, wrong, &[]).await;
            assert!(answer.is_err(), "{wrong}");
        }
        for values in [&[][..], &[Literal::Int(1), Literal::Int(2)]] {
            let asked = "SELECT * FROM pinba.request WHERE id = ?";
            let answer = engine.run(&mut session, asked, values).await;
            assert!(answer.is_err(), "{values:?}");
        }
    }
}
