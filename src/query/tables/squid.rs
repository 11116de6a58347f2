//! Rows of `squid_swap` and `squid_savings`. Unknown values are NULL, never 0.

use super::{Row, float, int, text};
use crate::input::squid::sums::{Saved, Swaps};
use crate::value::Value;

/// A row on moved objects.
pub(in crate::query) fn swap((key, sum): &(Vec<String>, Swaps)) -> Row {
    let secs = |us: u64| float((sum.timed > 0).then_some(us as f64 / 1e6));
    let key = key.iter().map(|part| text(part.as_str()));
    let counts = [sum.count, sum.bytes, sum.timed].map(int);
    let times = [sum.first_delay_us, sum.total_us].map(secs);
    key.chain(counts).chain(times).collect()
}

/// A row on savings.
pub(in crate::query) fn saved(row: &Saved) -> Row {
    let it = &row.answers;
    let saved_bytes = match it.known {
        0 => Value::Null,
        _ => Value::Int(it.saved_bytes),
    };
    let median = row.miss_median_ms.map(|ms| ms / 1e3);
    let own = it.time_ms as f64 / 1e3;
    let key = row.key.iter().map(|part| text(part.as_str()));
    key.chain([
        int(it.count),
        Value::Float(own),
        int(it.sent_bytes),
        int(it.known),
        saved_bytes,
        int(row.misses),
        float(median),
        float(median.map(|median| median * it.count as f64 - own)),
    ])
    .collect()
}
