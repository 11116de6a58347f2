//! Raw requests of the past: the newest or the slowest of a span that match a search, and one request in full.
//!
//! Called on a front end's thread. A search has what it found so far, and looks for [`SEARCH_MAX`] at most; what it did not
//! come to is said. Rows are those that the live table would show, with their run and their weight.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, BooleanArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{DFSchema, DataFusionError, ScalarValue};
use datafusion::logical_expr::expr::Expr;
use datafusion::logical_expr::{ColumnarValue, Operator, Volatility, create_udf};
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column as Place, DynamicFilterPhysicalExpr, lit as number,
};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::prelude::{ident, lit};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use super::Catalog;
use super::past::rfc3339;
use crate::history::requests::read::{Reader, RequestsAt, Wanted};
use crate::history::requests::view::{Form, View, of_live};
use crate::history::requests::{REQUEST, REQUEST_TAG, TIMER};
use crate::query::error::QueryError;
use crate::query::past::{PastRequestPage, PastRequests, RequestName};
use crate::query::raw::{TAGS_BYTES_MAX, TIMERS_BYTES_MAX, timers_bytes};
use crate::query::read_model::{
    NumberField, RequestDetail, RequestPage, RequestSearch, TextField, TimerDetail,
};
use crate::query::table::{Rows, Table};
use crate::report::comment::FixedTable;
use crate::value::{Column, ColumnType, Value};

/// How long a search may look.
const SEARCH_MAX: Duration = Duration::from_secs(10);

/// The names of columns of files.
const RECEIVED: &str = "received";
const RUN: &str = "run";
const ID: &str = "id";
const OF_REQUEST: &str = "request_id";
const TIME: &str = "req_time_us";
const TAGS: &str = "tags";

/// A request as it is shown.
type Shown = Vec<Value<'static>>;

impl Catalog {
    /// The requests of a span that match.
    pub(super) fn past_requests_of(
        &self,
        question: &PastRequests,
    ) -> Result<PastRequestPage, QueryError> {
        let at = self.kept_history()?.requests();
        let PastRequests { span, search, .. } = question;
        let first = if question.slowest { TIME } else { RECEIVED };
        let floor = Floor::new(first);
        let mut reader = reader(&at, REQUEST, conditions(question));
        reader.narrow(Arc::clone(&floor.condition) as _);
        let mut top = Top {
            limit: search.limit,
            floor,
            rows: Vec::new(),
        };
        let mut partial = remarks(&at, span);
        let until = Instant::now() + SEARCH_MAX;
        let is_slowest = question.slowest;
        let columns = self.past_columns();
        loop {
            if Instant::now() > until
                && let Some(reached) = reader.reached()
            {
                let secs = SEARCH_MAX.as_secs();
                let reached = rfc3339(reached);
                partial.push(format!("not all was looked at within {secs} s: nothing from before {reached} is certain"));
                break;
            }
            match reader.next() {
                Ok(None) => break,
                Ok(Some(batch)) => top.take(&batch, is_slowest, &columns),
                Err(error) => partial.push(error.to_string()),
            }
        }
        let limit = top.limit;
        let mut rows = top.finish();
        let is_weighed = |(_, row): &(Key, Shown)| row.last() != Some(&Value::Float(1.0));
        let is_sample = at.unpublished.as_ref().is_some_and(|it| it.is_sample);
        if is_sample || rows.iter().any(is_weighed) {
            partial.push(
                "of most requests a sample is kept: a row stands for as many as its weight says"
                    .to_owned(),
            );
        }
        let mut is_full = rows.len() == limit;
        let mut timers = Vec::new();
        if search.timers {
            let names = rows.iter().map(|(key, _)| key.name(is_slowest));
            timers = timers_of(&at, names, &mut partial);
            is_full |= timers.len() < rows.len();
            rows.truncate(timers.len());
        }
        let last = rows.last().map(|(key, _)| key.name(is_slowest));
        Ok(PastRequestPage {
            page: RequestPage {
                as_of_ms: self.clock.unix_ms(),
                table: self.past_table(rows.into_iter().map(|(_, row)| row).collect()),
                timers,
                next_before_id: None,
            },
            next_before: last.filter(|_| is_full && !is_slowest),
            partial,
        })
    }

    /// One request of a run.
    pub(super) fn past_request_of(&self, run: u64, id: u64) -> Result<RequestDetail, QueryError> {
        let at = self.kept_history()?.requests();
        let now = at.unpublished.as_ref();
        let is_now = now.is_some_and(|now| now.run() == run && now.begin <= id);
        let in_pool = self.raw.as_ref().filter(|_| is_now);
        let in_pool = in_pool.and_then(|pool| pool.request(id).ok());
        // Whether it was kept, and with which weight, is found out soon where the second is known.
        let received = in_pool.as_ref().and_then(|detail| {
            let timestamp = detail.row.column("timestamp")?;
            match detail.row.value(0, timestamp) {
                Value::Int(received) => Some(received.cast_unsigned()),
                _ => None,
            }
        });
        let second = received.map(|received| is(RECEIVED, received));
        let named = [is(RUN, run), is(ID, id)].into_iter().chain(second);
        let mut reader = reader(&at, REQUEST, named);
        let columns = self.past_columns();
        while let Some(batch) = reader.next().unwrap_or_else(|_| Some(reader.nothing())) {
            if batch.num_rows() == 0 {
                continue;
            }
            let key = Key::of(&batch, 0, false);
            let name = key.name(false);
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
        Ok(RequestDetail {
            row: self.past_table(vec![shown]),
            ..detail
        })
    }

    /// The columns of a row: where they lie in files, and what is made of them.
    fn past_columns(&self) -> Vec<(&'static str, Form)> {
        let live = FixedTable::Request.columns(&self.defaults);
        let live = live
            .iter()
            .filter_map(|column| of_live(REQUEST, &column.name));
        live.chain([(RUN, Form::Same), ("weight", Form::Same)])
            .collect()
    }

    fn past_table(&self, rows: Vec<Shown>) -> Box<dyn Table> {
        let mut columns = FixedTable::Request.columns(&self.defaults);
        let further = [("run", ColumnType::BigInt), ("weight", ColumnType::Double)];
        columns.extend(further.map(|(name, column_type)| Column {
            name: name.to_owned(),
            column_type,
        }));
        Box::new(Rows {
            columns: columns.into(),
            rows,
        })
    }
}

/// What is lacking.
fn remarks(at: &RequestsAt, span: &Range<u64>) -> Vec<String> {
    let mut remarks = Vec::new();
    match at.kept_from() {
        None => remarks.push("no requests are kept yet".to_owned()),
        Some(kept) if kept > span.start => {
            remarks.push(format!(
                "no requests are kept from before {}",
                rfc3339(kept)
            ));
        }
        Some(_) => {}
    }
    match &at.unpublished {
        None => remarks.push("requests are not kept any more (history.requests)".to_owned()),
        Some(now) if now.missed > 0 => {
            remarks.push(format!(
                "{} requests had left the memory before they could be kept",
                now.missed
            ));
        }
        Some(_) => {}
    }
    remarks
}

/// What a request must be like.
fn conditions(question: &PastRequests) -> Vec<Expr> {
    let PastRequests { span, search, .. } = question;
    let RequestSearch {
        since,
        until,
        min_time_us,
        max_time_us,
        texts,
        numbers,
        tags,
        ..
    } = search;
    let at_least = |name, least: u64| ident(name).gt_eq(lit(clipped(least)));
    let at_most = |name, most: u64| ident(name).lt_eq(lit(clipped(most)));
    let mut all = vec![
        at_least(RECEIVED, span.start),
        ident(RECEIVED).lt(lit(clipped(span.end))),
    ];
    all.extend(since.map(|since| at_least(RECEIVED, since)));
    all.extend(until.map(|until| at_most(RECEIVED, until)));
    all.extend(min_time_us.map(|min| at_least(TIME, min)));
    all.extend(max_time_us.map(|max| at_most(TIME, max)));
    all.extend(numbers.iter().map(|&(field, wanted)| {
        let name = match field {
            NumberField::ReqCount => "req_count",
            NumberField::TimersCnt => "timers_cnt",
            NumberField::Status => "status",
            NumberField::TagsCnt => "tags_cnt",
            NumberField::Timestamp => RECEIVED,
        };
        is(name, wanted)
    }));
    all.extend(texts.iter().map(|(field, wanted)| {
        let name = match field {
            TextField::Hostname => "hostname",
            TextField::ServerName => "server_name",
            TextField::ScriptName => "script_name",
            TextField::Schema => "schema",
        };
        let same = ident(name).eq(lit(ScalarValue::Utf8View(Some(wanted.clone()))));
        match wanted.is_empty() {
            true => same.or(ident(name).is_null()),
            false => same,
        }
    }));
    all.extend(tags.iter().map(|(name, value)| has_tag(name, value)));
    all.extend(question.before.map(|before| {
        let below = |name, than: u64| ident(name).lt(lit(clipped(than)));
        let in_second = below(RUN, before.run).or(is(RUN, before.run).and(below(ID, before.id)));
        below(RECEIVED, before.received).or(is(RECEIVED, before.received).and(in_second))
    }));
    all
}

fn clipped(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn is(name: &str, wanted: u64) -> Expr {
    // What files cannot have is not found: they have no negative numbers.
    ident(name).eq(lit(i64::try_from(wanted).unwrap_or(-1)))
}

/// Whether the first tag of a name has a value, as the text of all tags says it.
fn has_tag(name: &str, value: &str) -> Expr {
    let (name, value) = (format!("{name}="), value.to_owned());
    let has = move |tags: &str| {
        let begins = tags.match_indices(',').map(|(at, _)| at + 1);
        let mut begins = std::iter::once(0).chain(begins);
        let of_name = begins.find_map(|at| tags.get(at..)?.strip_prefix(name.as_str()));
        let behind = of_name.and_then(|of_name| of_name.strip_prefix(value.as_str()));
        behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(','))
    };
    let has_tag = create_udf(
        "has_tag",
        vec![DataType::Utf8View],
        DataType::Boolean,
        Volatility::Immutable,
        Arc::new(move |given: &[ColumnarValue]| {
            let tags = ColumnarValue::values_to_arrays(given)?;
            let tags = tags.first().and_then(|tags| tags.as_string_view_opt());
            let passes = tags
                .into_iter()
                .flatten()
                .map(|tags| Some(tags.is_some_and(&has)));
            Ok(ColumnarValue::Array(Arc::new(
                passes.collect::<BooleanArray>(),
            )))
        }),
    );
    has_tag.call(vec![ident(TAGS)])
}

/// Reads the rows of a table for which conditions on columns of files hold.
fn reader(at: &RequestsAt, table: &'static str, wanted: impl IntoIterator<Item = Expr>) -> Reader {
    let view = View::stored(table);
    let schema = Arc::clone(&view.schema);
    let physical = |expr| {
        let columns = DFSchema::try_from(Arc::clone(&schema))?;
        create_physical_expr(&expr, &columns, &Default::default(), &Default::default())
    };
    let conditions = wanted.into_iter().map(physical);
    let conditions: Result<Vec<_>, DataFusionError> = conditions.collect();
    let conditions = conditions.expect("conditions are made of columns that there are");
    let wanted = Wanted {
        shown: (0..schema.fields().len()).collect(),
        view: Arc::new(view),
        schema,
        conditions,
    };
    Reader::new(at, wanted, 0, 1)
}

/// The timers of requests one after the other, as far as there is room for them. What is in memory is looked through once.
fn timers_of(
    at: &RequestsAt,
    names: impl IntoIterator<Item = RequestName> + Clone,
    lacking: &mut Vec<String>,
) -> Vec<Vec<TimerDetail>> {
    let (disk, memory) = at.clone().divided();
    let mut in_memory: HashMap<u64, Vec<TimerDetail>> = HashMap::new();
    if let Some(now) = &memory.unpublished {
        let of_run = names
            .clone()
            .into_iter()
            .filter(|name| name.run == now.run());
        let ids = of_run.map(|name| lit(clipped(name.id))).collect();
        let mut reader = reader(&memory, TIMER, [ident(OF_REQUEST).in_list(ids, false)]);
        let read = each_row(&mut reader, |batch, row| {
            let of = int(batch, OF_REQUEST, row).cast_unsigned();
            in_memory.entry(of).or_default().push(timer(batch, row));
        });
        lacking.extend(read.err().map(|error| error.to_string()));
    }
    let (mut timers, mut bytes) = (Vec::new(), 0);
    for name in names {
        if bytes >= TIMERS_BYTES_MAX {
            break;
        }
        let is_now = memory
            .unpublished
            .as_ref()
            .is_some_and(|now| now.run() == name.run);
        let known = in_memory.remove(&name.id).filter(|_| is_now);
        let mut of_request = known.unwrap_or_else(|| {
            let mut found = Vec::new();
            let read = of_request(&disk, TIMER, name, |batch, row| {
                found.push(timer(batch, row));
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

fn timer(batch: &RecordBatch, row: usize) -> TimerDetail {
    let number = |name| int(batch, name, row).cast_unsigned();
    let tags = serde_json::from_str(text(batch, TAGS, row));
    TimerDetail {
        id: number(ID),
        hit_count: number("hit_count") as u32,
        value_us: number("value_us"),
        ru_utime_us: number("ru_utime_us"),
        ru_stime_us: number("ru_stime_us"),
        tags: tags.map(|Pairs(pairs)| pairs).unwrap_or_default(),
    }
}

/// Calls `each` for what a table has of a request.
fn of_request(
    at: &RequestsAt,
    table: &'static str,
    of: RequestName,
    each: impl FnMut(&RecordBatch, usize),
) -> io::Result<()> {
    let named = [
        is(RUN, of.run),
        is(OF_REQUEST, of.id),
        is(RECEIVED, of.received),
    ];
    each_row(&mut reader(at, table, named), each)
}

fn each_row(reader: &mut Reader, mut each: impl FnMut(&RecordBatch, usize)) -> io::Result<()> {
    while let Some(batch) = reader.next()? {
        (0..batch.num_rows()).for_each(|row| each(&batch, row));
    }
    Ok(())
}

/// By what rows are ordered: the largest come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key([i64; 4]);

impl Key {
    fn of(batch: &RecordBatch, row: usize, is_slowest: bool) -> Self {
        let [time, received, run, id] = [TIME, RECEIVED, RUN, ID].map(|name| int(batch, name, row));
        match is_slowest {
            true => Self([time, received, run, id]),
            false => Self([received, run, id, 0]),
        }
    }

    fn name(self, is_slowest: bool) -> RequestName {
        let Self(numbers) = self;
        let at = usize::from(is_slowest);
        let [received, run, id] = [at, at + 1, at + 2].map(|at| numbers[at].cast_unsigned());
        RequestName { received, run, id }
    }
}

/// Below what rows are not wanted any more.
struct Floor {
    condition: Arc<DynamicFilterPhysicalExpr>,
    first: Arc<dyn PhysicalExpr>,
    key: Option<Key>,
}

impl Floor {
    fn new(first: &str) -> Self {
        let schema = View::stored(REQUEST).schema;
        let place = schema.index_of(first).unwrap_or_default();
        let first: Arc<dyn PhysicalExpr> = Arc::new(Place::new(first, place));
        let condition = DynamicFilterPhysicalExpr::new(vec![Arc::clone(&first)], number(true));
        Self {
            condition: Arc::new(condition),
            first,
            key: None,
        }
    }

    fn raise(&mut self, key: Key) {
        self.key = Some(key);
        let Key([least, ..]) = key;
        let above = BinaryExpr::new(Arc::clone(&self.first), Operator::GtEq, number(least));
        // What cannot be told is not left out.
        let _told = self.condition.update(Arc::new(above));
    }
}

/// The first rows in their order.
struct Top {
    limit: usize,
    floor: Floor,
    rows: Vec<(Key, Shown)>,
}

impl Top {
    fn take(&mut self, batch: &RecordBatch, is_slowest: bool, columns: &[(&'static str, Form)]) {
        for row in 0..batch.num_rows() {
            let key = Key::of(batch, row, is_slowest);
            if self.floor.key.is_none_or(|floor| key > floor) {
                self.rows.push((key, shown(batch, row, columns)));
            }
            if self.rows.len() >= self.limit + (self.limit / 4).max(64) {
                self.cut();
            }
        }
    }

    /// Leaves out those that come too late, and with them whatever comes later than the last that stays.
    fn cut(&mut self) {
        self.rows
            .sort_unstable_by_key(|(key, _)| std::cmp::Reverse(*key));
        let mut bytes = 0;
        let fits = self.rows.iter().take_while(|(_, row)| {
            bytes += row.iter().map(crate::query::raw::text_bytes).sum::<usize>();
            bytes <= TAGS_BYTES_MAX
        });
        self.limit = self.limit.min(fits.count().max(1));
        self.rows.truncate(self.limit);
        if let Some((last, _)) = self.rows.last().filter(|_| self.rows.len() == self.limit) {
            self.floor.raise(*last);
        }
    }

    fn finish(mut self) -> Vec<(Key, Shown)> {
        self.cut();
        self.rows
    }
}

/// A row in the columns of the live table.
fn shown(batch: &RecordBatch, row: usize, columns: &[(&'static str, Form)]) -> Shown {
    let values = columns.iter().map(|(name, form)| match form {
        Form::Seconds => Value::Micros(int(batch, name, row).cast_unsigned()),
        Form::Kib => Value::Float(int(batch, name, row) as f64 / 1024.0),
        _ => batch
            .column_by_name(name)
            .map_or(Value::Null, |array| value(array, row)),
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

fn int(batch: &RecordBatch, name: &str, row: usize) -> i64 {
    let numbers = batch.column_by_name(name);
    let numbers = numbers.and_then(|numbers| numbers.as_primitive_opt::<Int64Type>());
    numbers.map_or(0, |numbers| numbers.value(row))
}

fn text<'b>(batch: &'b RecordBatch, name: &str, row: usize) -> &'b str {
    let texts = batch.column_by_name(name);
    let texts = texts.and_then(|texts| texts.as_string_view_opt());
    texts.map_or("", |texts| texts.value(row))
}

/// A JSON object in its order: a name may come twice.
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
