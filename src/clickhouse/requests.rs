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
    to.value(request.received);
    to.value(origin.names.dc.as_str());
    to.value(origin.names.collector.as_str());
    to.uuid(origin.store);
    to.value(part);
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
    to.value(weight.to_bits());
    to.map(tags.of_tags(&request.tags));
    let timers = timers.map_or(&[][..], |it| &it.timers);
    to.array(timers.iter().map(|it| it.value_us));
    to.array(timers.iter().map(|it| it.hit_count));
    to.array(timers.iter().map(|it| times(it.rusage)[0]));
    to.array(timers.iter().map(|it| times(it.rusage)[1]));
    to.maps(timers.iter().map(|it| tags.of_tags(&it.tags)));
    // Columns are only ever added, so those above stay what they are: 0 if not known.
    let is_unmeasured = |of: Rusage| of.times_us().is_none();
    to.value(is_unmeasured(request.rusage));
    to.array(timers.iter().map(|it| is_unmeasured(it.rusage)));
}
