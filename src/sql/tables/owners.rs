//! Finds the requests of timers: a request knows its first timer; the first timer of the next
//! request ends them.
//!
//! Called under the lock of `Live`; `None` means that rows are no longer held.

use std::ops::Range;

use crate::pool::Pool;
use crate::pool::rows::first_from;

/// The id of a held request's first timer.
pub(super) fn first_timer(pool: &Pool, request: u64) -> Option<u64> {
    let low = pool.requests.first_timer(request)?;
    Some(pool.timers.full_id(low))
}

/// The requests of these timers; `None` if they are no longer held.
pub(super) fn owners(pool: &Pool, timers: &Range<u64>, requests: &Range<u64>) -> Option<Vec<i64>> {
    let mut owners = Vec::with_capacity((timers.end - timers.start) as usize);
    let mut timer = timers.start;
    // The last request after `from` and before `to` that begins at or before a timer.
    let find = |timer: u64, from: u64, to: u64| {
        let is_before = |request| Some(first_timer(pool, request)? <= timer);
        Some(first_from(from + 1..to, is_before)? - 1)
    };
    let from = requests.start.max(pool.requests.held_id());
    let mut request = find(timer, from, requests.end)?;
    while timer < timers.end {
        let next = request + 1;
        let begins = match next < requests.end {
            true => first_timer(pool, next)?,
            false => timers.end,
        };
        if begins <= timer {
            // Requests without timers lie between: skip them in growing steps.
            let mut to = next;
            let mut step = 1;
            while to < requests.end && first_timer(pool, to)? <= timer {
                request = to;
                to += step;
                step *= 2;
            }
            request = find(timer, request, to.min(requests.end))?;
            continue;
        }
        let end = begins.min(timers.end);
        let count = (end - timer) as usize;
        owners.extend(std::iter::repeat_n(request.cast_signed(), count));
        (timer, request) = (end, next);
    }
    Some(owners)
}
