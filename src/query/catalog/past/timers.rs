//! Raw timers of a span of the past, summed by any tags.
//!
//! Matching requests are found first, then their timers. If those are too many, a sample is taken,
//! uniformly over the span, and each stands for several, multiplying any weight of its request.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use ahash::AHashMap;
use datafusion::arrow::array::{Array as _, AsArray as _, Float64Array, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::prelude::{ident, lit};

use super::Catalog;
use super::requests::first::{First, Key, Order, SEARCH_MAX};
use super::requests::{
    OF_REQUEST, RECEIVED, RUN, SAMPLED, TAGS, TAGS_EXACT, clipped, first_tag, int, is_sampled,
    pairs, reader, tested, text, timer,
};
use crate::history::requests::{RequestsSnapshot, TIMER};
use crate::query::answer::Scanned;
use crate::query::error::QueryError;
use crate::query::question::RequestQuestion;
use crate::query::timer_groups::{ONE, Of, Place, TimerGroups, TimerSearch, TimerSums};
use crate::report::definition::{Field, KeySource};

/// Bytes of texts of a request that take no more than a timer.
const TEXT_BYTES: usize = 64;
/// Texts cached, so that they are searched once.
const REMEMBERED: usize = 1 << 14;

/// Data on a request, shared by similar ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Origin {
    script_name: String,
    /// In the order of the requested keys; `None` if it has no such tag, or the key is one of the
    /// timer.
    keys: Vec<Option<String>>,
}

/// A request.
#[derive(Debug)]
struct Found {
    origin: Arc<Origin>,
    /// The number of its timers.
    timers: usize,
    /// How many requests it stands for.
    weight: f64,
}

impl Catalog {
    /// The raw timers of matching requests in a span of unix seconds, summed by any keys.
    ///
    /// # Errors
    /// [`QueryError::NoHistory`].
    pub(in crate::query::catalog) fn past_timer_groups(
        &self,
        span: &Range<u64>,
        search: &TimerSearch,
    ) -> Result<TimerGroups, QueryError> {
        let (at, mut partial) = self.kept_requests(span)?;
        let (requests, scanned) = requests_of(&at, span, search, &mut partial);
        let mut sums = TimerSums::new(search);
        sums.scanned = scanned;
        let read = add_timers(&at, (span, &requests), &mut sums, &mut partial);
        partial.extend(read.err().map(|error| error.to_string()));
        // What was left out is in the weights of others, which conditions may have excluded.
        if sums.scanned.stands_for.is_some() || is_sampled(&at, span) {
            partial.insert(0, format!("{SAMPLED}, so these numbers are estimates"));
        }
        let mut groups = sums.finish();
        groups.partial.splice(0..0, partial);
        Ok(groups)
    }
}

/// The requests whose timers are wanted, by run and id.
fn requests_of(
    at: &RequestsSnapshot,
    span: &Range<u64>,
    search: &TimerSearch,
    partial: &mut Vec<String>,
) -> (HashMap<(i64, i64), Found>, Scanned) {
    let question =
        RequestQuestion { search: search.requests.clone(), ..RequestQuestion::default() };
    let cost = |Found { origin, timers, .. }: &Found| {
        let keys = origin.keys.iter().flatten().map(String::len);
        let texts = origin.script_name.len() + keys.sum::<usize>();
        texts.div_ceil(TEXT_BYTES).max(*timers).max(1)
    };
    let mut known: HashSet<Arc<Origin>> = HashSet::new();
    let most = search.scanned_max;
    let mut first = First::of(Order::Shuffled, most, most, cost);
    first.find(at, (span, &question), partial, |batch, row| {
        let origin = Arc::new(Origin::of(search, batch, row));
        let same = known.get(&origin).map(Arc::clone);
        let origin = same.unwrap_or_else(|| {
            if known.len() >= REMEMBERED {
                known.retain(|origin| Arc::strong_count(origin) > 1);
            }
            known.insert(Arc::clone(&origin));
            origin
        });
        let timers = int(batch, "timers_cnt", row).cast_unsigned() as usize;
        let weight = weights(batch).map_or(1.0, |weights| weights.value(row));
        Found { origin, timers, weight }
    });
    let unread_before = first.unread_before;
    let (found, is_full) = first.finish();
    let oldest = found.iter().map(|(key, _)| key.name.received).min();
    let last = found.last().filter(|_| is_full);
    let each = last.map(|(key, _)| key.stands_for());
    let is_weighed = found.iter().any(|(_, it)| it.weight > 1.0);
    let weight: f64 = found.iter().map(|(_, it)| it.weight).sum();
    let scanned = Scanned {
        requests: found.len() as u64,
        oldest: oldest.unwrap_or_default() as u32,
        all: !is_full && unread_before.is_none(),
        kept: true,
        narrowed: search.requests.narrows(),
        sample_of: each.map(|each| (found.len() as f64 * each).round() as u64),
        stands_for: is_weighed.then(|| (weight * each.unwrap_or(1.0)).round() as u64),
        unread_before,
    };
    let named = found
        .into_iter()
        .map(|(Key { name, .. }, found)| ((name.run.cast_signed(), name.id.cast_signed()), found));
    (named.collect(), scanned)
}

impl Origin {
    fn of(search: &TimerSearch, batch: &RecordBatch, row: usize) -> Self {
        let field = |field: &Field| match field {
            Field::Status => int(batch, field.name(), row).to_string(),
            _ => text(batch, field.name(), row).to_owned(),
        };
        let keys = search.by.iter().map(|source| match source {
            KeySource::Field(it) | KeySource::TimerTagOrField(_, it) => Some(field(it)),
            KeySource::RequestTag(name) => {
                let [tags, exact] = [TAGS, TAGS_EXACT].map(|column| text(batch, column, row));
                first_tag(tags, exact, name).map(|value| value.into_owned())
            }
            KeySource::TimerTag(_) => None,
        });
        Self { script_name: field(&Field::ScriptName), keys: keys.collect() }
    }
}

/// How many requests each row of a batch stands for; a request's timers have its weight.
fn weights(batch: &RecordBatch) -> Option<&Float64Array> {
    batch.column_by_name("weight")?.as_any().downcast_ref()
}

/// Sums the timers of requests.
fn add_timers(
    at: &RequestsSnapshot,
    (span, requests): (&Range<u64>, &HashMap<(i64, i64), Found>),
    sums: &mut TimerSums<'_>,
    partial: &mut Vec<String>,
) -> io::Result<()> {
    let oldest = sums.scanned.oldest;
    let wanted: HashSet<(i64, i64)> = requests.keys().copied().collect();
    let is_wanted = tested("is_wanted", [RUN, OF_REQUEST], move |numbers| {
        let [runs, ids] = numbers.map(|it| it.as_primitive::<Int64Type>().values());
        let named = runs.iter().copied().zip(ids.iter().copied());
        named.map(|name| wanted.contains(&name)).collect()
    });
    let since = ident(RECEIVED).gt_eq(lit(clipped(oldest.into())));
    let until = ident(RECEIVED).lt(lit(clipped(span.end)));
    let mut reader = reader(at, TIMER, None, [since, until, is_wanted]);
    let sample_of = sums.scanned.sample_of.map(|all| all as f64);
    let stands_for = sample_of.map_or(1.0, |all| all / requests.len() as f64);
    let mut known: HashMap<*const Origin, AHashMap<String, Place>> = HashMap::new();
    let mut remembered = 0;
    let until = Instant::now() + SEARCH_MAX;
    while let Some(batch) = reader.next()? {
        if Instant::now() > until
            && let Some(reached) = reader.reached()
        {
            let secs = SEARCH_MAX.as_secs();
            sums.scanned.unread_before = sums.scanned.unread_before.max(Some(reached));
            partial.push(format!("not all timers were looked at within {secs} s"));
            break;
        }
        let weights = weights(&batch);
        for row in 0..batch.num_rows() {
            let name = (int(&batch, RUN, row), int(&batch, OF_REQUEST, row));
            let Some(Found { origin, .. }) = requests.get(&name) else { continue };
            sums.timers_scanned += 1;
            let weight = weights.map_or(1.0, |weights| weights.value(row));
            let tags = text(&batch, TAGS, row);
            if remembered >= REMEMBERED {
                known.clear();
                remembered = 0;
            }
            let places = known.entry(Arc::as_ptr(origin)).or_default();
            let place = match places.get(tags) {
                Some(place) => *place,
                None => {
                    let named = pairs(tags);
                    let texts = named.iter().map(|(name, value)| (&**name, &**value));
                    let place = sums.place(texts, |at| origin.keys[at].clone());
                    places.insert(tags.to_owned(), place);
                    remembered += 1;
                    place
                }
            };
            let of = Of {
                received: int(&batch, RECEIVED, row) as u32,
                run: Some(name.0.cast_unsigned()),
                id: name.1.cast_unsigned(),
                parts: (weight * stands_for * ONE as f64).round() as u64,
            };
            sums.add(place, of, timer(&batch, row, tags), |timer| {
                (origin.script_name.clone(), timer.map_tags(pairs))
            });
        }
    }
    Ok(())
}
