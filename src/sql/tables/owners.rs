//! Which timers belong to which requests: a request knows its first timer; the next request's first timer ends them.
//!
//! Called under the lock of `Live`; `None` is what is not held any more.

use std::ops::Range;

use crate::pool::Pool;

/// The id of a held request's first timer.
pub(super) fn first_timer(pool: &Pool, request: u64) -> Option<u64> {
    let low = pool.requests.first_timer(request)?;
    Some(pool.timers.full_id(low))
}

/// The requests of these timers. `None` when they are not held any more.
pub(super) fn owners(pool: &Pool, timers: &Range<u64>, requests: &Range<u64>) -> Option<Vec<i64>> {
    let mut owners = Vec::with_capacity((timers.end - timers.start) as usize);
    // The last request that begins at or before a timer, between these two.
    let find = |timer: u64, mut from: u64, mut to: u64| -> Option<u64> {
        while to - from > 1 {
            let middle = from + (to - from) / 2;
            if first_timer(pool, middle)? <= timer {
                from = middle;
            } else {
                to = middle;
            }
        }
        Some(from)
    };
    let from = requests.start.max(pool.requests.held_id());
    let mut request = find(timers.start, from, requests.end)?;
    let mut timer = timers.start;
    while timer < timers.end {
        let mut next = request + 1;
        let mut end = timers.end;
        if next < requests.end {
            let begins = first_timer(pool, next)?;
            if begins <= timer {
                // Requests without timers lie between: leap over them, further each time.
                let mut step = 1;
                while next < requests.end && first_timer(pool, next)? <= timer {
                    request = next;
                    next = next.saturating_add(step);
                    step *= 2;
                }
                request = find(timer, request, next.min(requests.end))?;
                continue;
            }
            end = end.min(begins);
        }
        let count = (end - timer) as usize;
        owners.extend(std::iter::repeat_n(request.cast_signed(), count));
        timer = end;
        request += 1;
    }
    Some(owners)
}
