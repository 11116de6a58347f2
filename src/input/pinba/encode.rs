//! Encodes a checked request as a record.
//!
//! Called by `decode` (mod.rs) after [`Lists::check`], on a receiver thread: appends texts, tags
//! and timers to a [`RecordWriter`]. Dictionary words become strings of the record when the first
//! tag uses them.
//!
//! Why a record takes at most [`RECORD_GROWTH_MAX`] (4) times the bytes of the request on the wire:
//! the head stands for fields 1 to 9, which take 27 bytes when the texts are empty; a text grows by
//! escapes, one byte to four; a word takes 4 for 2; a tag 4 for 2 (packed indexes); a timer that is
//! kept 26 for 6 (packed) and it has a tag, so 30 for 8.

use super::dictionary::Word;
use super::request::{Fields, Lists};
use super::rule_memo::RuleMemo;
use crate::input::record::{
    HEAD_BYTES, Hasher, Interned, RecordWriter, Repair, STRING_BYTES, TAG_BYTES, TIMER_BYTES,
    TagSetWriter, TextLimits,
};
use crate::input::rewrite::{Rewrite, TagOf, TextField};
use crate::limits::{RECORD_GROWTH_MAX, REQUEST_TAGS_MAX, TIMER_TAGS_MAX};

// The calculation in the header comment. Fewest bytes on the wire: fields 1-9 27, a word 2, a pair
// 2, a timer 6 and one pair.
const _: () = {
    assert!(HEAD_BYTES <= RECORD_GROWTH_MAX * 27);
    assert!(STRING_BYTES <= RECORD_GROWTH_MAX * 2);
    assert!(TAG_BYTES <= RECORD_GROWTH_MAX * 2);
    assert!(TIMER_BYTES + TAG_BYTES <= RECORD_GROWTH_MAX * (6 + 2));
};

/// The record being written, and results of name rules for the tags of its request.
#[derive(Debug)]
pub(super) struct Encoder {
    pub(super) record: RecordWriter,
    memo: RuleMemo,
}

/// The source of one request, apart from its fields.
struct Source<'a, R> {
    message: &'a [u8],
    rules: &'a mut R,
    dictionary: &'a mut [Word],
}

impl Encoder {
    /// `rules_for_tags`: whether any rule applies to tags.
    pub(super) fn new(limits: TextLimits, hasher: Hasher, rules_for_tags: bool) -> Self {
        Self { record: RecordWriter::new(limits, hasher), memo: RuleMemo::new(rules_for_tags) }
    }

    /// Begins the record of a request, parsed as `fields`.
    #[inline(always)]
    pub(super) fn begin<R: Rewrite>(&mut self, fields: &Fields<'_>, rules: &mut R) {
        let record = &mut self.record;
        record.begin();
        record.text(TextField::Hostname, Some(fields.hostname), rules);
        record.text(TextField::ServerName, Some(fields.server_name), rules);
        record.text(TextField::ScriptName, Some(fields.script_name), rules);
        record.text(TextField::Schema, fields.schema, rules);
        record.end_texts(fields.numbers.status);
    }

    /// Appends the tags of the request, then its timers with theirs: `lists`, parsed from `message`
    /// and checked.
    #[inline]
    pub(super) fn all_tags<R: Rewrite>(
        &mut self,
        message: &[u8],
        lists: &mut Lists,
        rules: &mut R,
    ) {
        // Taken out, since its words change while the other lists are read.
        let mut dictionary = std::mem::take(&mut lists.dictionary);
        let mut from = Source { message, rules, dictionary: &mut dictionary };
        if from.rules.has_tag_chains() {
            self.memo.begin(from.dictionary.len());
        }
        let (names, values) = (&lists.tag_names, &lists.tag_values);
        let tags = self.tags(TagOf::Request, names, values, REQUEST_TAGS_MAX, &mut from);
        self.record.end_request_tags(&tags);
        self.timers(lists, &mut from);
        lists.dictionary = dictionary;
    }

    /// Appends the timers, whose tags and those of the request are left out.
    #[inline(always)]
    pub(super) fn timers_without_tags(&mut self, lists: &Lists) {
        let none = self.record.tag_set(0);
        self.record.end_request_tags(&none);
        let timers = lists.timer_hit_counts.iter().zip(&lists.timer_values);
        for (at, (&hit_count, &value)) in timers.enumerate() {
            let place = self.begin_timer(lists, at, hit_count, value);
            self.record.end_timer(place, &none);
        }
    }

    /// Starts the timer that came at this place.
    #[inline(always)]
    fn begin_timer(&mut self, lists: &Lists, at: usize, hit_count: u32, value: f32) -> usize {
        let ru_utime = lists.timer_ru_utimes.get(at).copied().unwrap_or(0.0);
        let ru_stime = lists.timer_ru_stimes.get(at).copied().unwrap_or(0.0);
        self.record.begin_timer(hit_count, value, ru_utime, ru_stime)
    }

    /// Appends the timers. On the wire they are columns: hit counts, values, tag counts, rusage (or
    /// none), and two flat lists of dictionary indexes in which each timer owns the next `tag
    /// count` entries:
    ///
    /// ```text
    ///   tag counts       2       1     3
    ///   tag names     [ 3 5 ] [ 3 ] [ 3 5 7 ]
    ///   tag values    [ 4 6 ] [ 8 ] [ 4 6 9 ]
    /// ```
    ///
    /// The counts agree (V1, V6). A skipped timer (V7, V8) takes its tags along, so that the later
    /// ones keep theirs.
    #[inline]
    fn timers<R: Rewrite>(&mut self, lists: &Lists, from: &mut Source<'_, R>) {
        let mut names_left = lists.timer_tag_names.as_slice();
        let mut values_left = lists.timer_tag_values.as_slice();
        let hits_and_values = lists.timer_hit_counts.iter().zip(&lists.timer_values);
        let timers = hits_and_values.zip(&lists.timer_tag_counts);
        for (at, ((&hit_count, &value), &tag_count)) in timers.enumerate() {
            let names = names_left.split_at_checked(tag_count as usize);
            let values = values_left.split_at_checked(tag_count as usize);
            let (Some((names, other_names)), Some((values, other_values))) = (names, values) else {
                return;
            };
            (names_left, values_left) = (other_names, other_values);
            if hit_count == 0 {
                self.record.count(Repair::TimerWithoutHits);
                continue;
            }
            if tag_count == 0 {
                self.record.count(Repair::TimerWithoutTags);
                continue;
            }
            let place = self.begin_timer(lists, at, hit_count, value);
            let tags = self.tags(TagOf::Timer, names, values, TIMER_TAGS_MAX, from);
            self.record.end_timer(place, &tags);
        }
    }

    /// Appends tag pairs.
    #[inline]
    fn tags<R: Rewrite>(
        &mut self,
        of: TagOf,
        names: &[u32],
        values: &[u32],
        max: usize,
        from: &mut Source<'_, R>,
    ) -> TagSetWriter {
        let mut set = self.record.tag_set(max);
        for (name, value) in names.iter().zip(values) {
            let (name, value) = (*name as usize, *value as usize);
            let words = (from.dictionary.get(name), from.dictionary.get(value));
            let (Some(&name_word), Some(&value_word)) = words else {
                self.record.count(Repair::TagIndex);
                continue;
            };
            let (name_bytes, value_bytes) = (name_word.span.len(), value_word.span.len());
            if !self.record.has_room(&mut set, name_bytes, value_bytes) {
                continue;
            }
            let name_string = self.word(name, name_word, from);
            let value_string = if from.rules.has_tag_chains() {
                self.value_by_rules(of, (name, name_string), (value, value_word), from)
            } else {
                self.word(value, value_word, from)
            };
            self.record.tag(&mut set, name_string, value_string);
        }
        set
    }

    /// The record's string for `word`, which has this index in the dictionary.
    #[inline(always)]
    fn word<R>(&mut self, index: usize, word: Word, from: &mut Source<'_, R>) -> Interned {
        if let Some(known) = word.interned() {
            return known;
        }
        match from.dictionary.get_mut(index) {
            Some(word) => word.intern(from.message, &mut self.record),
            // Unreachable: the word comes from the dictionary.
            None => Interned { number: 0, hash: 0 },
        }
    }

    /// The string for the value of a tag, after the rules; name and value come with their
    /// dictionary indexes. The value as sent becomes a string only if it is kept.
    fn value_by_rules<R: Rewrite>(
        &mut self,
        of: TagOf,
        (name_at, name): (usize, Interned),
        (value_at, value): (usize, Word),
        from: &mut Source<'_, R>,
    ) -> Interned {
        let chain = self
            .memo
            .chain(of, name_at, || from.rules.tag_chain(of, self.record.string_text(name)));
        let Some(chain) = chain else { return self.word(value_at, value, from) };
        if let Some(known) = self.memo.value(chain, value_at) {
            return known;
        }
        let sent = value.span.of(from.message);
        let rewritten = self.record.rewritten_string(chain, sent, from.rules);
        let made = rewritten.unwrap_or_else(|| self.word(value_at, value, from));
        self.memo.note_value(chain, value_at, made);
        made
    }
}
