//! Rows of raw data by their id, without planning: `SELECT * FROM request WHERE id = 7`.
//!
//! That is what a page about one request asks, and the rows are found in microseconds, while planning takes a millisecond
//! for any statement. One of exactly this form (a raw table; all of its columns or some, by their own names; one id; LIMIT,
//! if at all, with a number) goes to the table's scan at once. Whatever else is in it, if only a name in other case, and
//! it takes the usual way. The answer is the same either way, to which a test holds it. Called with every statement, on the
//! front ends' threads; reads nothing but the text.

use std::iter::Peekable;
use std::slice;
use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::logical_expr::TableProviderFilterPushDown;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{ident, lit};

use super::dialect::lex::{Kind, Token, tokens};
use super::engine::Engine;
use super::error::SqlError;
use super::execute::mode;
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
struct Asked<'a> {
    /// None: all of them.
    columns: Vec<&'a str>,
    database: Option<&'a str>,
    table: &'a str,
    key: &'a str,
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
        if text.len() > TEXT_MAX {
            return Ok(None);
        }
        let Some(asked) = Asked::read(&tokens(text, mode(session).ansi_quotes), text) else {
            return Ok(None);
        };
        let id = match (asked.id, values) {
            (Some(id), None | Some([])) => id,
            (None, None) => 0,
            (None, Some([value])) => match whole(value) {
                Some(id) => id,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let database = asked.database.or(session.database.as_deref());
        if database != Some(DATABASE) || !tables::raw_names().contains(&asked.table) {
            return Ok(None);
        }
        let all = PinbaTables::new(Arc::clone(self.catalog()), self.settings().clone());
        let Some(table) = all.table(asked.table).await? else {
            return Ok(None);
        };
        let schema = table.schema();
        let mut chosen = Vec::with_capacity(schema.fields().len());
        for name in &asked.columns {
            match schema.index_of(name) {
                Ok(at) if !chosen.contains(&at) => chosen.push(at),
                _ => return Ok(None),
            }
        }
        if chosen.is_empty() {
            chosen.extend(0..schema.fields().len());
        }
        let condition = ident(asked.key).eq(lit(id));
        let tested = table.supports_filters_pushdown(&[&condition])?;
        let conditions = [condition];
        if tested != [TableProviderFilterPushDown::Exact]
            || tables::extent(&*table, &conditions) != Extent::Few
        {
            return Ok(None);
        }
        let fields = chosen.iter().map(|at| &schema.fields()[*at]);
        let columns = fields.map(|field| tables::column_of(Some(asked.table), field));
        let columns = columns.collect();
        let plan = table.scan(self.narrow(), Some(&chosen), &conditions, asked.limit);
        Ok(Some(Lookup {
            plan: plan.await?,
            columns,
            parameters: usize::from(asked.id.is_none()),
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

/// The words of a statement, in turn.
struct Words<'a, 't> {
    text: &'a str,
    tokens: Peekable<slice::Iter<'t, Token>>,
}

impl<'a> Words<'a, '_> {
    /// The next token and what it says.
    fn next(&mut self) -> Option<(Kind, &'a str)> {
        let token = self.tokens.next()?;
        Some((token.kind, &self.text[token.start..token.end]))
    }

    /// Whether the next is this keyword, which is then taken.
    fn has_word(&mut self, word: &str) -> bool {
        let text = self.text;
        let is = |token: &&Token| {
            token.kind == Kind::Word && text[token.start..token.end].eq_ignore_ascii_case(word)
        };
        self.tokens.next_if(is).is_some()
    }

    /// Whether the next is this sign, which is then taken.
    fn has_sign(&mut self, sign: &str) -> bool {
        let text = self.text;
        let is = |token: &&Token| token.kind == Kind::Sign && &text[token.start..token.end] == sign;
        self.tokens.next_if(is).is_some()
    }

    fn name(&mut self) -> Option<&'a str> {
        let (kind, text) = self.next()?;
        match kind {
            Kind::Word => Some(text),
            Kind::Quoted => {
                let name = text.strip_prefix('`')?.strip_suffix('`')?;
                (!name.contains('`')).then_some(name)
            }
            _ => None,
        }
    }
}

impl<'a> Asked<'a> {
    fn read(tokens: &[Token], text: &'a str) -> Option<Self> {
        let mut words = Words {
            text,
            tokens: tokens.iter().peekable(),
        };
        if !words.has_word("select") {
            return None;
        }
        let mut columns = Vec::new();
        if words.has_sign("*") {
            if !words.has_word("from") {
                return None;
            }
        } else {
            loop {
                columns.push(words.name()?);
                if words.has_word("from") {
                    break;
                }
                if !words.has_sign(",") {
                    return None;
                }
            }
        }
        let (mut database, mut table) = (None, words.name()?);
        if words.has_sign(".") {
            database = Some(table);
            table = words.name()?;
        }
        if !words.has_word("where") {
            return None;
        }
        let mut open = 0;
        while words.has_sign("(") {
            open += 1;
        }
        let key = words.name()?;
        if !words.has_sign("=") {
            return None;
        }
        let id = match words.next()? {
            (Kind::Number, number) => Some(digits(number)?),
            (Kind::Text, quoted) => {
                let inside = quoted.get(1..quoted.len().checked_sub(1)?)?;
                Some(digits(inside)?)
            }
            (Kind::Parameter, _) => None,
            _ => return None,
        };
        for _ in 0..open {
            if !words.has_sign(")") {
                return None;
            }
        }
        let mut limit = None;
        if words.has_word("limit") {
            let (Kind::Number, number) = words.next()? else {
                return None;
            };
            limit = Some(number.parse().ok().filter(|rows| *rows > 0)?);
        }
        let _last = words.has_sign(";");
        words.next().is_none().then_some(Self {
            columns,
            database,
            table,
            key,
            id,
            limit,
        })
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::util::pretty::pretty_format_batches;

    use super::*;
    use crate::load::TrafficOptions;
    use crate::sql::reply::Reply;
    use crate::sql::settings::SqlSettings;
    use crate::sql::tests::pools::Pools;

    fn asked(text: &str) -> Option<Asked<'_>> {
        Asked::read(&tokens(text, false), text)
    }

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
            let asked = asked(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(
                (asked.columns.len(), asked.id, asked.limit),
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
            assert_eq!(asked(text), None, "{text}");
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
