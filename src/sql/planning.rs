//! From the logical to the physical plan: for all threads, for one, or without the optimizer.
//!
//! A query that reads few rows spends its time in planning, so it is planned for one thread. The tables decide from their
//! conditions which it is. What pages about one request ask (`SELECT * FROM request WHERE id = 7`) is the scan of its table and
//! needs no optimizer.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::{
    Expr, FetchType, LogicalPlan, SkipType, TableProviderFilterPushDown,
};
use datafusion::physical_plan::ExecutionPlan;

use super::engine::Engine;
use super::error::SqlError;
use super::tables::{Extent, extent};

/// Whether a plan begins at a few rows, or has only small tables.
fn is_small(plan: &LogicalPlan) -> bool {
    let (mut few, mut large) = (false, false);
    let looked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(table) = source_as_provider(&scan.source)
        {
            match extent(&*table, &scan.filters) {
                Extent::Few => few = true,
                Extent::Small => {}
                Extent::Large => large = true,
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    looked.is_ok() && (few || !large)
}

/// The scan that a plan is: columns of one table, each once, for the few rows of a condition that the table tests itself.
async fn point_scan(
    state: &SessionState,
    plan: &LogicalPlan,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let (rows, plan) = match plan {
        LogicalPlan::Limit(limit) => match (limit.get_skip_type()?, limit.get_fetch_type()?) {
            (SkipType::Literal(0), FetchType::Literal(rows)) => (rows, &*limit.input),
            _ => return Ok(None),
        },
        other => (None, other),
    };
    let LogicalPlan::Projection(shown) = plan else {
        return Ok(None);
    };
    let LogicalPlan::Filter(filter) = &*shown.input else {
        return Ok(None);
    };
    let LogicalPlan::SubqueryAlias(named) = &*filter.input else {
        return Ok(None);
    };
    let LogicalPlan::TableScan(scan) = &*named.input else {
        return Ok(None);
    };
    let mut columns = Vec::with_capacity(shown.expr.len());
    for expr in &shown.expr {
        match expr {
            Expr::Column(column) => columns.push(scan.source.schema().index_of(column.name())?),
            _ => return Ok(None),
        }
    }
    let table = source_as_provider(&scan.source)?;
    let condition = [unnormalize_col(filter.predicate.clone())];
    let tested = table.supports_filters_pushdown(&[&condition[0]])?;
    if tested != [TableProviderFilterPushDown::Exact] || extent(&*table, &condition) != Extent::Few
    {
        return Ok(None);
    }
    let scan = table.scan(state, Some(&columns), &condition, rows);
    Ok(Some(scan.await?))
}

impl Engine {
    /// The plan that runs.
    ///
    /// # Errors
    /// What DataFusion cannot do.
    pub(super) async fn physical(
        &self,
        plan: &LogicalPlan,
    ) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
        if let Some(scan) = point_scan(&self.0.single_threaded, plan).await? {
            return Ok(scan);
        }
        let plan = self.0.state.optimize(plan)?;
        let state = match is_small(&plan) {
            true => &self.0.single_threaded,
            false => &self.0.state,
        };
        let planner = state.query_planner();
        Ok(planner.create_physical_plan(&plan, state).await?)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::util::pretty::pretty_format_batches;

    use super::*;
    use crate::cli::load::TrafficOptions;
    use crate::sql::dialect::context::Context;
    use crate::sql::dialect::lex::Mode;
    use crate::sql::reply::{Reply, SqlColumn};
    use crate::sql::session::{Literal, Session};
    use crate::sql::settings::SqlSettings;
    use crate::sql::statement::{self, Statement};
    use crate::sql::tests::pools::Pools;

    /// Whether a query is planned as a scan and nothing else.
    async fn is_scan(engine: &Engine, session: &Session, text: &str) -> bool {
        let parsed = statement::parse(text, Mode::default()).expect(text);
        let Statement::Query(query) = parsed.statement else {
            panic!("{text}");
        };
        let context = Context::new(session, &engine.0.settings, Some(&[]));
        let query = engine
            .plan(query, &parsed.items, context)
            .await
            .expect(text);
        let scan = point_scan(&engine.0.single_threaded, &query.plan).await;
        scan.expect(text).is_some()
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
        // 1 has left, 9999 is still to come.
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
                    assert!(is_scan(&engine, &session, &short).await, "{short}");
                    // Something more, and it is planned.
                    let long =
                        format!("SELECT {select} FROM {table} WHERE {key} = {id} AND 1 = 1{limit}");
                    assert!(!is_scan(&engine, &session, &long).await, "{long}");
                    let short_answer =
                        answer(engine.run(&mut session, &short, &[]).await.expect("rows")).await;
                    let long_answer =
                        answer(engine.run(&mut session, &long, &[]).await.expect("rows")).await;
                    assert_eq!(short_answer, long_answer, "{short}");
                    // And so does a value.
                    let asked = format!("SELECT {select} FROM {table} WHERE {key} = ?{limit}");
                    let prepared = engine.prepare(&session, &asked).await.expect("prepared");
                    assert_eq!(
                        (prepared.parameters, &prepared.columns),
                        (1, &long_answer.0)
                    );
                    let number: i32 = id.parse().expect("a number");
                    for value in [
                        Literal::Int(number.into()),
                        Literal::Text(id.to_owned()),
                        Literal::Float(number.into()),
                    ] {
                        let given = engine
                            .run(&mut session, &asked, &[value])
                            .await
                            .expect("rows");
                        assert_eq!(answer(given).await, long_answer, "{asked}");
                    }
                }
            }
        }
    }

    #[tokio::test]
    async fn only_plain_columns_of_few_rows_are_a_scan() {
        let engine = Engine::new(Pools::new(5_000, 10).catalog, SqlSettings::default());
        let engine = engine.expect("threads");
        let mut session = Session::new(1, "test", false);
        for text in [
            "SELECT * FROM request WHERE id = '7'",
            "SELECT id FROM request WHERE id = 7e0",
            "/* page */ select r.id, `tags` from pinba.request r where ( (`id`=7) );",
        ] {
            assert!(is_scan(&engine, &session, text).await, "{text}");
        }
        for text in [
            "SELECT id, id FROM request WHERE id = 7",
            "SELECT id AS i FROM request WHERE id = 7",
            "SELECT DISTINCT id FROM request WHERE id = 7",
            "SELECT count(*) FROM request WHERE id = 7",
            "SELECT r.id FROM request r, timer WHERE r.id = 7",
            "SELECT id FROM request WHERE id = 7 OR hostname = 'x'",
            "SELECT id FROM request WHERE id = 7 LIMIT 1, 1",
            "SELECT id FROM request WHERE id > 7",
            "SELECT id FROM request WHERE hostname = 'x'",
            "SELECT id FROM request",
        ] {
            assert!(!is_scan(&engine, &session, text).await, "{text}");
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
