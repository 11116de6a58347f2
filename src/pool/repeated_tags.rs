//! Tags that records name instead of repeating them: the merger's part of [`Repeat`].
//!
//! The ids of their sets are valid as long as the last epoch that used them is held. After that the
//! sets may be gone, and are added again from a copy of their texts.

use super::reclaim::Epochs;
use super::strings::StringInterner;
use super::tag_sets::TagSets;
use crate::input::record::{Confirmed, Record, Repeat};

/// The tags that have names, by number.
#[derive(Debug, Default)]
pub(super) struct RepeatedTags {
    named: Vec<Named>,
    confirmed: Confirmed,
    /// Bytes of texts and sets for which there is room.
    bytes_left: usize,
}

#[derive(Debug, Default)]
struct Named {
    turn: u32,
    /// The last epoch that holds the sets; [`None`] if none does.
    epoch: Option<u64>,
    /// The set of the request, then those of its timers.
    sets: Box<[u32]>,
    /// The [`Texts`] of the sets, encoded.
    texts: Box<[u8]>,
}

/// The names and values of each set.
type Texts<'a> = Vec<Vec<(&'a [u8], &'a [u8])>>;

/// Bytes of texts and sets for each number, on average.
const TEXTS_BYTES: usize = 384;

impl RepeatedTags {
    /// Bytes for so many numbers, for the memory plan.
    pub(super) const fn bytes(numbers: usize) -> usize {
        numbers * (size_of::<Named>() + TEXTS_BYTES)
    }

    /// Empty, for the numbers of `confirmed`.
    pub(super) fn new(confirmed: Confirmed) -> Self {
        let numbers = confirmed.numbers();
        let named = std::iter::repeat_with(Named::default).take(numbers).collect();
        Self { named, confirmed, bytes_left: numbers * TEXTS_BYTES }
    }

    /// Touches what [`sets`](Self::sets) will read for these records: the reads of memory overlap.
    pub(super) fn touch(&self, records: &[Record<'_>]) -> u32 {
        let repeats = records.iter().filter(|record| record.leaves_out_tags());
        let repeats = repeats.filter_map(Record::repeat);
        let named = repeats.filter_map(|repeat| self.named.get(repeat.number as usize));
        named.fold(0, |seen, named| seen ^ named.sets.first().copied().unwrap_or(0))
    }

    /// Learns the tags of a record, which have this name and these sets; `epoch` holds them.
    pub(super) fn learn(
        &mut self,
        repeat: Repeat,
        record: &Record<'_>,
        sets: impl Iterator<Item = u32>,
        epoch: u64,
    ) {
        let Some(named) = self.named.get_mut(repeat.number as usize) else { return };
        if named.turn == repeat.turn {
            return;
        }
        let pair = |(name, value)| (record.string(name), record.string(value));
        let of_timers = record.timers().map(|timer| timer.tags);
        let texts = std::iter::once(record.request_tags()).chain(of_timers);
        let texts: Texts<'_> = texts.map(|tags| tags.iter().map(pair).collect()).collect();
        let new = Named {
            turn: repeat.turn,
            epoch: Some(epoch),
            sets: sets.collect(),
            texts: postcard::to_allocvec(&texts).unwrap_or_default().into(),
        };
        let room = self.bytes_left + named.bytes();
        let Some(left) = room.checked_sub(new.bytes()) else { return };
        *named = new;
        self.bytes_left = left;
        self.confirmed.confirm(repeat);
    }

    /// The sets of tags with this name, which `epoch` will hold, and whether it does so already.
    pub(super) fn sets(
        &mut self,
        repeat: Repeat,
        epoch: u64,
        epochs: &Epochs,
        tag_sets: &mut TagSets,
        strings: &mut StringInterner,
    ) -> (&[u32], bool) {
        let named = self.named.get_mut(repeat.number as usize);
        let Some(named) = named.filter(|named| named.turn == repeat.turn) else {
            debug_assert!(false, "{repeat:?} was never confirmed");
            return (&[], false);
        };
        if !named.epoch.is_some_and(|epoch| epochs.has(epoch)) {
            let overflowed = strings.overflowed() + tag_sets.overflowed();
            let texts: Texts<'_> = postcard::from_bytes(&named.texts).unwrap_or_default();
            for (id, tags) in named.sets.iter_mut().zip(&texts) {
                let hash = strings.hasher().hash_tags(tags.iter().copied());
                *id = tag_sets.intern_texts(hash, tags, strings);
            }
            named.epoch = None;
            if strings.overflowed() + tag_sets.overflowed() != overflowed {
                // Next time there may be room.
                return (&named.sets, false);
            }
        }
        let is_held = named.epoch == Some(epoch);
        named.epoch = Some(epoch);
        (&named.sets, is_held)
    }
}

impl Named {
    fn bytes(&self) -> usize {
        self.texts.len() + size_of_val(&*self.sets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::pinba::model;
    use crate::input::record::Hasher;
    use crate::merger::test_harness::{self, Limits};

    #[test]
    fn texts_have_a_budget() {
        let hasher = Hasher::new();
        let mut live = Limits::SMALL.live(&hasher, Vec::new());
        let mut decoder = test_harness::decoder(hasher, &mut live);
        let mut sent = model::Request::named("h", "s", "/");
        let long = "x".repeat(250);
        sent.add_timer(1, 0.5, &[("group", &*long), (&*long, "read")]);
        let mut bytes = Vec::new();
        test_harness::decode(&mut decoder, &sent, &mut bytes);
        let record = Record::next(&mut &bytes[..]).unwrap();
        let confirmed = Confirmed::new(2);
        let mut repeats = RepeatedTags::new(confirmed.clone());
        let mut is_learned = |number, turn| {
            let repeat = Repeat { number, turn };
            repeats.learn(repeat, &record, [2, 3].into_iter(), 0);
            confirmed.has(repeat)
        };
        assert!(is_learned(0, 1));
        assert!(!is_learned(1, 1), "no room beside the other");
        assert!(is_learned(0, 2), "in its place");
    }
}
