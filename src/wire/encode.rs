//! A checked request -> a record (`record.rs` has its layout).
//!
//! Called by `decode` (mod.rs) after [`Lists::check`], on a receiver thread. The record is first made ready in four pieces
//! in buffers of its own, so that its exact length is known before the ring is asked for room, and then written with four
//! copies. The buffers are made for the largest record; what outgrows that (only name rules can make it) is refused.

use super::counts::bump;
use super::error::{Mend, Refusal};
use super::hasher::length_code;
use super::record::{HEAD_BYTES, TIMER_BYTES, at, put, timer_at};
use super::request::{Fields, Lists, Word};
use super::rewrite::{Chain, Rewrite, TagMemo, TagOf, TextField};
use super::seconds::clean;
use super::text;
use super::timers::RawTimers;
use super::words::{Resolved, Terms, Texts, low_u32};
use crate::limits::{
    RECORD_BYTES_MAX, REQUEST_TAGS_MAX, TAGS_TEXT_BYTES_MAX, TEXT_BYTES_MAX, TIMER_TAGS_MAX,
};

/// The record in the making: its pieces, and what mending was needed.
#[derive(Debug)]
pub(super) struct Encoder {
    head: [u8; HEAD_BYTES],
    /// Request tags, then timers with theirs.
    body: Vec<u8>,
    texts: Texts,
    asking: Asking,
    /// What was mended in this request.
    mended: [u64; Mend::COUNT],
}

/// What it takes to ask name rules.
#[derive(Debug)]
struct Asking {
    /// A text as sent, made UTF-8.
    sent: Vec<u8>,
    /// What the rules made of it.
    fresh: Vec<u8>,
    /// What they said about the tags of this request.
    tags: TagMemo,
}

/// What one request is encoded from, besides its fields.
struct Run<'a, R> {
    message: &'a [u8],
    terms: &'a Terms,
    rules: &'a mut R,
    dictionary: &'a mut [Word],
}

/// What the head holds beyond the fields.
struct Totals {
    length: usize,
    texts_at: usize,
    received_secs: u32,
    identity_hash: u64,
    lengths: [u16; 4],
    tags_hash: u64,
    tag_count: u16,
    timer_count: u32,
}

impl Encoder {
    /// Bytes of the buffers, those for rules apart, for the memory plan.
    pub(super) const BYTES: usize = Texts::BYTES + RECORD_BYTES_MAX;

    /// `rules_for_tags`: whether there will be any.
    pub(super) fn new(rules_for_tags: bool) -> Self {
        Self {
            head: [0; HEAD_BYTES],
            body: Vec::with_capacity(RECORD_BYTES_MAX),
            texts: Texts::new(),
            asking: Asking {
                sent: Vec::new(),
                fresh: Vec::new(),
                tags: TagMemo::new(rules_for_tags),
            },
            mended: [0; Mend::COUNT],
        }
    }

    /// Makes the record of a checked request ready and gives its length in bytes. `message` is what `fields` and
    /// `lists` were parsed from.
    pub(super) fn prepare<R: Rewrite>(
        &mut self,
        message: &[u8],
        fields: &Fields<'_>,
        lists: &mut Lists,
        received_secs: u32,
        terms: &Terms,
        rules: &mut R,
    ) -> Result<usize, Refusal> {
        self.body.clear();
        self.texts.clear();
        self.mended = [0; Mend::COUNT];
        let timers = RawTimers {
            hit_counts: &lists.timer_hit_counts,
            values: &lists.timer_values,
            tag_counts: &lists.timer_tag_counts,
            tag_names: &lists.timer_tag_names,
            tag_values: &lists.timer_tag_values,
            ru_utimes: &lists.timer_ru_utimes,
            ru_stimes: &lists.timer_ru_stimes,
            timers_done: 0,
            pairs_done: 0,
        };
        let mut run = Run {
            message,
            terms,
            rules,
            dictionary: &mut lists.dictionary,
        };

        let lengths = self.fields(fields, &mut run);
        let identity_hash = terms
            .hasher
            .hash_joined(self.texts.bytes(), lengths, fields.status);
        self.texts.begin_words();
        if run.rules.has_tag_chains() {
            self.asking.tags.begin(run.dictionary.len());
        }
        let (tag_count, tags_hash) = self.tags(
            TagOf::Request,
            &lists.tag_names,
            &lists.tag_values,
            REQUEST_TAGS_MAX,
            &mut run,
        );
        let timer_count = self.timers(timers, &mut run);

        let ends = self.texts.word_ends().len();
        let texts_at = HEAD_BYTES
            .saturating_add(ends)
            .saturating_add(self.body.len());
        let length = texts_at.saturating_add(self.texts.bytes().len());
        if self.texts.overflow() || length > RECORD_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        let totals = Totals {
            length,
            texts_at,
            received_secs,
            identity_hash,
            lengths,
            tags_hash,
            tag_count,
            timer_count,
        };
        self.fill_head(fields, &totals);
        Ok(length)
    }

    /// Appends the record made ready last to `out`.
    #[inline]
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(self.texts.word_ends());
        out.extend_from_slice(&self.body);
        out.extend_from_slice(self.texts.bytes());
    }

    /// What was left out of or changed in the request made ready last.
    pub(super) const fn mended(&self) -> &[u64; Mend::COUNT] {
        &self.mended
    }

    /// Appends the four texts and gives their lengths as the head has them.
    #[inline(always)]
    fn fields<R: Rewrite>(&mut self, fields: &Fields<'_>, run: &mut Run<'_, R>) -> [u16; 4] {
        let limits = run.terms.limits;
        let (cap, script_cap) = (limits.text_bytes(), limits.script_name_bytes());
        let rules = &mut *run.rules;
        [
            self.field(TextField::Hostname, fields.hostname, cap, rules),
            self.field(TextField::ServerName, fields.server_name, cap, rules),
            self.field(TextField::ScriptName, fields.script_name, script_cap, rules),
            match fields.schema {
                Some(schema) => self.field(TextField::Schema, schema, cap, rules),
                None => length_code(None),
            },
        ]
    }

    #[inline]
    fn field<R: Rewrite>(
        &mut self,
        field: TextField,
        raw: &[u8],
        cap: usize,
        rules: &mut R,
    ) -> u16 {
        let start = match rules.field_chain(field) {
            Some(chain) if self.asking.ask(chain, raw, rules, &mut self.mended) => {
                let fresh = &self.asking.fresh;
                self.texts.append(fresh, cap, &mut self.mended)
            }
            _ => self.texts.append(raw, cap, &mut self.mended),
        };
        length_code(Some(self.texts.since(start)))
    }

    /// Appends the timers; gives how many.
    #[inline]
    fn timers<R: Rewrite>(&mut self, timers: RawTimers<'_>, run: &mut Run<'_, R>) -> u32 {
        let mut count = 0_u32;
        for timer in timers {
            let timer = match timer {
                Ok(timer) => timer,
                Err(skipped) => {
                    bump(&mut self.mended, skipped as usize);
                    continue;
                }
            };
            let mut fixed = [0; TIMER_BYTES];
            put(
                &mut fixed,
                timer_at::HIT_COUNT,
                timer.hit_count.to_le_bytes(),
            );
            put(
                &mut fixed,
                timer_at::VALUE,
                self.time(timer.value).to_le_bytes(),
            );
            put(
                &mut fixed,
                timer_at::RU_UTIME,
                self.time(timer.ru_utime).to_le_bytes(),
            );
            put(
                &mut fixed,
                timer_at::RU_STIME,
                self.time(timer.ru_stime).to_le_bytes(),
            );
            let place = self.body.len();
            self.body.extend_from_slice(&fixed);
            let (tag_count, hash) =
                self.tags(TagOf::Timer, timer.names, timer.values, TIMER_TAGS_MAX, run);
            // The tags come behind the fixed part, which has their number and hash.
            let place = self
                .body
                .get_mut(place..)
                .and_then(|tail| tail.first_chunk_mut());
            if let Some(fixed) = place {
                put::<TIMER_BYTES, _>(fixed, timer_at::TAGS_HASH, hash.to_le_bytes());
                put(fixed, timer_at::TAG_COUNT, tag_count.to_le_bytes());
            }
            count = count.saturating_add(1);
        }
        count
    }

    /// Appends tag pairs; gives how many, and the hash of the set.
    #[inline]
    fn tags<R: Rewrite>(
        &mut self,
        of: TagOf,
        names: &[u32],
        values: &[u32],
        max: usize,
        run: &mut Run<'_, R>,
    ) -> (u16, u64) {
        let mut set = run.terms.hasher.tag_set();
        let mut count = 0_u16;
        let text_max = run.terms.limits.text_bytes();
        let mut text_bytes = 0_usize;
        for (name, value) in names.iter().zip(values) {
            let (name, value) = (*name as usize, *value as usize);
            let words = (run.dictionary.get(name), run.dictionary.get(value));
            let (Some(&name_word), Some(&value_word)) = words else {
                bump(&mut self.mended, Mend::TagIndex as usize);
                continue;
            };
            let [name_bytes, value_bytes] =
                [name_word, value_word].map(|word| word.span.len().min(text_max));
            let with = text_bytes
                .saturating_add(name_bytes)
                .saturating_add(value_bytes);
            if usize::from(count) >= max || with > TAGS_TEXT_BYTES_MAX {
                bump(&mut self.mended, Mend::TagOverLimit as usize);
                continue;
            }
            text_bytes = with;
            let name_at = name;
            let name = self.word(name, name_word, run);
            let value = if run.rules.has_tag_chains() {
                self.value_by_rules(of, (name_at, name), (value, value_word), run)
            } else {
                self.word(value, value_word, run)
            };
            set.add(name.hash, value.hash);
            let [a, b] = name.slot.to_le_bytes();
            let [c, d] = value.slot.to_le_bytes();
            self.body.extend_from_slice(&[a, b, c, d]);
            count = count.saturating_add(1);
        }
        (count, set.finish())
    }

    /// The record's word for `word`, which is number `index` of the dictionary.
    #[inline(always)]
    fn word<R>(&mut self, index: usize, word: Word, run: &mut Run<'_, R>) -> Resolved {
        if word.slot != Word::UNUSED {
            return Resolved {
                slot: word.slot,
                hash: word.hash,
            };
        }
        match run.dictionary.get_mut(index) {
            Some(word) => self
                .texts
                .first_use(word, run.message, run.terms, &mut self.mended),
            // The word comes from there.
            None => Resolved { slot: 0, hash: 0 },
        }
    }

    /// The same for the value of a tag, after the rules; name and value with their numbers in the dictionary. The value
    /// as sent becomes a word only if it is kept.
    fn value_by_rules<R: Rewrite>(
        &mut self,
        of: TagOf,
        (name_at, name): (usize, Resolved),
        (value_at, value): (usize, Word),
        run: &mut Run<'_, R>,
    ) -> Resolved {
        let asking = &mut self.asking;
        let chain = asking.tags.chain(of, name_at, || {
            run.rules.tag_chain(of, self.texts.word(name.slot))
        });
        let Some(chain) = chain else {
            return self.word(value_at, value, run);
        };
        if let Some(known) = asking.tags.value(chain, value_at) {
            return known;
        }
        let sent = value.span.of(run.message);
        let made = if asking.ask(chain, sent, run.rules, &mut self.mended) {
            let fresh = &asking.fresh;
            self.texts.add_word(fresh, run.terms, &mut self.mended)
        } else {
            self.word(value_at, value, run)
        };
        self.asking.tags.note_value(chain, value_at, made);
        made
    }

    /// The time as it is kept; counts one that had to be zeroed.
    #[inline(always)]
    fn time(&mut self, sent: f32) -> f32 {
        let kept = clean(sent);
        // Not for -0.0, which is 0; but for NaN, which differs from everything.
        if kept != sent {
            bump(&mut self.mended, Mend::TimeZeroed as usize);
        }
        kept
    }

    #[inline]
    fn fill_head(&mut self, fields: &Fields<'_>, totals: &Totals) {
        let request_time = self.time(fields.request_time);
        let ru_utime = self.time(fields.ru_utime);
        let ru_stime = self.time(fields.ru_stime);
        let [hostname, server_name, script_name, schema] = totals.lengths;
        let head = &mut self.head;
        put(head, at::LENGTH, low_u32(totals.length).to_le_bytes());
        put(head, at::RECEIVED_SECS, totals.received_secs.to_le_bytes());
        put(head, at::IDENTITY_HASH, totals.identity_hash.to_le_bytes());
        put(head, at::REQUEST_TAGS_HASH, totals.tags_hash.to_le_bytes());
        put(head, at::REQUEST_COUNT, fields.request_count.to_le_bytes());
        put(head, at::DOCUMENT_SIZE, fields.document_size.to_le_bytes());
        put(head, at::MEMORY_PEAK, fields.memory_peak.to_le_bytes());
        put(
            head,
            at::MEMORY_FOOTPRINT,
            fields.memory_footprint.to_le_bytes(),
        );
        put(head, at::STATUS, fields.status.to_le_bytes());
        put(head, at::REQUEST_TIME, request_time.to_le_bytes());
        put(head, at::RU_UTIME, ru_utime.to_le_bytes());
        put(head, at::RU_STIME, ru_stime.to_le_bytes());
        put(head, at::HOSTNAME_BYTES, hostname.to_le_bytes());
        put(head, at::SERVER_NAME_BYTES, server_name.to_le_bytes());
        put(head, at::SCRIPT_NAME_BYTES, script_name.to_le_bytes());
        put(head, at::SCHEMA_BYTES, schema.to_le_bytes());
        put(head, at::WORD_COUNT, self.texts.word_count().to_le_bytes());
        put(head, at::REQUEST_TAG_COUNT, totals.tag_count.to_le_bytes());
        put(head, at::TIMER_COUNT, totals.timer_count.to_le_bytes());
        put(head, at::TEXTS_AT, low_u32(totals.texts_at).to_le_bytes());
    }
}

impl Asking {
    /// Asks the rules of `chain` about a text of the packet. True: they changed it, and `fresh` has the new one, which
    /// is UTF-8 and not cut yet.
    fn ask<R: Rewrite>(
        &mut self,
        chain: Chain,
        raw: &[u8],
        rules: &mut R,
        mended: &mut [u64; Mend::COUNT],
    ) -> bool {
        self.fresh.clear();
        if raw.len() <= TEXT_BYTES_MAX && text::is_ascii(raw) {
            return rules.apply(chain, raw, &mut self.fresh);
        }
        // Not cut to what is kept: rules may be about the end of a long text, or make it short.
        let mut in_sent = [0; Mend::COUNT];
        self.sent.clear();
        text::append(&mut self.sent, raw, TEXT_BYTES_MAX, &mut in_sent);
        let changed = rules.apply(chain, &self.sent, &mut self.fresh);
        // If they changed nothing, the text is appended as it was sent, and counted then.
        let escaped = in_sent.get(Mend::TextNotUtf8 as usize);
        if changed && escaped.is_some_and(|times| *times > 0) {
            bump(mended, Mend::TextNotUtf8 as usize);
        }
        changed
    }
}
