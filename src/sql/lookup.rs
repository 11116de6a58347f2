//! Point queries without planning: `SELECT * FROM request WHERE id = 7`.
//!
//! Pages about one request ask this. The rows are found in microseconds, while planning takes a millisecond, so a statement of
//! exactly this form (a raw table, columns by name or all, one id, perhaps LIMIT) goes straight to the table's scan.
//! Anything else is planned; a test holds both ways to the same answer. Called for every short statement, on the front ends' threads.

use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::logical_expr::TableProviderFilterPushDown;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{ident, lit};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, SelectItem, SetExpr, Statement, TableFactor, Value,
};
use datafusion::sql::sqlparser::dialect::MySqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::engine::Engine;
use super::error::SqlError;
use super::reply::SqlColumn;
use super::session::{Literal, Session};
use super::tables::{self, Extent, PinbaTables};

/// Longer texts have another form: all columns of `request`, each in backticks, are 250 bytes.
const TEXT_MAX: usize = 512;
/// Digits of an id that no conversion changes.
const DIGITS_MAX: usize = 15;
/// The database of raw tables.
const DATABASE: &str = "pinba";

/// A statement of this form, ready to run.
pub(super) struct Lookup {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    pub(super) columns: Arc<[SqlColumn]>,
    /// How many `?` it has: none, or one.
    pub(super) parameters: usize,
}

/// What such a statement says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PointQuery {
    /// None: all of them.
    columns: Vec<String>,
    database: Option<String>,
    table: String,
    key: String,
    /// `None` is `?`.
    id: Option<i64>,
    limit: Option<usize>,
}

impl Engine {
    /// The statement as one of this form, with the value for its `?`, or to be prepared when there are no values; `None` when
    /// it is another one.
    ///
    /// # Errors
    /// What DataFusion says of the scan.
    pub(super) async fn look_up(
        &self,
        session: &Session,
        text: &str,
        values: Option<&[Literal]>,
    ) -> Result<Option<Lookup>, SqlError> {
        if text.len() > TEXT_MAX || session.variables.contains_key("sql_select_limit") {
            return Ok(None);
        }
        let Some(query) = PointQuery::read(text) else {
            return Ok(None);
        };
        let id = match (query.id, values) {
            (Some(id), None | Some([])) => id,
            (None, None) => 0,
            (None, Some([value])) => match whole(value) {
                Some(id) => id,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let database = query.database.as_deref().or(session.database.as_deref());
        if database != Some(DATABASE) || !tables::raw_names().contains(&query.table.as_str()) {
            return Ok(None);
        }
        let all = PinbaTables::new(Arc::clone(self.catalog()), self.settings().clone());
        let Some(table) = all.table(&query.table).await? else {
            return Ok(None);
        };
        let schema = table.schema();
        let mut chosen = Vec::with_capacity(schema.fields().len());
        for name in &query.columns {
            match schema.index_of(name) {
                Ok(at) if !chosen.contains(&at) => chosen.push(at),
                _ => return Ok(None),
            }
        }
        if chosen.is_empty() {
            chosen.extend(0..schema.fields().len());
        }
        let condition = ident(&query.key).eq(lit(id));
        let tested = table.supports_filters_pushdown(&[&condition])?;
        let conditions = [condition];
        if tested != [TableProviderFilterPushDown::Exact]
            || tables::extent(&*table, &conditions) != Extent::Few
        {
            return Ok(None);
        }
        let fields = chosen.iter().map(|at| &schema.fields()[*at]);
        let columns = fields.map(|field| tables::column_of(Some(&query.table), field));
        let columns = columns.collect();
        let plan = table.scan(
            self.single_threaded(),
            Some(&chosen),
            &conditions,
            query.limit,
        );
        Ok(Some(Lookup {
            plan: plan.await?,
            columns,
            parameters: usize::from(query.id.is_none()),
        }))
    }
}

/// The id that a value is, if nothing has to be converted but its form.
fn whole(value: &Literal) -> Option<i64> {
    match value {
        Literal::Int(id) => Some(*id),
        Literal::Text(text) => digits(text),
        // No fraction, and fewer digits than either type holds.
        Literal::Float(id) if id.fract() == 0.0 && id.abs() < 1e15 => Some(*id as i64),
        Literal::Null | Literal::UInt(_) | Literal::Float(_) => None,
    }
}

fn digits(text: &str) -> Option<i64> {
    let plain = text.len() <= DIGITS_MAX && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

impl PointQuery {
    fn read(text: &str) -> Option<Self> {
        let statements = Parser::parse_sql(&MySqlDialect {}, text).ok()?;
        let [Statement::Query(query)] = statements.as_slice() else {
            return None;
        };
        let SetExpr::Select(select) = &*query.body else {
            return None;
        };
        let name = |ident: &Ident| {
            let plain = matches!(ident.quote_style, None | Some('`')) && !ident.value.contains('`');
            plain.then(|| ident.value.clone())
        };
        let columns = match select.projection.as_slice() {
            [SelectItem::Wildcard(_)] => Vec::new(),
            items => {
                let columns = items.iter().map(|item| match item {
                    SelectItem::UnnamedExpr(Expr::Identifier(column)) => name(column),
                    _ => None,
                });
                columns.collect::<Option<_>>()?
            }
        };
        let [from] = select.from.as_slice() else {
            return None;
        };
        let TableFactor::Table { name: written, .. } = &from.relation else {
            return None;
        };
        let parts = written.0.iter().map(|part| name(part.as_ident()?));
        let (database, table) = match <[String; 1]>::try_from(parts.collect::<Option<Vec<_>>>()?) {
            Ok([table]) => (None, table),
            Err(parts) => {
                let [database, table] = <[String; 2]>::try_from(parts).ok()?;
                (Some(database), table)
            }
        };
        let mut condition = select.selection.as_ref()?;
        while let Expr::Nested(inner) = condition {
            condition = inner;
        }
        let Expr::BinaryOp {
            left,
            op: BinaryOperator::Eq,
            right,
        } = condition
        else {
            return None;
        };
        let (Expr::Identifier(key), Expr::Value(value)) = (&**left, &**right) else {
            return None;
        };
        let id = match &value.value {
            Value::Number(number, false) | Value::SingleQuotedString(number) => {
                Some(digits(number)?)
            }
            Value::Placeholder(_) => None,
            _ => return None,
        };
        let limit = query.limit_clause.as_ref().map(ToString::to_string);
        let limit = limit.unwrap_or_default();
        // Whatever else is in it would be written out, too.
        let items: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
        let condition = select.selection.as_ref()?;
        let plain = format!(
            "SELECT {} FROM {written} WHERE {condition}{limit}",
            items.join(", ")
        );
        let limit = match limit.trim().strip_prefix("LIMIT ") {
            None => None,
            Some(rows) => Some(rows.parse().ok().filter(|rows| *rows > 0)?),
        };
        (plain == query.to_string()).then_some(Self {
            columns,
            database,
            table,
            key: name(key)?,
            id,
            limit,
        })
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

    #[test]
    fn statements_of_the_form_are_known() {
        for (text, columns, id, limit) in [
            ("SELECT * FROM request WHERE id = 7", 0, Some(7), None),
            (
                "select id, `tags` from pinba.request where ( (`id`=7) );",
                2,
                Some(7),
                None,
            ),
            (
                "SELECT id FROM `timer` WHERE request_id = ? LIMIT 10 ",
                1,
                None,
                Some(10),
            ),
            (
                "/* page */ SELECT * FROM request WHERE id = '7'",
                0,
                Some(7),
                None,
            ),
        ] {
            let query = PointQuery::read(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(
                (query.columns.len(), query.id, query.limit),
                (columns, id, limit),
                "{text}"
            );
        }
    }

    #[test]
    fn others_are_not() {
        for text in [
            "",
            "SELECT 1",
            "SELECT *, id FROM request WHERE id = 7",
            "SELECT id AS i FROM request WHERE id = 7",
            "SELECT count(*) FROM request WHERE id = 7",
            "SELECT id FROM request r WHERE id = 7",
            "SELECT id FROM request, timer WHERE id = 7",
            "SELECT id FROM request WHERE id = 7 OR 1",
            "SELECT id FROM request WHERE id = 7 + 1",
            "SELECT id FROM request WHERE id = 7.0",
            "SELECT id FROM request WHERE id = -7",
            "SELECT id FROM request WHERE id = '7 '",
            "SELECT id FROM request WHERE id = 1234567890123456",
            "SELECT id FROM request WHERE (id = 7",
            "SELECT id FROM request WHERE id = 7)",
            "SELECT id FROM request WHERE id IN (7)",
            "SELECT id FROM request WHERE id = 7 LIMIT 0",
            "SELECT id FROM request WHERE id = 7 LIMIT 1, 1",
            "SELECT id FROM request WHERE id = 7 LIMIT ?",
            "SELECT id FROM request WHERE id = 7 FOR UPDATE",
            "SELECT id FROM request WHERE id = '",
            "SELECT DISTINCT id FROM request WHERE id = 7",
        ] {
            assert_eq!(PointQuery::read(text), None, "{text}");
        }
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
                    let found = engine.look_up(&session, &short, Some(&[])).await;
                    assert!(found.expect("a scan").is_some(), "{short}");
                    // Something more, and it is planned.
                    let long =
                        format!("SELECT {select} FROM {table} WHERE {key} = {id} AND 1 = 1{limit}");
                    let found = engine.look_up(&session, &long, Some(&[])).await;
                    assert!(found.expect("nothing").is_none(), "{long}");
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
        // Whose rows are limited, looks at the usual way.
        for limit in ["1", "DEFAULT"] {
            let set = format!("SET sql_select_limit = {limit}");
            engine.run(&mut session, &set, &[]).await.expect("set");
            let text = "SELECT * FROM timer WHERE request_id = 700";
            let found = engine.look_up(&session, text, Some(&[])).await;
            assert_eq!(found.expect("a scan").is_some(), limit == "DEFAULT");
        }
        // What is wrong is said as ever.
        session.database = None;
        for wrong in [
            "SELECT * FROM request WHERE id = 7",
            "SELECT * FROM nowhere.request WHERE id = 7",
            "SELECT * FROM pinba.request WHERE nothing = 7",
            "SELECT nothing FROM pinba.request WHERE id = 7",
        ] {
            assert!(
                engine.run(&mut session, wrong, &[]).await.is_err(),
                "{wrong}"
            );
        }
        for values in [&[][..], &[Literal::Int(1), Literal::Int(2)]] {
            let asked = "SELECT * FROM pinba.request WHERE id = ?";
            assert!(
                engine.run(&mut session, asked, values).await.is_err(),
                "{values:?}"
            );
        }
    }
}
