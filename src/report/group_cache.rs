//! Finds the group of a record from its ids in the pool, without looking at names.
//!
//! The group of a record depends on its origin, its request tags or its timer tags. Each id first
//! leads to a *class*, which stands for all ids of that part that the aggregate cannot distinguish
//! (origins that differ only in a field that no report of it shows); so names are looked up once
//! for each origin and each tag set, not for each combination. Where only one part matters, its ids
//! are the classes. Two classes lead to the group through an array, indexed by one times the stride
//! plus the other; where that would be too large for the number of pairs, through a hash table.
//!
//! ```text
//!   origin       -> class \
//!                           > class of the request \
//!   request tags -> class /                         > group
//!   timer tags   -> class --------------------------/
//! ```
//!
//! Nothing is checked on access: code that frees an origin or a tag set ([`GroupCache::forget`]),
//! or a group ([`GroupCache::purge`]), removes it from here before the next record is
//! counted.

use hashbrown::HashTable;

use super::group_key::{PartClass, RecordIds, RecordPart, RecordParts};
use crate::pool::Freed;

/// Not cached: it must be looked up.
pub(super) const UNKNOWN: u32 = u32::MAX;
/// The aggregate does not count the record.
pub(super) const SKIPPED: u32 = u32::MAX - 1;

/// Most cached pairs, in addition to two per group, before the memory is better used otherwise.
const PAIRS_MAX: usize = 1 << 16;

/// Largest array per pair, in places, that is better than hashing; and the size that always is.
const PLACES_PER_PAIR: usize = 24;
const PLACES: usize = 1 << 14;

/// Bytes of a hashed pair.
const PAIR_BYTES: usize = size_of::<(u64, u32)>() + 2;

/// Bytes of a class.
const CLASS_BYTES: usize = size_of::<(PartClass, u32)>() + 2;

/// Cached groups of one aggregate.
#[derive(Debug)]
pub(super) struct GroupCache {
    parts: RecordParts,
    /// The only part that matters, if so.
    only: Option<RecordPart>,
    /// Classes by part; empty for a part that does not matter, or is the only one.
    classes: [Classes; 3],
    /// Origin and request tags to the class of the request, used where both matter.
    requests: ClassPairs,
    /// Request and timer tags to the group; where one does not matter its class is 0.
    groups: ClassPairs,
    request_classes: u32,
}

impl GroupCache {
    pub(super) fn new(parts: RecordParts) -> Self {
        let mut matter = RecordPart::ALL.into_iter().filter(|it| parts[*it as usize]);
        let only = matter.next().filter(|_| matter.next().is_none());
        Self {
            parts,
            only,
            classes: RecordPart::ALL.map(Classes::new),
            requests: ClassPairs::default(),
            groups: ClassPairs::default(),
            request_classes: 0,
        }
    }

    /// The class of a request, or [`UNKNOWN`].
    #[inline]
    pub(super) fn request(&self, origin: u32, request_tags: u32) -> u32 {
        let [origins, tags, _] = &self.classes;
        match self.parts {
            [true, false, false] => origin,
            [false, true, false] => request_tags,
            [true, false, _] => origins.get(origin),
            [false, true, _] => tags.get(request_tags),
            [true, true, _] => match (origins.get(origin), tags.get(request_tags)) {
                (UNKNOWN, _) | (_, UNKNOWN) => UNKNOWN,
                (origin, tags) => self.requests.get(origin, tags),
            },
            [false, false, _] => 0,
        }
    }

    /// The group of a record, [`SKIPPED`] or [`UNKNOWN`].
    #[inline]
    pub(super) fn find(&self, request: u32, timer_tags: u32) -> u32 {
        let [.., tags] = &self.classes;
        let timer = match self.parts {
            [false, false, true] => timer_tags,
            [.., true] => tags.get(timer_tags),
            _ => 0,
        };
        if request == UNKNOWN || timer == UNKNOWN {
            return UNKNOWN;
        }
        self.groups.get(request, timer)
    }

    /// Caches the result of a look-up, if that takes no more than `room` bytes. `groups` is the
    /// number of groups; `class` returns what the aggregate sees of one part of the record.
    pub(super) fn remember(
        &mut self,
        record: RecordIds,
        group: u32,
        groups: u32,
        room: usize,
        class: impl Fn(RecordPart) -> PartClass,
    ) {
        let many = groups as usize * 2 + PAIRS_MAX;
        // Most of them are obsolete: the memory is for current ones.
        let is_many = self.groups.len.max(self.requests.len) > many;
        if self.only.is_none() && (is_many || self.is_full(room)) {
            *self = Self::new(self.parts);
        }
        let mut combination = [0; 3];
        for (place, classes) in combination.iter_mut().zip(&mut self.classes) {
            let part = classes.part;
            if self.only == Some(part) {
                *place = record.number(part);
            } else if self.parts[part as usize] {
                match classes.number(record.number(part), room, || class(part)) {
                    Some(class) => *place = class,
                    None => return,
                }
            }
        }
        let [origin, request_tags, timer] = combination;
        let request = match self.parts {
            [true, true, _] => match self.requests.get(origin, request_tags) {
                UNKNOWN => {
                    let next = self.request_classes;
                    self.request_classes += 1;
                    self.requests.set(origin, request_tags, next, room);
                    next
                }
                known => known,
            },
            [true, false, _] => origin,
            _ => request_tags,
        };
        self.groups.set(request, timer, group, room);
    }

    /// Whether one more could need more than `room` bytes.
    fn is_full(&self, room: usize) -> bool {
        let of_classes = |it: &Classes| {
            it.known.len() == it.known.capacity() && it.known.capacity() * CLASS_BYTES > room
        };
        self.groups.is_full(room)
            || self.requests.is_full(room)
            || self.classes.iter().any(of_classes)
    }

    /// Invalidates origins and tag sets whose ids are being reused.
    pub(super) fn forget(&mut self, freed: &Freed) {
        if let Some(part) = self.only {
            for &number in part.freed(freed) {
                match part {
                    RecordPart::TimerTags => self.groups.unset(0, number),
                    _ => self.groups.unset(number, 0),
                }
            }
        }
        for classes in &mut self.classes {
            for &number in classes.part.freed(freed) {
                if let Some(known) = classes.by_number.get_mut(number as usize) {
                    *known = UNKNOWN;
                }
            }
        }
    }

    /// Removes groups that no longer exist from up to `places` more places; returns whether all
    /// were searched.
    pub(super) fn purge(&mut self, places: usize, is_gone: impl Fn(u32) -> bool) -> bool {
        self.groups.forget(places, |group| group < SKIPPED && is_gone(group))
    }

    /// Starts the search for removed groups again: one more was removed.
    pub(super) fn search_again(&mut self) {
        self.groups.searched = 0;
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let classes: usize = self.classes.iter().map(Classes::heap_bytes).sum();
        classes + self.requests.heap_bytes() + self.groups.heap_bytes()
    }
}

/// Numbers by pairs of classes.
#[derive(Debug, Default)]
struct ClassPairs {
    /// Indexed by `left * stride + right`; [`UNKNOWN`] where there is none. Empty if hashed.
    array: Vec<u32>,
    stride: usize,
    /// One more than the largest left class in the array.
    end: usize,
    hashed: HashTable<(u64, u32)>,
    /// Number of pairs.
    len: usize,
    /// Places before this one were searched for removed groups.
    searched: usize,
}

impl ClassPairs {
    #[inline]
    fn get(&self, left: u32, right: u32) -> u32 {
        let (at, stride) = (right as usize, self.stride);
        if at < stride {
            let place = left as usize * stride + at;
            return self.array.get(place).copied().unwrap_or(UNKNOWN);
        }
        self.get_hashed(left, right)
    }

    #[inline]
    fn get_hashed(&self, left: u32, right: u32) -> u32 {
        let pair = pair(left, right);
        let found = self.hashed.find(mix(pair), |(other, _)| *other == pair);
        found.map_or(UNKNOWN, |(_, number)| *number)
    }

    /// Removes a pair, if it exists.
    fn unset(&mut self, left: u32, right: u32) {
        if self.get(left, right) == UNKNOWN {
            return;
        }
        self.len -= 1;
        if (right as usize) < self.stride {
            self.array[left as usize * self.stride + right as usize] = UNKNOWN;
            return;
        }
        let pair = pair(left, right);
        if let Ok(known) = self.hashed.find_entry(mix(pair), |it| it.0 == pair) {
            known.remove();
        }
    }

    /// Adds or updates a pair, unless that takes more than `room` bytes.
    fn set(&mut self, left: u32, right: u32, number: u32, room: usize) {
        let is_new = self.get(left, right) == UNKNOWN;
        if self.hashed.is_empty() {
            match self.make_place(left as usize, right as usize, room) {
                Some(true) => {
                    self.array[left as usize * self.stride + right as usize] = number;
                    self.len += usize::from(is_new);
                    return;
                }
                Some(false) => self.hash_all(),
                None => return,
            }
        }
        if !self.is_full(room) {
            self.set_hashed(pair(left, right), number);
            self.len += usize::from(is_new);
        }
    }

    /// Makes places in the array for these classes; returns false if it would be too large for its
    /// pairs, `None` if there is no room for it.
    fn make_place(&mut self, left: usize, right: usize, room: usize) -> Option<bool> {
        let stride = match right < self.stride {
            true => self.stride,
            // With room for a few more, since each time everything is rearranged.
            false if right == 0 => 1,
            false => (right + 1) * 3 / 2,
        };
        let end = self.end.max(left + 1);
        if stride == self.stride && end * stride <= self.array.len() {
            self.end = end;
            return Some(true);
        }
        let places = end * stride * 9 / 8;
        let most = (self.len * PLACES_PER_PAIR).max(PLACES);
        // A line takes no more than its classes.
        if places > most && stride > 1 && end > 1 {
            return Some(false);
        }
        if places.saturating_sub(self.array.len()) * 4 > room {
            return None;
        }
        if stride == self.stride {
            self.array.reserve_exact(places - self.array.len());
            self.array.resize(places, UNKNOWN);
        } else {
            let old = std::mem::replace(&mut self.array, vec![UNKNOWN; places]);
            let rows = old.chunks_exact(self.stride.max(1));
            for (row, new) in rows.zip(self.array.chunks_exact_mut(stride)) {
                new[..row.len()].copy_from_slice(row);
            }
            self.stride = stride;
        }
        self.end = end;
        Some(true)
    }

    /// Switches to hashing for all pairs.
    #[cold]
    fn hash_all(&mut self) {
        let stride = std::mem::take(&mut self.stride);
        for (place, number) in std::mem::take(&mut self.array).into_iter().enumerate() {
            if number != UNKNOWN {
                let pair = pair((place / stride) as u32, (place % stride) as u32);
                self.set_hashed(pair, number);
            }
        }
    }

    fn set_hashed(&mut self, pair: u64, number: u32) {
        let hash = mix(pair);
        match self.hashed.find_mut(hash, |(other, _)| *other == pair) {
            Some((_, known)) => *known = number,
            None => {
                let hasher = |(pair, _): &(u64, u32)| mix(*pair);
                self.hashed.insert_unique(hash, (pair, number), hasher);
            }
        }
    }

    /// Removes these numbers from up to `places` more places of the array, and at its end from the
    /// table; returns whether all were searched.
    fn forget(&mut self, places: usize, is_gone: impl Fn(u32) -> bool) -> bool {
        let end = self.array.len();
        let begin = self.searched.min(end);
        self.searched = end.min(begin.saturating_add(places));
        for number in &mut self.array[begin..self.searched] {
            if *number != UNKNOWN && is_gone(*number) {
                *number = UNKNOWN;
                self.len -= 1;
            }
        }
        if self.searched < end {
            return false;
        }
        self.searched = 0;
        let hashed = self.hashed.len();
        self.hashed.retain(|(_, number)| !is_gone(*number));
        self.len -= hashed - self.hashed.len();
        true
    }

    /// Whether one more could need more than `room` bytes.
    fn is_full(&self, room: usize) -> bool {
        let hashed = &self.hashed;
        hashed.len() == hashed.capacity() && hashed.capacity() * PAIR_BYTES > room
    }

    fn heap_bytes(&self) -> usize {
        self.array.capacity() * 4 + self.hashed.capacity() * PAIR_BYTES
    }
}

fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

/// Hash of a pair. Classes are numbers that we assign in sequence, so nobody outside can make them
/// collide.
#[inline]
fn mix(pair: u64) -> u64 {
    let folded = u128::from(pair) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
    (folded as u64) ^ (folded >> 64) as u64
}

/// The classes of one part.
#[derive(Debug)]
struct Classes {
    part: RecordPart,
    /// Class of each id; [`UNKNOWN`] if not looked up yet.
    by_number: Vec<u32>,
    /// A class is a combination of key ids. It outlives their strings: when the ids are reused for
    /// other strings, all groups of the class are gone, since groups hold their strings.
    known: std::collections::HashMap<PartClass, u32, ahash::RandomState>,
}

impl Classes {
    fn new(part: RecordPart) -> Self {
        Self { part, by_number: Vec::new(), known: Default::default() }
    }

    /// The class of an id, or [`UNKNOWN`].
    #[inline]
    fn get(&self, number: u32) -> u32 {
        self.by_number.get(number as usize).copied().unwrap_or(UNKNOWN)
    }

    /// The class of an id; `None` if there is no room for it.
    fn number(
        &mut self,
        number: u32,
        room: usize,
        class: impl FnOnce() -> PartClass,
    ) -> Option<u32> {
        let at = number as usize;
        if !grow(&mut self.by_number, at, room) {
            return None;
        }
        if self.by_number[at] == UNKNOWN {
            let next = self.known.len() as u32;
            self.by_number[at] = *self.known.entry(class()).or_insert(next);
        }
        Some(self.by_number[at])
    }

    fn heap_bytes(&self) -> usize {
        self.by_number.capacity() * 4 + self.known.capacity() * CLASS_BYTES
    }
}

/// Extends a list to index `at`, if that takes no more than `room` bytes; returns whether it did.
/// It grows by an eighth instead of doubling, because ids are reused, up to a largest one.
fn grow(list: &mut Vec<u32>, at: usize, room: usize) -> bool {
    if at < list.len() {
        return true;
    }
    if at >= list.capacity() {
        let entries = at + 16 + at / 8;
        if (entries - list.capacity()) * 4 > room {
            return false;
        }
        list.reserve_exact(entries - list.len());
    }
    list.resize(at + 1, UNKNOWN);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids that differ only in what the aggregate does not see share a class, and so a group.
    #[test]
    fn combinations_are_of_what_the_aggregate_sees() {
        let mut cache = GroupCache::new([true, false, true]);
        let class = |part: RecordPart| {
            let mut class = PartClass::default();
            class[0] = part as u32;
            class
        };
        let record = |origin, timer_tags| RecordIds { origin, request_tags: 9, timer_tags };
        let find = |cache: &GroupCache, origin, timer_tags| {
            cache.find(cache.request(origin, 9), timer_tags)
        };
        assert_eq!(find(&cache, 1, 2), UNKNOWN);
        cache.remember(record(1, 2), 7, 1, usize::MAX, class);
        assert_eq!(find(&cache, 1, 2), 7);
        // Another origin with the same key ids: known as soon as its class is.
        assert_eq!(find(&cache, 5, 2), UNKNOWN);
        cache.remember(record(5, 2), 7, 1, usize::MAX, class);
        assert_eq!(cache.groups.len, 1);
        // A freed id must be looked up again; a removed group is forgotten.
        cache.forget(&Freed { origins: vec![1], tag_sets: vec![] });
        assert_eq!(find(&cache, 1, 2), UNKNOWN);
        assert_eq!(find(&cache, 5, 2), 7);
        assert!(cache.purge(usize::MAX, |group| group == 7));
        assert_eq!(find(&cache, 5, 2), UNKNOWN);
        assert_eq!(cache.groups.len, 0);
    }

    /// In any shape, pairs are found as in a map.
    #[test]
    fn pairs_are_those_of_a_map() {
        let (mut arrays, mut tables) = (0, 0);
        for (lefts, rights, steps) in
            [(1, 5_000, 900), (5_000, 1, 900), (60, 40, 4_000), (90_000, 70_000, 4_000)]
        {
            let mut dice = crate::dice::Dice(7);
            let mut next = |below: u64| dice.below(below) as u32;
            let mut pairs = ClassPairs::default();
            let mut model = std::collections::HashMap::new();
            for step in 0..steps {
                let at = (next(lefts), next(rights));
                assert_eq!(pairs.get(at.0, at.1), model.get(&at).copied().unwrap_or(UNKNOWN));
                pairs.set(at.0, at.1, step, usize::MAX);
                model.insert(at, step);
                if step % 500 == 499 {
                    while !pairs.forget(100, |number| number % 3 == 0) {}
                    model.retain(|_, number| *number % 3 != 0);
                }
                assert_eq!(pairs.len, model.len());
            }
            for (at, number) in model {
                assert_eq!(pairs.get(at.0, at.1), number);
            }
            arrays += usize::from(pairs.hashed.is_empty());
            tables += usize::from(pairs.array.is_empty());
        }
        assert_eq!((arrays, tables), (3, 1));
    }
}
