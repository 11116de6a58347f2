//! From a record's numbers in the pool to its group, without looking at names.
//!
//! The group of a record depends on its origin, its request tags or its timer tags. In most aggregates it is one of these,
//! and an array over that number leads to the group. In the others each number first leads to a *key*, which stands for
//! all numbers of that part that the aggregate cannot tell apart (origins that differ only in a field that no report of it
//! shows), and the keys together to the group. So names are looked at once for each origin and each tag set, not once for
//! each combination. A cached group holds the group's generation too: when the group's number is given to another, it is void.

use hashbrown::HashTable;

use super::group_key::{PartKeyIds, RecordIds, RecordPart, RecordParts};
use super::groups::Groups;
use crate::pool::Freed;

const NOTHING: u32 = u32::MAX;
const SKIPPED: u32 = u32::MAX - 1;

/// Combinations that are remembered before the memory is worth more than the cached groups, beside two for each group.
const COMBINATIONS_MAX: usize = 1 << 16;

/// What a combination takes.
const COMBINATION_BYTES: usize = size_of::<([u32; 3], Target)>() + 2;

/// What a key takes.
const KEYS_BYTES: usize = size_of::<(PartKeyIds, u32)>() + 2;

/// What is known of a record: the group that it belongs to, or none if the aggregate does not count it; `None`: it must be
/// looked up.
pub(super) type Known = Option<Option<u32>>;

/// Cached groups of one aggregate.
#[derive(Debug)]
pub(super) enum GroupCache {
    /// By the number of one part.
    One(RecordPart, Vec<Target>),
    /// By keys of several parts.
    Several(Box<Combinations>),
}

/// Where a cached group leads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    group: u32,
    generation: u32,
}

const UNKNOWN: Target = Target {
    group: NOTHING,
    generation: 0,
};

impl Target {
    fn of(found: Option<u32>, groups: &Groups) -> Self {
        Self {
            group: found.unwrap_or(SKIPPED),
            generation: found.map_or(0, |group| groups.generation(group)),
        }
    }

    #[inline]
    fn known(self, groups: &Groups) -> Known {
        match self.group {
            NOTHING => None,
            SKIPPED => Some(None),
            group => (groups.generation(group) == self.generation).then_some(Some(group)),
        }
    }
}

impl GroupCache {
    pub(super) fn new(parts: RecordParts) -> Self {
        match parts {
            [_, false, false] => Self::One(RecordPart::Origin, Vec::new()),
            [false, true, false] => Self::One(RecordPart::RequestTags, Vec::new()),
            [false, false, true] => Self::One(RecordPart::TimerTags, Vec::new()),
            _ => Self::Several(Box::new(Combinations::new(parts))),
        }
    }

    /// What is known of a record.
    #[inline]
    pub(super) fn find(&self, record: RecordIds, groups: &Groups) -> Known {
        match self {
            Self::One(part, targets) => {
                let target = targets.get(record.number(*part) as usize);
                target.and_then(|target| target.known(groups))
            }
            Self::Several(combinations) => combinations.find(record, groups),
        }
    }

    /// Remembers the outcome of a look-up, if that takes no more than `room` bytes. `key_ids` tells what the aggregate sees of
    /// one part of the record.
    pub(super) fn remember(
        &mut self,
        record: RecordIds,
        found: Option<u32>,
        groups: &Groups,
        room: usize,
        key_ids: impl Fn(RecordPart) -> PartKeyIds,
    ) {
        let target = Target::of(found, groups);
        match self {
            Self::One(part, targets) => {
                let at = record.number(*part) as usize;
                if grow(targets, at, UNKNOWN, room) {
                    targets[at] = target;
                }
            }
            Self::Several(combinations) => {
                let many = groups.end() as usize * 2 + COMBINATIONS_MAX;
                // Most of them lead to what is not there any more: the memory is for those that come now.
                if combinations.targets.len() > many || combinations.is_full(room) {
                    **combinations = Combinations::new(combinations.parts);
                }
                combinations.remember(record, target, room, key_ids);
            }
        }
    }

    /// Numbers that stand for something else from now on.
    pub(super) fn forget(&mut self, freed: &Freed) {
        match self {
            Self::One(part, targets) => {
                for &id in part.freed(freed) {
                    if let Some(target) = targets.get_mut(id as usize) {
                        *target = UNKNOWN;
                    }
                }
            }
            Self::Several(combinations) => {
                for keys in combinations.keys.iter_mut().flatten() {
                    keys.forget(freed);
                }
            }
        }
    }

    /// Bytes taken.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::One(_, targets) => targets.capacity() * size_of::<Target>(),
            Self::Several(combinations) => {
                let keys: usize = combinations
                    .keys
                    .iter()
                    .flatten()
                    .map(Keys::heap_bytes)
                    .sum();
                keys + combinations.targets.capacity() * COMBINATION_BYTES
            }
        }
    }
}

/// Cached groups over several parts.
#[derive(Debug)]
pub(super) struct Combinations {
    parts: RecordParts,
    /// By part; `None` for one that does not matter.
    keys: [Option<Keys>; 3],
    targets: HashTable<([u32; 3], Target)>,
}

impl Combinations {
    fn new(parts: RecordParts) -> Self {
        let keys = RecordPart::ALL.map(|part| parts[part as usize].then(|| Keys::new(part)));
        Self {
            parts,
            keys,
            targets: HashTable::new(),
        }
    }

    #[inline]
    fn find(&self, record: RecordIds, groups: &Groups) -> Known {
        let mut combination = [0; 3];
        for ((place, keys), part) in combination.iter_mut().zip(&self.keys).zip(RecordPart::ALL) {
            if let Some(keys) = keys {
                match keys.by_number.get(record.number(part) as usize) {
                    None | Some(&NOTHING) => return None,
                    Some(&key) => *place = key,
                }
            }
        }
        let found = self
            .targets
            .find(mix(combination), |(other, _)| *other == combination);
        found.and_then(|(_, target)| target.known(groups))
    }

    /// Whether another could need more than `room` bytes.
    fn is_full(&self, room: usize) -> bool {
        let full =
            |len: usize, capacity: usize, bytes: usize| len == capacity && capacity * bytes > room;
        let Self { keys, targets, .. } = self;
        let mut keys = keys.iter().flatten().map(|keys| &keys.by_key_ids);
        full(targets.len(), targets.capacity(), COMBINATION_BYTES)
            || keys.any(|key_ids| full(key_ids.len(), key_ids.capacity(), KEYS_BYTES))
    }

    fn remember(
        &mut self,
        record: RecordIds,
        target: Target,
        room: usize,
        key_ids: impl Fn(RecordPart) -> PartKeyIds,
    ) {
        let mut combination = [0; 3];
        for (place, keys) in combination.iter_mut().zip(&mut self.keys) {
            if let Some(keys) = keys {
                let part = keys.part;
                match keys.key(record.number(part), room, || key_ids(part)) {
                    Some(key) => *place = key,
                    None => return,
                }
            }
        }
        let hash = mix(combination);
        match self
            .targets
            .find_mut(hash, |(other, _)| *other == combination)
        {
            Some((_, known)) => *known = target,
            None => {
                let hasher = |(combination, _): &([u32; 3], Target)| mix(*combination);
                self.targets
                    .insert_unique(hash, (combination, target), hasher);
            }
        }
    }
}

/// The keys of one part.
#[derive(Debug)]
struct Keys {
    part: RecordPart,
    /// Key of each number; [`NOTHING`] where it was not looked up yet.
    by_number: Vec<u32>,
    /// Key of each combination of key ids.
    by_key_ids: std::collections::HashMap<PartKeyIds, u32, ahash::RandomState>,
}

impl Keys {
    fn new(part: RecordPart) -> Self {
        Self {
            part,
            by_number: Vec::new(),
            by_key_ids: Default::default(),
        }
    }

    /// `None` when there is no room.
    fn key(
        &mut self,
        number: u32,
        room: usize,
        key_ids: impl FnOnce() -> PartKeyIds,
    ) -> Option<u32> {
        let at = number as usize;
        if !grow(&mut self.by_number, at, NOTHING, room) {
            return None;
        }
        if self.by_number[at] == NOTHING {
            let next = self.by_key_ids.len() as u32;
            self.by_number[at] = *self.by_key_ids.entry(key_ids()).or_insert(next);
        }
        Some(self.by_number[at])
    }

    fn forget(&mut self, freed: &Freed) {
        for &id in self.part.freed(freed) {
            if let Some(key) = self.by_number.get_mut(id as usize) {
                *key = NOTHING;
            }
        }
    }

    fn heap_bytes(&self) -> usize {
        self.by_number.capacity() * 4 + self.by_key_ids.capacity() * KEYS_BYTES
    }
}

/// Makes place number `at` be there, if that takes no more than `room` bytes; then true. It grows by an eighth and not by
/// doubling, because it holds numbers that are given away again and again, up to a largest one.
fn grow<T: Copy>(list: &mut Vec<T>, at: usize, nothing: T, room: usize) -> bool {
    if at < list.len() {
        return true;
    }
    if at >= list.capacity() {
        let entries = at + 16 + at / 8;
        if (entries - list.capacity()) * size_of::<T>() > room {
            return false;
        }
        list.reserve_exact(entries - list.len());
    }
    list.resize(at + 1, nothing);
    true
}

/// Hash of a combination. Keys are numbers that we hand out in turn, so nobody outside can make them collide.
#[inline]
fn mix([origin, request_tags, timer_tags]: [u32; 3]) -> u64 {
    let low = u64::from(origin) | u64::from(timer_tags) << 32;
    let folded = u128::from(low ^ u64::from(request_tags).rotate_left(20))
        * u128::from(0x9e37_79b9_7f4a_7c15_u64);
    (folded as u64) ^ (folded >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that differ in what the aggregate does not see share a key, and so a target.
    #[test]
    fn combinations_are_of_what_the_family_sees() {
        let mut group_cache = GroupCache::new([true, false, true]);
        let mut groups = Groups::new(0, false);
        let group = groups.insert(&Default::default());
        let key_ids = |part: RecordPart| {
            let mut key_ids = PartKeyIds::default();
            key_ids[0] = part as u32;
            key_ids
        };
        let record = |origin, timer_tags| RecordIds {
            origin,
            request_tags: 9,
            timer_tags,
        };
        assert_eq!(group_cache.find(record(1, 2), &groups), None);
        group_cache.remember(record(1, 2), Some(group), &groups, usize::MAX, key_ids);
        assert_eq!(group_cache.find(record(1, 2), &groups), Some(Some(group)));
        // Another origin with the same key ids: known as soon as its key is.
        assert_eq!(group_cache.find(record(5, 2), &groups), None);
        group_cache.remember(record(5, 2), Some(group), &groups, usize::MAX, key_ids);
        let GroupCache::Several(combinations) = &group_cache else {
            panic!("two parts")
        };
        assert_eq!(combinations.targets.len(), 1);
        // A freed number must be looked up again; a group that went leads nowhere.
        group_cache.forget(&Freed {
            origins: vec![1],
            tag_sets: vec![],
        });
        assert_eq!(group_cache.find(record(1, 2), &groups), None);
        assert_eq!(group_cache.find(record(5, 2), &groups), Some(Some(group)));
        groups.remove(group);
        assert_eq!(group_cache.find(record(5, 2), &groups), None);
    }
}
