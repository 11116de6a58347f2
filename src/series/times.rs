//! The times of a second: a list of (row, bucket, count), sorted when the second closes.
//!
//! Cheaper than a histogram for each row, and bounded: a list that is full is added up in place, and when that does not
//! help its owner lets rows go. Only the series thread sees one, inside a [`CurrentSecond`](super::current_second::CurrentSecond).

/// Bits of a bucket in an event; a log-linear bucket has less than 2^12.
const BUCKET_BITS: u32 = 12;
/// Most rows, by the bits that an event has for them.
pub(super) const SLOTS_MAX: usize = 1 << 20;
/// Least events of a second: more than three rows can have, so that the lightest half of the rows is never nothing.
const EVENTS_MIN: usize = 1 << 14;

const COUNT_MAX: u64 = u32::MAX as u64;

/// A row had a time of this bucket so often: the row in 20 bits, the bucket in 12, the count in 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Event(u64);

impl Event {
    fn new(slot: u32, bucket: u32, count: u32) -> Self {
        Self((u64::from(slot) << BUCKET_BITS | u64::from(bucket)) << 32 | u64::from(count))
    }

    pub(super) fn slot(self) -> u32 {
        (self.0 >> (32 + BUCKET_BITS)) as u32
    }

    /// The bucket and how often.
    pub(super) fn pair(self) -> (u32, u64) {
        let bucket = (self.0 >> 32) as u32 & ((1 << BUCKET_BITS) - 1);
        (bucket, self.0 & COUNT_MAX)
    }

    /// Row and bucket together.
    fn place(self) -> u64 {
        self.0 >> 32
    }
}

/// The events of a second.
#[derive(Debug)]
pub(super) struct Times {
    events: Vec<Event>,
    scratch: Vec<Event>,
    max: usize,
}

impl Times {
    /// With room for so many events, though never for too few to be useful.
    pub(super) fn new(max: usize) -> Self {
        Self {
            events: Vec::new(),
            scratch: Vec::new(),
            max: max.max(EVENTS_MIN),
        }
    }

    pub(super) fn clear(&mut self) {
        self.events.clear();
    }

    /// Whether there is no room for another.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.events.len() >= self.max
    }

    /// Whether adding up left too little room to go on for long.
    pub(super) fn is_crowded(&self) -> bool {
        self.events.len() >= self.max / 4 * 3
    }

    /// A row had a time of this bucket so often.
    #[inline]
    pub(super) fn push(&mut self, slot: u32, bucket: u32, count: u32) {
        self.events.push(Event::new(slot, bucket, count));
    }

    /// Drops events that `kept` says no to.
    pub(super) fn retain(&mut self, mut kept: impl FnMut(Event) -> bool) {
        self.events.retain(|&event| kept(event));
    }

    /// The events of each row that has any, one row after the other; ascending and added up after
    /// [`compact`](Self::compact).
    pub(super) fn rows(&self) -> impl Iterator<Item = &[Event]> {
        self.events.chunk_by(|a, b| a.slot() == b.slot())
    }

    /// Rows are one after the other, their buckets ascending, each once (but for counts past 32 bits), when this returns.
    pub(super) fn compact(&mut self) {
        sort(&mut self.events, &mut self.scratch);
        let events = &mut self.events;
        let mut kept = 0;
        for at in 0..events.len() {
            let event = events[at];
            if kept > 0 && events[kept - 1].place() == event.place() {
                let sum = (events[kept - 1].0 & COUNT_MAX) + (event.0 & COUNT_MAX);
                if sum <= COUNT_MAX {
                    events[kept - 1] = Event(event.0 & !COUNT_MAX | sum);
                    continue;
                }
            }
            events[kept] = event;
            kept += 1;
        }
        events.truncate(kept);
    }
}

/// Digits of a sort: eleven bits each, of the 32 that tell places apart.
const DIGITS: [u32; 3] = [0, 11, 22];
/// What a digit can be.
const DIGIT: usize = 1 << 11;

/// Sorts events by row and bucket, whatever their count: digit by digit, which takes a third of the time that comparing
/// would for the tens of thousands of a busy second.
fn sort(events: &mut Vec<Event>, scratch: &mut Vec<Event>) {
    if events.len() < DIGIT {
        events.sort_unstable_by_key(|event| event.place());
        return;
    }
    scratch.resize(events.len(), Event(0));
    for shift in DIGITS {
        let digit = |event: Event| (event.place() >> shift) as usize % DIGIT;
        let mut starts = [0_u32; DIGIT];
        for &event in &*events {
            starts[digit(event)] += 1;
        }
        if starts.contains(&(events.len() as u32)) {
            // All have the same: reports of few rows know few digits.
            continue;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += std::mem::replace(start, sum);
        }
        for &event in &*events {
            let start = &mut starts[digit(event)];
            scratch[*start as usize] = event;
            *start += 1;
        }
        std::mem::swap(events, scratch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_sorted_by_row_and_bucket() {
        let mut seed = 5u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for (rows, count) in [(1, 10), (1, 5_000), (40, 5_000), (SLOTS_MAX as u64, 20_000)] {
            let mut events: Vec<Event> = (0..count)
                .map(|_| Event::new(next(rows) as u32, next(2_944) as u32, next(9) as u32 + 1))
                .collect();
            let mut expected: Vec<u64> = events.iter().map(|event| event.place()).collect();
            expected.sort_unstable();
            let sum = |events: &[Event]| events.iter().map(|event| event.pair().1).sum::<u64>();
            let counts = sum(&events);
            sort(&mut events, &mut Vec::new());
            assert_eq!(sum(&events), counts);
            let sorted: Vec<u64> = events.iter().map(|event| event.place()).collect();
            assert!(sorted == expected, "{rows} rows");
        }
    }

    #[test]
    fn what_is_the_same_is_added_up_and_no_count_overflows() {
        let mut times = Times::new(0);
        for (slot, bucket, count) in [(2, 7, 1), (1, 9, 5), (2, 7, 3), (1, 2, u32::MAX), (1, 2, 2)]
        {
            times.push(slot, bucket, count);
        }
        times.compact();
        let rows: Vec<(u32, Vec<(u32, u64)>)> = times
            .rows()
            .map(|row| {
                (
                    row[0].slot(),
                    row.iter().map(|event| event.pair()).collect(),
                )
            })
            .collect();
        let large = u64::from(u32::MAX);
        assert_eq!(
            rows,
            [(1, vec![(2, large), (2, 2), (9, 5)]), (2, vec![(7, 4)])]
        );
    }
}
