//! Raw requests in the form that ClickHouse gets: one row per request, with its tags and timers.

use super::native::{Block, Items, Value};
use super::rollups::Origin;
use crate::history::requests::{Tags, Timers};
use crate::pool::resolved::{Request, Rusage};

/// The tags that may leave this machine: those with these names; "*" stands for all.
fn sent(tags: &Tags<'_>, names: &[String]) -> impl Value {
    let is_sent = move |name: &str| names.iter().any(|it| it == "*" || it == name);
    Items(tags.iter().copied().filter(move |(name, _)| is_sent(name)))
}

/// Appends a request to a block of its table, with the tags of some names.
pub(super) fn push(
    block: &mut Block,
    origin: &Origin,
    tags: &[String],
    (request, weight, timers): (&Request<'_, Tags<'_>>, f64, Option<&Timers<'_>>),
) {
    let to = &mut block.row();
    to.value(request.received);
    origin.push(to);
    to.value(request.run as u32);
    to.value(request.id);
    to.value(request.hostname);
    to.value(request.server_name);
    to.value(request.script_name);
    to.value(request.schema.unwrap_or_default());
    to.value(request.status);
    to.value(request.request_count);
    to.value(request.time_us);
    let times = |of: Rusage| of.times_us().unwrap_or_default();
    times(request.rusage).into_iter().for_each(|us| to.value(us));
    to.value(u64::from(request.document_size));
    to.value(u64::from(request.memory_peak));
    to.value(u64::from(request.memory_footprint));
    to.value(weight);
    to.value(sent(&request.tags, tags));
    let timers = timers.map_or(&[][..], |it| &it.timers);
    to.value(Items(timers.iter().map(|it| it.value_us)));
    to.value(Items(timers.iter().map(|it| it.hit_count)));
    to.value(Items(timers.iter().map(|it| times(it.rusage)[0])));
    to.value(Items(timers.iter().map(|it| times(it.rusage)[1])));
    to.value(Items(timers.iter().map(|it| sent(&it.tags, tags))));
    // Columns are only ever added, so those above stay what they are: 0 if not known.
    let is_unmeasured = |of: Rusage| of.times_us().is_none();
    to.value(is_unmeasured(request.rusage));
    to.value(Items(timers.iter().map(|it| is_unmeasured(it.rusage))));
}
