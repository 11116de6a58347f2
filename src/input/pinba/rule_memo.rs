//! Caches results of name rules for the tags of one request, so that rules run once for each name
//! and each value.
//!
//! One dictionary word may be name or value of many tags, under several names, of the request and
//! of timers. Each word stores the chain of rules for its values as a name (of a request tag, of a
//! timer tag), and its results as a value, by chain. Work for the rules is thus bounded by the
//! words of the packet times the chains of the configuration, however often words are used.
//! `encode.rs` resets it for each request.

use crate::input::record::Interned;
use crate::input::rewrite::{Chain, NameRules, TagOf};
use crate::limits::{DATAGRAM_BYTES_MAX, RULES_SCRATCH_BYTES, TEXT_BYTES_MAX};

/// Most words in a packet: one byte each for key and length.
const WORDS_MAX: usize = DATAGRAM_BYTES_MAX / 2;

/// The cache for one request.
#[derive(Debug)]
pub(super) struct RuleMemo {
    /// Parallel to the dictionary.
    words: Vec<WordNote>,
    /// Linked lists, one per word, each with at most one entry per chain.
    values: Vec<ValueNote>,
}

#[derive(Debug, Clone, Copy)]
struct WordNote {
    /// The chain for tags of this name: of the request, and of timers.
    chains: [u16; 2],
    /// The first entry for it as a value, by index in `values`.
    first: u32,
}

#[derive(Debug, Clone, Copy)]
struct ValueNote {
    value: Interned,
    chain: Chain,
    next: u32,
}

const UNKNOWN: u16 = u16::MAX;
const NO_CHAIN: u16 = u16::MAX - 1;
const END: u32 = u32::MAX;

impl RuleMemo {
    /// Bytes of a cache for tags.
    const BYTES: usize = WORDS_MAX * (size_of::<WordNote>() + size_of::<ValueNote>());

    /// A cache that never grows, or, if no rule applies to tags, one that allocates nothing.
    pub(super) fn new(for_tags: bool) -> Self {
        let words = if for_tags { WORDS_MAX } else { 0 };
        Self {
            words: Vec::with_capacity(words),
            // A tag takes a name and a value, at least two bytes, so there are no more tags than
            // words.
            values: Vec::with_capacity(words),
        }
    }

    /// Starts a request with this many words in its dictionary.
    pub(super) fn begin(&mut self, words: usize) {
        let fresh = WordNote { chains: [UNKNOWN; 2], first: END };
        self.words.clear();
        self.words.resize(words, fresh);
        self.values.clear();
    }

    /// The chain for tags whose name is this word; calls `ask` the first time.
    pub(super) fn chain(
        &mut self,
        of: TagOf,
        name: usize,
        ask: impl FnOnce() -> Option<Chain>,
    ) -> Option<Chain> {
        let [of_request, of_timer] = &mut self.words.get_mut(name)?.chains;
        let note = match of {
            TagOf::Request => of_request,
            TagOf::Timer => of_timer,
        };
        if *note == UNKNOWN {
            *note = ask().map_or(NO_CHAIN, |chain| chain.0);
        }
        (*note != NO_CHAIN).then_some(Chain(*note))
    }

    /// The result of these rules for this word, if they have run.
    pub(super) fn value(&self, chain: Chain, value: usize) -> Option<Interned> {
        let mut at = self.words.get(value)?.first;
        while let Some(note) = self.values.get(at as usize) {
            if note.chain == chain {
                return Some(note.value);
            }
            at = note.next;
        }
        None
    }

    /// Stores a result.
    pub(super) fn note_value(&mut self, chain: Chain, value: usize, made: Interned) {
        // At most WORDS_MAX.
        let at = self.values.len() as u32;
        if let Some(word) = self.words.get_mut(value) {
            self.values.push(ValueNote { value: made, chain, next: word.first });
            word.first = at;
        }
    }
}

// The memory plan covers this for a receiver's rules; two texts are the record writer's.
const _: () = {
    let bytes = NameRules::SCRATCH_BYTES + RuleMemo::BYTES + 2 * TEXT_BYTES_MAX;
    assert!(bytes as u64 <= RULES_SCRATCH_BYTES);
};
