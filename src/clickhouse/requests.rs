//! Raw requests in the form that ClickHouse gets: one row per request, with its tags and timers.

use super::native::Block;
use super::rollups::Origin;
use crate::history::requests::{Tags, Timers};
use crate::pool::resolved::{Request, Rusage};

/// The tags that may leave this machine.
#[derive(Debug, Clone)]
pub(super) struct TagFilter(Option<Vec<String>>);

impl TagFilter {
    /// Selects the tags with these names; "*" selects all.
    pub(super) fn of(names: &[String]) -> Self {
        let is_all = names.iter().any(|name| name == "*");
        Self((!is_all).then(|| names.to_vec()))
    }

    fn of_tags<'a>(&self, tags: &Tags<'a>) -> impl Iterator<Item = (&'a str, &'a str)> {
        let passes = |name: &str| {
            let named = |names: &Vec<String>| names.iter().any(|it| it == name);
            self.0.as_ref().is_none_or(named)
        };
        tags.iter().copied().filter(move |(name, _)| passes(name))
    }
}

/// Appends a request to a block of its table.
pub(super) fn push(
    block: &mut Block,
    origin: &Origin,
    part: u32,
    tags: &TagFilter,
    (request, weight, timers): (&Request<'_, Tags<'_>>, f64, Option<&Timers<'_>>),
) {
    let to = &mut block.row();
    to.u32(request.received);
    to.text(&origin.names.dc);
    to.text(&origin.names.collector);
    to.uuid(origin.store);
    to.u32(part);
    to.u32(request.run as u32);
    to.u64(request.id);
    to.text(request.hostname);
    to.text(request.server_name);
    to.text(request.script_name);
    to.text(request.schema.unwrap_or_default());
    to.u32(request.status);
    to.u32(request.request_count);
    to.u64(request.time_us);
    let times = |of: Rusage| of.times_us().unwrap_or_default();
    times(request.rusage).into_iter().for_each(|us| to.u64(us));
    to.u64(request.document_size.into());
    to.u64(request.memory_peak.into());
    to.u64(request.memory_footprint.into());
    to.u64(weight.to_bits());
    to.map(tags.of_tags(&request.tags));
    let timers = timers.map_or(&[][..], |it| &it.timers);
    to.u64s(timers.iter().map(|it| it.value_us));
    to.u32s(timers.iter().map(|it| it.hit_count));
    to.u64s(timers.iter().map(|it| times(it.rusage)[0]));
    to.u64s(timers.iter().map(|it| times(it.rusage)[1]));
    to.maps(timers.iter().map(|it| tags.of_tags(&it.tags)));
    // Columns are only ever added, so those above stay what they are: 0 if not known.
    let is_unmeasured = |of: Rusage| of.times_us().is_none();
    to.bool(is_unmeasured(request.rusage));
    to.bools(timers.iter().map(|it| is_unmeasured(it.rusage)));
}
