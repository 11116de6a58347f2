//! Raw requests of the past: the newest or the slowest of a span that match a search, and one
//! request in full.
//!
//! Called on a front end's thread. A search keeps its results so far, and runs for at most
//! `SEARCH_MAX`; unread data is reported. Rows are those of the live table, with their run and
//! weight.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, BooleanArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::logical_expr::expr::Expr;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::{ident, lit};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use self::first::{First, Key, Order, name_of};
use super::Catalog;
use super::covered::{Covered, not_begun};
use crate::clock::rfc3339;
use crate::config::rewrite::TEXT_FIELDS;
use crate::grammar::FixedTable;
use crate::history::parquet::ReadAs;
use crate::history::read_unit::RowsSnapshot;
use crate::history::requests::{REQUEST, REQUEST_TAG, RequestsSnapshot, TIMER};
use crate::history::scan::condition::physical;
use crate::history::scan::{Scan, Wanted};
use crate::history::sql_columns::{Form, View, of_live};
use crate::history::{COVERAGE, Dataset};
use crate::pool::resolved::{Rusage, Timer};
use crate::query::answer::{RequestDetail, RequestPage, TimerDetail};
use crate::query::error::QueryError;
use crate::query::question::{NumberField, RequestName, RequestQuestion, RequestSearch};
use crate::query::requests::{TAGS_BYTES_MAX, TIMERS_BYTES_MAX, text_bytes, timers_bytes};
use crate::query::table::{Rows, Table};
use crate::value::text::numbered;
use crate::value::{Column, ColumnType, Unit, Value};

pub(super) mod first;

/// The names of columns of files.
pub(super) const RECEIVED: &str = "received";
pub(super) const RUN: &str = "run";
pub(super) const ID: &str = "id";
pub(super) const OF_REQUEST: &str = "request_id";
const TIME: &str = "req_time_us";
const WEIGHT: &str = "weight";
pub(super) const TAGS: &str = "tags";
pub(super) const TAGS_EXACT: &str = "tags_exact";

/// More than this from now, a request was received while the clock was ahead; logs that are
/// imported may be ahead too, by less.
const AHEAD_SECS: u64 = 600;

/// A request as shown.
type Shown = Vec<Value<'static>>;

impl Catalog {
    /// Raw requests, as far as they are kept.
    ///
    /// # Errors
    /// [`QueryError::NoHistory`].
    pub(in crate::query::catalog) fn past_requests(
        &self,
        span: &Range<u64>,
        question: &RequestQuestion,
    ) -> Result<RequestPage, QueryError> {
        let (at, mut partial) = self.kept_requests(span)?;
        let search = &question.search;
        let order = question.slowest.map_or(Order::Newest, |_| Order::Slowest);
        let columns = self.past_columns();
        let bytes = |row: &Shown| row.iter().map(text_bytes).sum();
        let mut first = First::of(order, search.limit, TAGS_BYTES_MAX, bytes);
        first.find(&at, (span, question), &mut partial, |batch, row| shown(batch, row, &columns));
        let (mut rows, mut is_full) = first.finish();
        let is_weighed = |(_, row): &(Key, Shown)| row.last() != Some(&Value::Float(1.0));
        if rows.iter().any(is_weighed) || is_sampled(&at, span) {
            partial.push(format!("{SAMPLED}; each row says how many it represents"));
        }
        let mut timers = Vec::new();
        if search.timers {
            let names = rows.iter().map(|(key, _)| key.name);
            timers = timers_of(&at, names, &mut partial);
            is_full |= timers.len() < rows.len();
            rows.truncate(timers.len());
        }
        let last = rows.last().map(|(key, _)| key.name);
        Ok(RequestPage {
            as_of_ms: self.clock.unix_ms(),
            table: self.past_table(rows.into_iter().map(|(_, row)| row).collect()),
            timers,
            next_before_id: None,
            next_before: last.filter(|_| is_full && order == Order::Newest),
            scanned: None,
            partial,
        })
    }

    /// The stored raw requests, and remarks on missing parts of a span.
    pub(super) fn kept_requests(
        &self,
        span: &Range<u64>,
    ) -> Result<(RequestsSnapshot, Vec<String>), QueryError> {
        let history = self.kept_history()?;
        let at = history.requests();
        let now = self.clock.unix_ms() / 1_000;
        let mut lacking: Vec<String> = not_begun(span, now).into_iter().collect();
        match (at.received(), &at.unflushed) {
            (None, None) => {
                let why = "no raw requests are kept: history.requests is \"none\", or pool.request_pool_size 0; \
                    those in memory are found without from and to";
                return Err(QueryError::NoHistory(why.to_owned()));
            }
            (None, Some(_)) => lacking.push("no requests are kept yet".to_owned()),
            (Some(kept), unflushed) => {
                if kept.start > span.start {
                    let kept = rfc3339(kept.start);
                    lacking.push(format!("no requests are kept from before {kept}"));
                }
                // Their seconds never run backwards.
                if kept.end > now + AHEAD_SECS {
                    let latest = rfc3339(kept.end - 1);
                    lacking.push(format!(
                        "the clock was ahead: requests received since then may stand at {latest}"
                    ));
                }
                if unflushed.is_none() {
                    let why = "requests are not kept any more (history.requests)";
                    lacking.push(why.to_owned());
                }
            }
        }
        let requests = Dataset::raw(REQUEST);
        let coverage = RowsSnapshot::of(history, &COVERAGE);
        let lost = Covered::read(&coverage, &requests, span).own;
        if lost.missed > 0 {
            lacking.push(numbered(
                lost.missed,
                "request had left the memory before it could be kept",
                "requests had left the memory before they could be kept",
            ));
        }
        if lost.rows_lost > 0 {
            lacking.push(numbered(
                lost.rows_lost,
                "request is lost: it could not be read",
                "requests are lost: they could not be read",
            ));
        }
        lacking.extend(history.lacks(&requests, span));
        lacking.extend(history.lost_at_stops(&requests, span));
        Ok((at, lacking))
    }

    /// One raw request of a run, from disk or memory: its row has `run` and `weight` too.
    ///
    /// # Errors
    /// Also [`QueryError::UnknownRequest`] if it is not kept.
    pub(in crate::query::catalog) fn past_request(
        &self,
        run: u64,
        id: u64,
    ) -> Result<RequestDetail, QueryError> {
        let at = self.kept_history()?.requests();
        let now = at.unflushed.as_ref();
        let is_now = now.is_some_and(|now| now.run == run && now.begin <= id);
        let in_pool = self.raw.as_ref().filter(|_| is_now).and_then(|pool| pool.request(id).ok());
        // Whether it was kept, and with which weight, is found quickly if the second is known.
        let received = in_pool.as_ref().and_then(|detail| {
            let timestamp = detail.row.column("timestamp")?;
            match detail.row.value(0, timestamp) {
                Value::Int(received) => Some(received.cast_unsigned()),
                _ => None,
            }
        });
        let second = received.map(|received| is(RECEIVED, received));
        let named = [is(RUN, run), is(ID, id)].into_iter().chain(second);
        let mut reader = reader(&at, REQUEST, None, named);
        let columns = self.past_columns();
        while let Some(batch) = reader.next().unwrap_or_else(|_| Some(reader.nothing())) {
            if batch.num_rows() == 0 {
                continue;
            }
            let name = name_of(&batch, 0);
            let mut lacking = Vec::new();
            let timers = timers_of(&at, [name], &mut lacking).pop();
            let mut tags = Vec::new();
            let read = of_request(&at, REQUEST_TAG, name, |batch, row| {
                let of_row = |name| text(batch, name, row).to_owned();
                tags.push((of_row("name"), of_row("value")));
            });
            lacking.extend(read.err().map(|error| error.to_string()));
            if let Some(why) = lacking.pop() {
                return Err(QueryError::NoHistory(why));
            }
            return Ok(RequestDetail {
                tags,
                timers: timers.unwrap_or_default(),
                activities: None,
                row: self.past_table(vec![shown(&batch, 0, &columns)]),
            });
        }
        let detail = in_pool.ok_or(QueryError::UnknownPastRequest { run, id })?;
        let row = detail.row;
        let columns = 0..row.columns().len();
        let mut shown: Shown = columns.map(|at| row.value(0, at).into_owned()).collect();
        shown.extend([Value::Int(run.cast_signed()), Value::Float(1.0)]);
        Ok(RequestDetail { row: self.past_table(vec![shown]), ..detail })
    }

    /// The columns of a row: their names in files, and conversions.
    fn past_columns(&self) -> Vec<(String, Form)> {
        let live = FixedTable::Request.columns(&self.defaults);
        let live = live.iter().filter_map(|column| of_live(REQUEST, &column.name));
        live.chain([RUN, "weight"].map(|name| (name.to_owned(), Form::Same))).collect()
    }

    fn past_table(&self, rows: Vec<Shown>) -> Box<dyn Table> {
        let mut columns = FixedTable::Request.columns(&self.defaults);
        columns.push(Column::new("run", ColumnType::BigInt, Unit::None));
        columns.push(Column::new("weight", ColumnType::Double, Unit::Count));
        Box::new(Rows { columns: columns.into(), rows })
    }
}

/// The remark on estimated numbers.
pub(super) const SAMPLED: &str = "of most requests only a sample is kept";

/// Requests of a span left out of a sample are in the weights of others of the same flush, which
/// may have come this much earlier or later.
const FLUSH_SECS_MAX: u64 = 3_600;
/// Rows of pieces looked at for weights. A busy daemon whose requests were all kept has fewer.
const WEIGHTS_MAX: u64 = 250_000;

/// Whether requests of a span may have been left out of a sample, whatever a search for them finds:
/// some request stands for others, or there are too many to be sure.
pub(super) fn is_sampled(at: &RequestsSnapshot, span: &Range<u64>) -> bool {
    if !at.unflushed.as_ref().is_some_and(|now| now.is_sample) {
        return false;
    }
    let since = clipped(span.start.saturating_sub(FLUSH_SECS_MAX));
    let until = clipped(span.end.saturating_add(FLUSH_SECS_MAX));
    let near = ident(RECEIVED).gt_eq(lit(since)).and(ident(RECEIVED).lt(lit(until)));
    let conditions = [near, ident(WEIGHT).gt(lit(1.0))];
    let mut reader = reader(at, REQUEST, Some(WEIGHT), conditions);
    loop {
        match reader.next() {
            Ok(None) => return false,
            Ok(Some(batch)) if batch.num_rows() == 0 && reader.looked_at <= WEIGHTS_MAX => {}
            Ok(Some(_)) | Err(_) => return true,
        }
    }
}

/// The conditions on a request.
fn conditions((span, question): (&Range<u64>, &RequestQuestion)) -> Vec<Expr> {
    let RequestSearch { since, until, min_time_us, max_time_us, texts, numbers, tags, .. } =
        &question.search;
    let at_least = |name, least: u64| ident(name).gt_eq(lit(clipped(least)));
    let at_most = |name, most: u64| ident(name).lt_eq(lit(clipped(most)));
    let mut all = vec![at_least(RECEIVED, span.start), ident(RECEIVED).lt(lit(clipped(span.end)))];
    all.extend(since.map(|since| at_least(RECEIVED, since)));
    all.extend(until.map(|until| at_most(RECEIVED, until)));
    all.extend(min_time_us.map(|min| at_least(TIME, min)));
    all.extend(max_time_us.map(|max| at_most(TIME, max)));
    all.extend(numbers.iter().map(|&(field, wanted)| {
        let name = match field {
            NumberField::Timestamp => RECEIVED,
            field => field.name(),
        };
        is(name, wanted)
    }));
    all.extend(texts.iter().map(|(field, wanted)| {
        let (name, _) = TEXT_FIELDS[*field as usize];
        let same = ident(name).eq(lit(ScalarValue::Utf8View(Some(wanted.clone()))));
        match wanted.is_empty() {
            true => same.or(ident(name).is_null()),
            false => same,
        }
    }));
    all.extend(tags.iter().map(|(name, value)| {
        let (name, value) = (name.clone(), value.clone());
        let has = move |tags: &str, exact: &str| {
            first_tag(tags, exact, &name).is_some_and(|found| found == value)
        };
        tested("has_tag", [TAGS, TAGS_EXACT], move |[tags, exact]| {
            let [tags, exact] = [tags, exact].map(|it| it.as_string_view());
            let both = tags.iter().zip(exact);
            both.map(|(tags, exact)| has(tags.unwrap_or_default(), exact.unwrap_or_default()))
                .collect()
        })
    }));
    all.extend(question.before.map(|before| {
        let below = |name, than: u64| ident(name).lt(lit(clipped(than)));
        let in_second = below(RUN, before.run).or(is(RUN, before.run).and(below(ID, before.id)));
        below(RECEIVED, before.received).or(is(RECEIVED, before.received).and(in_second))
    }));
    all
}

pub(super) fn clipped(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn is(name: &str, wanted: u64) -> Expr {
    // Files contain no negative numbers, so this matches nothing.
    ident(name).eq(lit(i64::try_from(wanted).unwrap_or(-1)))
}

/// The value of the first tag of a name: parsed from the text of tags, or from the exact form if
/// that is ambiguous.
pub(super) fn first_tag<'t>(tags: &'t str, exact: &str, name: &str) -> Option<Cow<'t, str>> {
    if !exact.is_empty() {
        let Pairs(pairs) = serde_json::from_str(exact).ok()?;
        let mut of_name = pairs.into_iter().filter(|(other, _)| other == name);
        return of_name.next().map(|(_, value)| Cow::Owned(value));
    }
    let mut pairs = tags.split(',').filter_map(|tag| tag.split_once('='));
    pairs.find(|(other, _)| *other == name).map(|(_, value)| Cow::Borrowed(value))
}

/// A function of columns of files, which is never NULL.
pub(super) fn computed<const N: usize>(
    what: &str,
    columns: [&str; N],
    returns: DataType,
    of: impl Fn([&ArrayRef; N]) -> ArrayRef + Send + Sync + 'static,
) -> Expr {
    let schema = View::stored(REQUEST).schema;
    let type_of = |name: &&str| {
        let field = schema.field_with_name(name);
        field.map_or(DataType::Int64, |field| field.data_type().clone())
    };
    let function = create_udf(
        what,
        columns.iter().map(type_of).collect(),
        returns,
        Volatility::Immutable,
        Arc::new(move |given: &[ColumnarValue]| {
            let arrays = ColumnarValue::values_to_arrays(given)?;
            let arrays = std::array::from_fn(|at| &arrays[at]);
            Ok(ColumnarValue::Array(of(arrays)))
        }),
    );
    function.call(columns.map(ident).to_vec())
}

/// A condition computed by a function of columns of files: a Boolean for each row.
pub(super) fn tested<const N: usize>(
    what: &str,
    columns: [&str; N],
    passes: impl Fn([&ArrayRef; N]) -> Vec<bool> + Send + Sync + 'static,
) -> Expr {
    computed(what, columns, DataType::Boolean, move |arrays| {
        Arc::new(BooleanArray::from(passes(arrays)))
    })
}

/// Reads the rows of a table that satisfy conditions on columns of files; of one column alone if it
/// is given.
pub(super) fn reader(
    at: &RequestsSnapshot,
    table: &'static str,
    only: Option<&str>,
    wanted: impl IntoIterator<Item = Expr>,
) -> Scan {
    let view = View::stored(table);
    let shown = (0..view.schema.fields().len())
        .filter(|column| only.is_none_or(|only| view.schema.field(*column).name() == only));
    let shown: Vec<usize> = shown.collect();
    let schema = view.schema.project(&shown).expect("these columns are there");
    let conditions = wanted.into_iter().map(|expr| physical(&expr, &view.schema));
    let conditions: Result<Vec<_>, DataFusionError> = conditions.collect();
    let conditions = conditions.expect("conditions are made of columns that there are");
    let wanted = Wanted {
        shown,
        schema: Arc::new(schema),
        view: Arc::new(view),
        conditions,
        read_as: ReadAs::default(),
    };
    Scan::new(at.sources(table), wanted)
}

/// The timers of requests one after the other, as far as there is room. Data in memory is searched
/// once.
fn timers_of(
    at: &RequestsSnapshot,
    names: impl IntoIterator<Item = RequestName> + Clone,
    lacking: &mut Vec<String>,
) -> Vec<Vec<TimerDetail>> {
    let disk = RequestsSnapshot { unflushed: None, ..at.clone() };
    let memory = RequestsSnapshot { parts: Vec::new(), ..at.clone() };
    let mut in_memory: HashMap<u64, Vec<TimerDetail>> = HashMap::new();
    if let Some(now) = &memory.unflushed {
        let of_run = names.clone().into_iter().filter(|name| name.run == now.run);
        let ids = of_run.map(|name| lit(clipped(name.id))).collect();
        let mut reader = reader(&memory, TIMER, None, [ident(OF_REQUEST).in_list(ids, false)]);
        let read = each_row(&mut reader, |batch, row| {
            let of = int(batch, OF_REQUEST, row).cast_unsigned();
            in_memory.entry(of).or_default().push(detail(batch, row));
        });
        lacking.extend(read.err().map(|error| error.to_string()));
    }
    let (mut timers, mut bytes) = (Vec::new(), 0);
    for name in names {
        if bytes >= TIMERS_BYTES_MAX {
            break;
        }
        let is_now = memory.unflushed.as_ref().is_some_and(|now| now.run == name.run);
        let known = in_memory.remove(&name.id).filter(|_| is_now);
        let mut of_request = known.unwrap_or_else(|| {
            let mut found = Vec::new();
            let read = of_request(&disk, TIMER, name, |batch, row| {
                found.push(detail(batch, row));
            });
            lacking.extend(read.err().map(|error| error.to_string()));
            found
        });
        of_request.sort_unstable_by_key(|timer| timer.id);
        bytes += timers_bytes(&of_request);
        timers.push(of_request);
    }
    timers
}

/// The timer of a row, with these tags.
pub(super) fn timer<T>(batch: &RecordBatch, row: usize, tags: T) -> Timer<T> {
    let number = |name| int(batch, name, row).cast_unsigned();
    let rusage = match known(batch, "start_us", row) {
        Some(start_us) => Rusage::Span(start_us.cast_unsigned()),
        None => Rusage::Times(["ru_utime_us", "ru_stime_us"].map(number)),
    };
    Timer {
        id: number(ID),
        hit_count: number("hit_count") as u32,
        value_us: number("value_us"),
        rusage,
        tags,
    }
}

/// A timer with its tags.
fn detail(batch: &RecordBatch, row: usize) -> TimerDetail {
    timer(batch, row, pairs(text(batch, TAGS, row)))
}

/// The tags of a timer.
pub(super) fn pairs(json: &str) -> Vec<(String, String)> {
    let pairs = serde_json::from_str(json);
    pairs.map(|Pairs(pairs)| pairs).unwrap_or_default()
}

/// Calls `each` for the rows of a table that belong to a request.
fn of_request(
    at: &RequestsSnapshot,
    table: &'static str,
    of: RequestName,
    each: impl FnMut(&RecordBatch, usize),
) -> io::Result<()> {
    let named = [is(RUN, of.run), is(OF_REQUEST, of.id), is(RECEIVED, of.received)];
    each_row(&mut reader(at, table, None, named), each)
}

fn each_row(reader: &mut Scan, mut each: impl FnMut(&RecordBatch, usize)) -> io::Result<()> {
    while let Some(batch) = reader.next()? {
        (0..batch.num_rows()).for_each(|row| each(&batch, row));
    }
    Ok(())
}

/// A row in the columns of the live table.
fn shown(batch: &RecordBatch, row: usize, columns: &[(String, Form)]) -> Shown {
    let number = |name| known(batch, name, row);
    let values = columns.iter().map(|(name, form)| match form {
        Form::Seconds => number(name).map_or(Value::Null, |us| Value::Micros(us.cast_unsigned())),
        Form::Kib => number(name).map_or(Value::Null, |bytes| Value::Float(bytes as f64 / 1024.0)),
        _ => batch.column_by_name(name).map_or(Value::Null, |array| value(array, row)),
    });
    values.collect()
}

fn value(array: &ArrayRef, row: usize) -> Value<'static> {
    match array.data_type() {
        _ if array.is_null(row) => Value::Null,
        DataType::Int64 => Value::Int(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => Value::Float(array.as_primitive::<Float64Type>().value(row)),
        _ => Value::Text(array.as_string_view().value(row).to_owned().into()),
    }
}

pub(super) fn int(batch: &RecordBatch, name: &str, row: usize) -> i64 {
    known(batch, name, row).unwrap_or_default()
}

/// A number that may be NULL or have no column.
fn known(batch: &RecordBatch, name: &str, row: usize) -> Option<i64> {
    let numbers = batch.column_by_name(name)?.as_primitive_opt::<Int64Type>()?;
    numbers.is_valid(row).then(|| numbers.value(row))
}

pub(super) fn text<'b>(batch: &'b RecordBatch, name: &str, row: usize) -> &'b str {
    let texts = batch.column_by_name(name);
    let texts = texts.and_then(|texts| texts.as_string_view_opt());
    // Where it is NULL, a file may leave any text.
    let texts = texts.filter(|texts| texts.is_valid(row));
    texts.map_or("", |texts| texts.value(row))
}

/// A JSON object in order: a name may occur twice.
struct Pairs(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Pairs;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        from.deserialize_map(All)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::StringViewArray;
    use datafusion::arrow::buffer::NullBuffer;

    use super::*;

    /// Where a file leaves a text behind a NULL, as Parquet's reader may.
    #[test]
    fn a_text_that_is_null_is_empty() {
        let (views, buffers, _) = StringViewArray::from(vec!["a", "b"]).into_parts();
        let known = NullBuffer::from(vec![true, false]);
        let texts: ArrayRef = Arc::new(StringViewArray::new(views, buffers, Some(known)));
        let batch = RecordBatch::try_from_iter([(TAGS_EXACT, texts)]).unwrap();
        assert_eq!((text(&batch, TAGS_EXACT, 0), text(&batch, TAGS_EXACT, 1)), ("a", ""));
        assert_eq!(text(&batch, "no_such_column", 0), "");
    }
}
