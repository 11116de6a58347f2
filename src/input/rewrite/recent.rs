//! Caches results of rules for recent texts: a few names make up most of the traffic, and rules
//! cost more than a look-up.
//!
//! A table of fixed size, one per receiver, in which a text has one slot, by hash; the last text
//! wins. Texts are compared in full, so that results are right even with collisions. Long texts
//! have no slot and are computed each time.

use super::Chain;
use super::rules::Outcome;
use crate::input::record::Hasher;

/// Slots, a power of two.
pub(super) const PLACES: usize = 1024;

/// Bytes for a text and its new form together; 256 with their metadata.
const TEXTS_BYTES: usize = 224;

/// The table.
#[derive(Debug)]
pub(super) struct Recent {
    places: Box<[Place]>,
    hasher: Hasher,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    hash: u64,
    outcome: Outcome,
    chain: Chain,
    sent_bytes: u16,
    made_bytes: u16,
    /// Whether the rules changed the text; the result then follows it.
    changed: bool,
    texts: [u8; TEXTS_BYTES],
}

/// A text's slot, whatever it holds now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    hash: u64,
    chain: Chain,
}

/// The cached result for a text.
#[derive(Debug)]
pub(super) struct Known<'k> {
    pub(super) outcome: Outcome,
    /// `None` if it is unchanged.
    pub(super) made: Option<&'k [u8]>,
}

impl Recent {
    /// Bytes of the table.
    pub(super) const BYTES: usize = PLACES * size_of::<Place>();

    /// A table with so many of its slots.
    pub(super) fn new(hasher: Hasher, places: usize) -> Self {
        let empty = Place {
            hash: 0,
            outcome: Outcome::default(),
            chain: Chain(u16::MAX),
            sent_bytes: 0,
            made_bytes: 0,
            changed: false,
            texts: [0; TEXTS_BYTES],
        };
        Self { places: vec![empty; places].into_boxed_slice(), hasher }
    }

    #[inline]
    pub(super) fn key(&self, chain: Chain, text: &[u8]) -> Key {
        Key { hash: self.hasher.hash_bytes(text), chain }
    }

    #[inline]
    pub(super) fn find(&self, key: Key, text: &[u8]) -> Option<Known<'_>> {
        let place = self.places.get(index(key))?;
        if place.hash != key.hash || place.chain != key.chain {
            return None;
        }
        let (sent, rest) = place.texts.split_at_checked(usize::from(place.sent_bytes))?;
        (sent == text).then_some(Known {
            outcome: place.outcome,
            made: if place.changed { rest.get(..usize::from(place.made_bytes)) } else { None },
        })
    }

    /// Stores a result, if both texts fit.
    pub(super) fn keep(&mut self, key: Key, text: &[u8], outcome: Outcome, made: Option<&[u8]>) {
        let new = made.unwrap_or(&[]);
        let Some(place) = self.places.get_mut(index(key)) else { return };
        let Some((sent, rest)) = place.texts.split_at_mut_checked(text.len()) else { return };
        let Some(rest) = rest.get_mut(..new.len()) else { return };
        sent.copy_from_slice(text);
        rest.copy_from_slice(new);
        place.hash = key.hash;
        place.outcome = outcome;
        place.chain = key.chain;
        // Both fit TEXTS_BYTES.
        place.sent_bytes = text.len() as u16;
        place.made_bytes = new.len() as u16;
        place.changed = made.is_some();
    }
}

/// The chain is part of it; otherwise a host named like its server would lose its slot to it each
/// time.
#[inline]
fn index(key: Key) -> usize {
    (key.hash as usize).wrapping_add(usize::from(key.chain.0)) % PLACES
}

const _: () = assert!(PLACES.is_power_of_two() && TEXTS_BYTES <= u16::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Outcome = Outcome { tried: 3, matched: 1 };

    fn made(recent: &Recent, chain: u16, text: &[u8]) -> Option<(Outcome, Option<Vec<u8>>)> {
        let known = recent.find(recent.key(Chain(chain), text), text)?;
        Some((known.outcome, known.made.map(<[u8]>::to_vec)))
    }

    #[test]
    fn a_text_is_known_under_its_chain_until_another_takes_the_place() {
        let mut recent = Recent::new(Hasher::with_seed(1), PLACES);
        let key = recent.key(Chain(0), b"/user/1");
        assert_eq!(made(&recent, 0, b"/user/1"), None);
        recent.keep(key, b"/user/1", SOME, Some(b"/user/*"));
        assert_eq!(made(&recent, 0, b"/user/1"), Some((SOME, Some(b"/user/*".to_vec()))));
        assert_eq!(made(&recent, 1, b"/user/1"), None);
        // The hash alone is not enough.
        assert!(recent.find(key, b"/user/2").is_none());
        recent.keep(key, b"/other", Outcome::default(), None);
        assert!(recent.find(key, b"/user/1").is_none());
        assert!(recent.find(key, b"/other").is_some_and(|known| known.made.is_none()));
    }

    #[test]
    fn an_empty_text_is_a_text_and_so_is_an_empty_result() {
        let mut recent = Recent::new(Hasher::with_seed(1), PLACES);
        assert_eq!(made(&recent, 0, b""), None);
        let key = recent.key(Chain(0), b"");
        recent.keep(key, b"", SOME, Some(b"(none)"));
        assert_eq!(made(&recent, 0, b""), Some((SOME, Some(b"(none)".to_vec()))));
        let key = recent.key(Chain(0), b"x");
        recent.keep(key, b"x", SOME, Some(b""));
        assert_eq!(made(&recent, 0, b"x"), Some((SOME, Some(Vec::new()))));
    }

    #[test]
    fn what_does_not_fit_leaves_the_place_as_it_was() {
        let mut recent = Recent::new(Hasher::with_seed(1), PLACES);
        let key = recent.key(Chain(0), b"a");
        recent.keep(key, b"a", SOME, None);
        recent.keep(key, &[b'x'; TEXTS_BYTES], SOME, Some(b"y"));
        recent.keep(key, &[b'x'; TEXTS_BYTES + 1], SOME, None);
        assert_eq!(made(&recent, 0, b"a"), Some((SOME, None)));
        recent.keep(key, &[b'x'; TEXTS_BYTES], SOME, None);
        assert!(recent.find(key, &[b'x'; TEXTS_BYTES]).is_some());
    }
}
