//! The directory: numbers and keys of the groups in second logs.
//!
//! A group gets its number, and its key is written, on its first gain while somebody reads. When
//! the group is removed, the number becomes free at the end of the second: within a second it
//! refers to one group. A reader applies the [`DirectoryChanges`] of each second before it reads
//! the gains, also for a second it did not get to read.
//!
//! ```text
//!   merger: Directory --(DirectoryChanges, in each second log)--> KnownGroups: reader, in `delta`
//! ```
//!
//! Memory is bounded on both sides: groups for which there is no room are counted as
//! [`OTHER_GROUP`], all of whose values are `(other)`, and when room is scarce, as many groups
//! without a gain in a second are forgotten as take too much: each has to be written, and its rows
//! found, anew on its next gain. Each text is stored once, however many keys have it.

use std::collections::HashMap;

use ahash::RandomState;

use super::key_table::KeyTable;
use crate::pool::strings::{NONE, OTHER, StringInterner};

/// All groups without a number of their own.
pub(super) const OTHER_GROUP: u32 = 0;

/// The number of an unknown group, and of an absent value's text.
const NOTHING: u32 = u32::MAX;

/// Overhead of a text in the reader, in bytes.
const TEXT_BYTES: usize = 48;
/// Overhead of a group in addition to its key, and approximate bytes in each report.
const GROUP_BYTES: usize = 16;
const ROW_BYTES: usize = 16;

/// Changes of a directory in one second.
#[derive(Debug, Default)]
pub struct DirectoryChanges {
    /// Numbers of groups removed in the second before, and of texts.
    gone: [Vec<u32>; 2],
    /// Numbers of new texts, each with its end in `bytes`.
    texts: Vec<(u32, u32)>,
    bytes: Vec<u8>,
    /// Numbers of new groups, each followed by the numbers of its values' texts.
    groups: Vec<u32>,
    values: Vec<u32>,
}

impl DirectoryChanges {
    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        let numbers = [&self.gone[0], &self.gone[1], &self.groups, &self.values];
        let numbers: usize = numbers.iter().map(|it| it.capacity() * 4).sum();
        numbers + self.texts.capacity() * 8 + self.bytes.capacity()
    }
}

/// Items by number. A number is reused only after the second in which it became free.
#[derive(Debug, Default)]
struct Numbered<T> {
    items: Vec<T>,
    free: Vec<u32>,
    gone: Vec<u32>,
}

impl<T> Numbered<T> {
    fn add(&mut self, item: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.items[number as usize] = item;
            return number;
        }
        self.items.push(item);
        self.items.len() as u32 - 1
    }

    fn end_second(&mut self) -> Vec<u32> {
        let gone = std::mem::take(&mut self.gone);
        self.free.extend(&gone);
        gone
    }

    fn used(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

/// A text: the number of groups that have it, and its length.
#[derive(Debug, Clone, Copy, Default)]
struct Text {
    uses: u32,
    len: u32,
}

/// The writer's end.
#[derive(Debug, Default)]
pub(super) struct Directory {
    /// Numbers of groups, by their number in the aggregate.
    number_of: Vec<u32>,
    /// The group, and whether it has a gain in this second.
    known: Numbered<(u32, bool)>,
    /// The number from which on idle groups are forgotten next.
    hand: usize,
    /// Numbers of texts, by string id.
    text_of: HashMap<u32, u32, RandomState>,
    texts: Numbered<Text>,
    text_bytes: usize,
    /// Bytes of a group.
    group_bytes: usize,
    /// Since the last log was taken.
    pub(super) changes: DirectoryChanges,
}

impl Directory {
    /// A directory with [`OTHER_GROUP`] alone; groups have `keys` keys.
    pub(super) fn new(keys: usize, strings: &StringInterner) -> Self {
        let mut new = Self::default();
        new.push(NOTHING, std::iter::repeat_n(OTHER, keys), strings);
        new
    }

    /// Sets the number of keys per group, and of reports that read it.
    pub(super) fn expect(&mut self, keys: usize, reports: usize) {
        self.group_bytes = GROUP_BYTES + 4 * keys + ROW_BYTES * reports;
    }

    /// The number of a group with a gain, whose key has these strings.
    #[inline]
    pub(super) fn number(
        &mut self,
        group: u32,
        key: impl Iterator<Item = u32>,
        strings: &StringInterner,
    ) -> u32 {
        let at = group as usize;
        match self.number_of.get(at) {
            Some(&known) if known != NOTHING => {
                self.known.items[known as usize].1 = true;
                known
            }
            _ => {
                self.number_of.resize(self.number_of.len().max(at + 1), NOTHING);
                self.number_of[at] = self.push(group, key, strings);
                self.number_of[at]
            }
        }
    }

    fn push(
        &mut self,
        group: u32,
        key: impl Iterator<Item = u32>,
        strings: &StringInterner,
    ) -> u32 {
        for string in key {
            let text = if string == NONE { NOTHING } else { self.text(string, strings) };
            self.changes.values.push(text);
        }
        let number = self.known.add((group, true));
        self.changes.groups.push(number);
        number
    }

    /// The number of a string's text, counted for one more group.
    fn text(&mut self, string: u32, strings: &StringInterner) -> u32 {
        let Self { texts, text_bytes, changes, .. } = self;
        let number = *self.text_of.entry(string).or_insert_with(|| {
            let text = strings.bytes(string);
            let number = texts.add(Text { uses: 0, len: text.len() as u32 });
            *text_bytes += TEXT_BYTES + text.len();
            changes.bytes.extend_from_slice(text);
            changes.texts.push((number, changes.bytes.len() as u32));
            number
        });
        texts.items[number as usize].uses += 1;
        number
    }

    /// Removes a group whose key has these strings.
    pub(super) fn forget(&mut self, group: u32, key: impl Iterator<Item = u32>) {
        let Some(number) = self.number_of.get_mut(group as usize) else { return };
        let number = std::mem::replace(number, NOTHING);
        if number == NOTHING {
            return;
        }
        self.known.gone.push(number);
        for string in key {
            let Some(&number) = self.text_of.get(&string) else { continue };
            let text = &mut self.texts.items[number as usize];
            text.uses -= 1;
            if text.uses == 0 {
                self.text_of.remove(&string);
                self.texts.gone.push(number);
            }
        }
    }

    /// Ends the second. Forgets groups without a gain in it until `excess` bytes are free, each
    /// time others; `keys` has their keys.
    pub(super) fn end_second(&mut self, excess: usize, keys: &KeyTable) -> DirectoryChanges {
        let mut surplus = excess.div_ceil(self.group_bytes.max(1));
        for at in (self.hand..self.known.items.len()).chain(0..self.hand) {
            let (group, gained) = &mut self.known.items[at];
            let group = *group;
            let is_idle = !std::mem::take(gained);
            let is_it = || self.number_of.get(group as usize) == Some(&(at as u32));
            if surplus > 0 && is_idle && is_it() {
                self.forget(group, keys.key(group));
                surplus -= 1;
                self.hand = at + 1;
            }
        }
        let changes = std::mem::take(&mut self.changes);
        let gone = [self.known.end_second(), self.texts.end_second()];
        let texts = gone[1].iter().map(|&text| self.texts.items[text as usize]);
        let freed: usize = texts.map(|it| TEXT_BYTES + it.len as usize).sum();
        self.text_bytes -= freed;
        self.changes.gone = gone;
        changes
    }

    /// Bytes that readers need for it.
    pub(super) fn bytes(&self) -> usize {
        self.text_bytes + self.known.used() * self.group_bytes
    }
}

/// A reader's knowledge of the groups of a directory.
#[derive(Debug, Default)]
pub struct KnownGroups {
    /// Number of keys per group.
    keys: usize,
    /// Texts by number.
    texts: Vec<Box<[u8]>>,
    /// Text numbers, `keys` per group.
    values: Vec<u32>,
}

impl KnownGroups {
    /// For groups with this many keys, none yet.
    pub(super) fn new(keys: usize) -> Self {
        Self { keys, ..Self::default() }
    }

    /// Applies changes; calls `went` with the numbers of removed groups.
    pub fn apply(&mut self, changes: &DirectoryChanges, went: impl FnMut(u32)) {
        let [groups, texts] = &changes.gone;
        groups.iter().copied().for_each(went);
        for &text in texts {
            self.texts[text as usize] = Box::default();
        }
        let mut begin = 0;
        for &(number, end) in &changes.texts {
            let (number, end) = (number as usize, end as usize);
            self.texts.resize_with(self.texts.len().max(number + 1), Box::default);
            self.texts[number] = changes.bytes[begin..end].into();
            begin = end;
        }
        for (at, &number) in changes.groups.iter().enumerate() {
            let begin = number as usize * self.keys;
            let end = begin + self.keys;
            self.values.resize(self.values.len().max(end), NOTHING);
            let values = &changes.values[at * self.keys..][..self.keys];
            self.values[begin..end].copy_from_slice(values);
        }
    }

    /// The value of a group's key `at`, if it has one.
    pub(super) fn value(&self, group: u32, at: usize) -> Option<&[u8]> {
        let text = self.values[group as usize * self.keys + at];
        (text != NOTHING).then(|| &*self.texts[text as usize])
    }

    /// Whether that value found no room. A text that was sent as `(other)` has another number.
    pub(super) fn is_other(&self, group: u32, at: usize) -> bool {
        let value = |group: u32| self.values[group as usize * self.keys + at];
        value(group) == value(OTHER_GROUP)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::input::record::Hasher;
    use crate::report::definition::DEFINITION_KEYS_MAX;

    /// A group that goes is written anew on its next gain, so no more go than take too much, and
    /// not those that were spared the last time.
    #[test]
    fn as_many_idle_groups_go_as_take_too_much() {
        let mut strings = StringInterner::new(1 << 20, Hasher::new());
        let (mut keys, mut directory) = (KeyTable::new(1), Directory::new(1, &strings));
        directory.expect(1, 1);
        let groups = 0..100_u32;
        for at in groups.clone() {
            let mut key = [NONE; DEFINITION_KEYS_MAX];
            key[0] = strings.intern(format!("/{at}").as_bytes());
            assert_eq!(keys.insert(&key), at);
        }
        let mut second = |gaining: Range<u32>, surplus: usize| {
            for group in gaining {
                directory.number(group, keys.key(group), &strings);
            }
            let changes = directory.end_second(surplus * directory.group_bytes, &keys);
            let is_known = |group: &u32| directory.number_of[*group as usize] != NOTHING;
            let forgotten: Vec<u32> = groups.clone().filter(|it| !is_known(it)).collect();
            (changes.groups.len(), forgotten)
        };
        // That of `(other)` is new too.
        assert_eq!(second(0..100, 50), (101, Vec::new()), "none is idle");
        assert_eq!(second(0..10, 0), (0, Vec::new()));
        assert_eq!(second(0..10, 3), (0, vec![10, 11, 12]));
        assert_eq!(second(0..10, 2), (0, vec![10, 11, 12, 13, 14]));
        assert_eq!(second(12..15, 80), (3, [10, 11].into_iter().chain(15..95).collect()));
        assert_eq!(second(0..100, 1), (82, Vec::new()));
    }
}
