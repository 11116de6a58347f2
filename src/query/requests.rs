//! Raw requests as tables: the newest that match a search, and one request in full.
//!
//! Rows never change once merged and ids only grow, so a search walks from the newest id down. It
//! reads `CHUNK` rows at a time under the lock and copies the matches; rows evicted meanwhile are
//! simply no longer found. Called from the front ends' blocking threads.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::answer::{RequestDetail, RequestPage, TimerDetail};
use super::error::QueryError;
use super::question::{NumberField, RequestQuestion, RequestSearch};
use super::table::{Rows, Table};
use crate::config::rewrite::TextField;
use crate::config::suggest;
use crate::grammar::FixedTable;
use crate::input::record::micros;
use crate::merger::{SharedLive, answering};
use crate::pool::Pool;
use crate::pool::requests::RequestRow;
use crate::pool::resolved::{PoolTags, tags_text};
use crate::report::definition::Defaults;
use crate::value::{Column, Value};

mod follow;
mod slowest;
mod timer_groups;

pub(crate) use self::timer_groups::shown_field;

/// Rows read under one hold of the lock: some fifty microseconds.
const CHUNK: u64 = 8_192;
/// Most tags among whose names one that may be meant is looked for.
const NAMES_MAX: usize = 4_096;
/// Bytes of a timer in addition to its tags, as written.
const TIMER_BYTES: usize = 80;
/// Most bytes of the timers of one page.
pub(super) const TIMERS_BYTES_MAX: usize = 4 << 20;
/// Most bytes of the tags of its requests, as text: 160 each on the largest page.
pub(super) const TAGS_BYTES_MAX: usize = 16 << 20;
/// Bytes of tags and timers copied under one hold of the lock.
const HOLD_BYTES: usize = 512 << 10;

/// A raw request in the columns of table `request`.
type Shown = Vec<Value<'static>>;

/// The column of its tags.
const TAGS: usize = 15;

/// Bytes of one of its texts.
pub(super) fn text_bytes(value: &Value<'_>) -> usize {
    match value {
        Value::Text(text) => text.len(),
        _ => 0,
    }
}

/// Approximate bytes of timers.
pub(super) fn timers_bytes(timers: &[TimerDetail]) -> usize {
    let tags = timers.iter().flat_map(|timer| &timer.tags);
    TIMER_BYTES * timers.len() + tags.map(|(n, v)| n.len() + v.len()).sum::<usize>()
}

/// Matching rows, with their timers if wanted.
#[derive(Debug, Default)]
struct Matches {
    rows: Vec<Shown>,
    /// As many as rows, or none.
    timers: Vec<Vec<TimerDetail>>,
    /// Bytes of the timers.
    timer_bytes: usize,
    /// Bytes of the requests' tags.
    tags_bytes: usize,
    /// Bytes of all their texts.
    text_bytes: usize,
}

impl Matches {
    fn has_room(&self, rows_max: usize) -> bool {
        self.rows.len() < rows_max
            && self.timer_bytes < TIMERS_BYTES_MAX
            && self.tags_bytes < TAGS_BYTES_MAX
    }

    fn bytes(&self) -> usize {
        self.timer_bytes + self.tags_bytes
    }

    fn take(&mut self, pool: &Pool, id: u64, row: &RequestRow, with_timers: bool) {
        let shown = show(pool, id, row);
        self.tags_bytes += text_bytes(&shown[TAGS]);
        self.text_bytes += shown.iter().map(text_bytes).sum::<usize>();
        self.rows.push(shown);
        if with_timers {
            let timers = timers(pool, row);
            self.timer_bytes += timers_bytes(&timers);
            self.timers.push(timers);
        }
    }
}

/// The slowest of the items seen, slowest first; among equals the first seen.
#[derive(Debug)]
pub(crate) struct Slowest<K, T> {
    max: usize,
    kept: Vec<(K, T)>,
}

impl<K: Ord, T> Slowest<K, T> {
    pub(crate) fn new(max: usize) -> Self {
        let kept = Vec::with_capacity(max.min(1024));
        Self { max, kept }
    }

    /// Whether an item with this time belongs to them.
    pub(crate) fn takes(&self, time: &K) -> bool {
        let last = self.kept.last();
        self.kept.len() < self.max || last.is_some_and(|(last, _)| last < time)
    }

    pub(crate) fn put(&mut self, time: K, slow: T) {
        self.kept.truncate(self.max - 1);
        let at = self.kept.partition_point(|(other, _)| *other >= time);
        self.kept.insert(at, (time, slow));
    }

    pub(crate) fn finish(self) -> Vec<T> {
        self.kept.into_iter().map(|(_, slow)| slow).collect()
    }
}

/// Reads raw requests from the live pool.
#[derive(Debug)]
pub struct RawReader {
    live: SharedLive,
    columns: Arc<[Column]>,
}

impl RawReader {
    /// A reader; `defaults` determine the declared lengths of columns.
    pub fn new(live: SharedLive, defaults: &Defaults) -> Self {
        Self { live, columns: FixedTable::Request.columns(defaults).into() }
    }

    /// Requests that match, newest or slowest first.
    pub fn requests(&self, question: &RequestQuestion, as_of_ms: u64) -> RequestPage {
        let mut page = RequestPage {
            as_of_ms,
            table: self.table(Vec::new()),
            timers: Vec::new(),
            next_before_id: None,
            next_before: None,
            scanned: None,
            partial: Vec::new(),
        };
        match question.slowest {
            Some(scanned_max) => self.slowest(&question.search, scanned_max, &mut page),
            None => self.newest(&question.search, &mut page),
        }
        if page.table.is_empty() {
            page.partial.extend(self.unknown_tag(&question.search));
        }
        page
    }

    fn newest(&self, search: &RequestSearch, page: &mut RequestPage) {
        let mut found = Matches::default();
        let mut bytes_max = HOLD_BYTES;
        let ids = self.ids();
        let end = search.before_id.map_or(ids.end, |id| id.min(ids.end));
        self.walk(search, (ids.start..end).rev(), CHUNK, |matcher, id| {
            let Some(row) = matcher.find(id) else { return Look::On };
            let pool = matcher.pool;
            found.take(pool, id, &row, search.timers);
            if !found.has_room(search.limit) {
                page.next_before_id = (id > pool.requests.oldest_id()).then_some(id);
                return Look::Stop;
            }
            if found.bytes() < bytes_max {
                return Look::On;
            }
            bytes_max = found.bytes() + HOLD_BYTES;
            Look::Release
        });
        page.timers = found.timers;
        page.table = self.table(found.rows);
    }

    /// Says that no request has a tag of that name, and which of the latest ones' may be meant.
    fn unknown_tag(&self, search: &RequestSearch) -> Option<String> {
        let live = answering(&self.live);
        let (pool, rows) = (&live.pool, &live.pool.requests);
        let is_unknown = |name: &&String| pool.strings.find(name.as_bytes()).is_none();
        let name = search.tags.iter().map(|(name, _)| name).find(is_unknown)?;
        let latest = rows.next_id().saturating_sub(CHUNK)..rows.next_id();
        let sets: HashSet<u32> = latest.filter_map(|id| Some(rows.get(id)?.request_tags)).collect();
        let pairs = sets.into_iter().flat_map(|set| pool.tag_sets.pairs(set)).take(NAMES_MAX);
        let names: BTreeSet<&str> = pairs.map(|(name, _)| pool.strings.text(name)).collect();
        let question = suggest::question(name, names);
        Some(format!("no request in memory has a tag {name:?}{question}"))
    }

    /// The ids of the rows.
    fn ids(&self) -> Range<u64> {
        let requests = &answering(&self.live).pool.requests;
        requests.oldest_id()..requests.next_id()
    }

    /// The unix second from which on no request is missing.
    pub(super) fn complete_from(&self) -> Option<u64> {
        let requests = &answering(&self.live).pool.requests;
        let oldest = requests.oldest_id();
        match oldest {
            ..=1 => Some(0),
            _ => Some(u64::from(requests.get(oldest)?.timestamp) + 1),
        }
    }

    /// Passes ids to `look` with a matcher for `search`, up to `most` under one hold of the lock.
    fn walk(
        &self,
        search: &RequestSearch,
        ids: impl IntoIterator<Item = u64>,
        most: u64,
        mut look: impl FnMut(&mut Matcher<'_>, u64) -> Look,
    ) {
        let mut ids = ids.into_iter();
        for hold in 0.. {
            let live = answering(&self.live);
            let mut matcher = Matcher::new(&live.pool, search, hold);
            for _ in 0..most {
                match ids.next().map(|id| look(&mut matcher, id)) {
                    Some(Look::On) => {}
                    Some(Look::Release) => break,
                    Some(Look::Stop) | None => return,
                }
            }
        }
    }

    fn table(&self, rows: Vec<Shown>) -> Box<dyn Table> {
        let columns = Arc::clone(&self.columns);
        Box::new(Rows { columns, rows })
    }

    /// One request with tags and timers.
    ///
    /// # Errors
    /// [`QueryError::UnknownRequest`] if it is not in the pool.
    pub fn request(&self, id: u64) -> Result<RequestDetail, QueryError> {
        let live = answering(&self.live);
        let pool = &live.pool;
        let row = pool.requests.get(id).ok_or(QueryError::UnknownRequest { id })?;
        Ok(RequestDetail {
            tags: pool.tags(row.request_tags).to_vec(),
            timers: timers(pool, &row),
            activities: pool.activities.of(id),
            row: self.table(vec![show(pool, id, &row)]),
        })
    }
}

/// How a walk continues after a row.
enum Look {
    /// With the next one.
    On,
    /// With the next one, under another hold of the lock.
    Release,
    /// Not at all.
    Stop,
}

/// A request in the columns of table `request`.
fn show(pool: &Pool, id: u64, row: &RequestRow) -> Shown {
    let request = pool.resolve((0, id), row);
    let int = |value: u64| Value::Int(value.cast_signed());
    let kib = |bytes: u32| Value::Float(f64::from(bytes) / 1024.0);
    let times = request.rusage.times_us();
    let [user, system] = times.map_or([Value::Null, Value::Null], |it| it.map(Value::Micros));
    let memory = |bytes| times.map_or(Value::Null, |_| kib(bytes));
    let text = |text: &str| Value::Text(text.to_owned().into());
    vec![
        int(id),
        text(request.hostname),
        int(request.request_count.into()),
        text(request.server_name),
        text(request.script_name),
        kib(request.document_size),
        memory(request.memory_peak),
        Value::Micros(request.time_us),
        user,
        system,
        int(request.timers.into()),
        int(request.status.into()),
        memory(request.memory_footprint),
        request.schema.map_or(Value::Null, text),
        int(request.tags.pairs().len() as u64),
        Value::Text(tags_text(request.tags.pairs()).into()),
        int(request.received.into()),
    ]
}

fn timers(pool: &Pool, row: &RequestRow) -> Vec<TimerDetail> {
    pool.resolve_timers(row).map(|timer| timer.map_tags(PoolTags::to_vec)).collect()
}

/// Matches rows under one hold of the lock, caching results by origin and tag set.
struct Matcher<'a> {
    pool: &'a Pool,
    search: &'a RequestSearch,
    /// The number of the hold in the walk: ids of texts may have another meaning in the next one.
    hold: u64,
    origins: HashMap<u32, bool>,
    tag_sets: HashMap<u32, bool>,
}

impl<'a> Matcher<'a> {
    fn new(pool: &'a Pool, search: &'a RequestSearch, hold: u64) -> Self {
        Self { pool, search, hold, origins: HashMap::new(), tag_sets: HashMap::new() }
    }

    /// The row of `id`, if it is live and matches.
    fn find(&mut self, id: u64) -> Option<RequestRow> {
        let row = self.pool.requests.get(id);
        row.filter(|row| self.matches(row))
    }

    fn matches(&mut self, row: &RequestRow) -> bool {
        let search = self.search;
        let timestamp = u64::from(row.timestamp);
        let is_within = |value: u64, min: Option<u64>, max: Option<u64>| {
            min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max)
        };
        if !is_within(timestamp, search.since, search.until) {
            return false;
        }
        let (min, max) = (search.min_time_us, search.max_time_us);
        if (min.is_some() || max.is_some()) && !is_within(micros(row.request_time), min, max) {
            return false;
        }
        self.numbers_match(row)
            && self.origin_matches(row.origin)
            && self.tags_match(row.request_tags)
    }

    fn numbers_match(&self, row: &RequestRow) -> bool {
        self.search.numbers.iter().all(|&(field, wanted)| {
            let shown = match field {
                NumberField::ReqCount => u64::from(row.request_count.max(1)),
                NumberField::TimersCnt => u64::from(row.timers),
                NumberField::Status => u64::from(self.pool.origins.get(row.origin).status),
                NumberField::TagsCnt => self.pool.tag_sets.pairs(row.request_tags).len() as u64,
                NumberField::Timestamp => u64::from(row.timestamp),
            };
            shown == wanted
        })
    }

    fn origin_matches(&mut self, origin: u32) -> bool {
        if self.search.texts.is_empty() {
            return true;
        }
        let (pool, search) = (self.pool, self.search);
        *self.origins.entry(origin).or_insert_with(|| {
            let origin = pool.origins.get(origin);
            search.texts.iter().all(|(field, wanted)| {
                let string = match field {
                    TextField::Hostname => origin.hostname,
                    TextField::ServerName => origin.server_name,
                    TextField::ScriptName => origin.script_name,
                    TextField::Schema => origin.schema,
                };
                pool.strings.bytes(string) == wanted.as_bytes()
            })
        })
    }

    fn tags_match(&mut self, set: u32) -> bool {
        if self.search.tags.is_empty() {
            return true;
        }
        let (pool, search) = (self.pool, self.search);
        *self.tag_sets.entry(set).or_insert_with(|| {
            let is = |string, text: &str| pool.strings.bytes(string) == text.as_bytes();
            search.tags.iter().all(|(name, wanted)| {
                let mut pairs = pool.tag_sets.pairs(set);
                pairs.find(|&(tag, _)| is(tag, name)).is_some_and(|(_, value)| is(value, wanted))
            })
        })
    }
}
