//! Tags that packets repeat, byte for byte: those of a packet's timers with its dictionary, and the
//! indexes of the request's own tags.
//!
//! Of such a packet neither dictionary nor tags are read, and its record
//! [leaves them out](crate::input::record::Repeat). Packets whose tags are new cost a hash and a
//! look-up more.

use std::sync::atomic::AtomicU32;

use crate::input::record::{Confirmed, Hasher, Repeat};

/// Most bytes of tags that are kept: longer ones, of some fifty timers, are read each time.
const TAGS_BYTES_MAX: usize = 2048;

/// Places among which tags with a hash have to find one.
const WAYS: usize = 4;

/// The tags that a receiver has seen, in a table of fixed size: new ones take the place of some
/// that were not seen lately.
#[derive(Debug, Default)]
pub struct RepeatedTags {
    places: Box<[[Place; WAYS]]>,
    /// Bytes of tags for which there is room.
    bytes_left: usize,
    /// The number of the first place.
    first: u32,
    confirmed: Confirmed,
}

#[derive(Debug, Default)]
struct Place {
    hash: u64,
    /// How many tags had it; 0 for none yet.
    turn: u32,
    timers: u16,
    /// Indexes of the request's tags.
    of_request: u8,
    /// Whether its tags came again since others would have liked the place.
    is_in_use: bool,
    /// The tags of timers and dictionary as sent, then the indexes of the request's tags; empty if
    /// they came only once.
    tags: Box<[u8]>,
}

/// The tags of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tags<'a> {
    /// Number of timers.
    pub(super) timers: usize,
    /// Those of timers, and the dictionary, as sent.
    pub(super) of_timers: &'a [u8],
    /// The indexes of the request's own.
    pub(super) of_request: &'a [u8],
}

/// What is known of the tags of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// They are not kept.
    Not,
    /// They are new, and have this hash.
    New(u64),
    /// They have a name, which the merger may not know yet.
    Named(Repeat),
    /// The merger knows their name.
    Confirmed(Repeat),
}

impl RepeatedTags {
    /// Places of each of so many receivers, for a pool of so many requests: one for 16 of these,
    /// and 65,536 altogether, but 1,024 to 32,768 each.
    pub fn places(receivers: usize, requests: usize) -> usize {
        let each = (1_usize << 16).checked_div(receivers).unwrap_or(usize::MAX);
        let each = each.min(requests / 16).clamp(1 << 10, 1 << 15);
        1_usize.wrapping_shl(each.ilog2())
    }

    /// Bytes that so many places take, for the memory plan.
    pub const fn bytes(places: usize) -> usize {
        let fixed =
            places.saturating_mul(size_of::<Place>().saturating_add(size_of::<AtomicU32>()));
        fixed.saturating_add(tags_bytes(places))
    }

    /// Those of receiver `index`, with so many places.
    pub fn new(places: usize, index: usize, confirmed: Confirmed) -> Self {
        let first = u32::try_from(index.saturating_mul(places)).unwrap_or(u32::MAX);
        let buckets = std::iter::repeat_with(Default::default).take(places / WAYS);
        Self { places: buckets.collect(), bytes_left: tags_bytes(places), first, confirmed }
    }

    /// Whether any tags are kept.
    #[inline(always)]
    pub(super) fn are_kept(&self) -> bool {
        !self.places.is_empty()
    }

    /// What is known of these tags.
    #[inline(always)]
    pub(super) fn find(&mut self, tags: Tags<'_>, hasher: &Hasher) -> Seen {
        if tags.bytes() > TAGS_BYTES_MAX || tags.of_request.len() > usize::from(u8::MAX) {
            return Seen::Not;
        }
        let mut hash = hasher.hash_bytes(tags.of_timers);
        if !tags.of_request.is_empty() {
            hash ^= hasher.hash_bytes(tags.of_request).rotate_left(32);
        }
        let at = self.bucket(hash);
        let places = self.places.get_mut(at).into_iter().flatten();
        for (place, way) in places.zip(0..) {
            if place.hash == hash && tags.are(place) {
                place.is_in_use = true;
                let repeat = Repeat { number: number(self.first, at, way), turn: place.turn };
                return match self.confirmed.has(repeat) {
                    true => Seen::Confirmed(repeat),
                    false => Seen::Named(repeat),
                };
            }
        }
        Seen::New(hash)
    }

    /// Names tags that are new, if a packet had them before and there is room. A place that is not
    /// in use remembers the hash of those that came once.
    pub(super) fn name(&mut self, tags: Tags<'_>, hash: u64) -> Option<Repeat> {
        let at = self.bucket(hash);
        let places = self.places.get_mut(at)?;
        let came_before = |place: &Place| place.hash == hash && place.tags.is_empty();
        let way = places.iter().position(came_before);
        let Some(way) = way.or_else(|| places.iter().position(|place| !place.is_in_use)) else {
            for place in places {
                place.is_in_use = false;
            }
            return None;
        };
        let place = places.get_mut(way)?;
        if !came_before(place) {
            self.bytes_left = self.bytes_left.saturating_add(place.tags.len());
            *place = Place { hash, turn: place.turn, ..Place::default() };
            return None;
        }
        self.bytes_left = self.bytes_left.checked_sub(tags.bytes())?;
        place.turn = place.turn.checked_add(1)?;
        place.tags = [tags.of_timers, tags.of_request].concat().into();
        (place.timers, place.of_request) = (tags.timers as u16, tags.of_request.len() as u8);
        Some(Repeat { number: number(self.first, at, way as u32), turn: place.turn })
    }

    /// The index of the places for a hash.
    #[inline(always)]
    fn bucket(&self, hash: u64) -> usize {
        // Their number is a power of two.
        hash as usize & self.places.len().saturating_sub(1)
    }
}

impl Tags<'_> {
    #[inline(always)]
    const fn bytes(&self) -> usize {
        self.of_timers.len().saturating_add(self.of_request.len())
    }

    /// Whether a place has the same.
    #[inline(always)]
    fn are(&self, place: &Place) -> bool {
        usize::from(place.timers) == self.timers
            && usize::from(place.of_request) == self.of_request.len()
            && place.tags.split_at_checked(self.of_timers.len())
                == Some((self.of_timers, self.of_request))
    }
}

/// Bytes of tags in so many places.
const fn tags_bytes(places: usize) -> usize {
    places.saturating_mul(256)
}

fn number(first: u32, bucket: usize, way: u32) -> u32 {
    first.saturating_add((bucket as u32).saturating_mul(WAYS as u32)).saturating_add(way)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn tags<'a>(of_timers: &'a [u8], of_request: &'a [u8]) -> Tags<'a> {
        Tags { timers: 1, of_timers, of_request }
    }

    /// What is known of them once they have come often enough to be named.
    fn named(repeats: &mut RepeatedTags, tags: Tags<'_>) -> Seen {
        let hasher = Hasher::constant();
        for _ in 0..2 {
            if let Seen::New(hash) = repeats.find(tags, &hasher) {
                repeats.name(tags, hash);
            }
        }
        repeats.find(tags, &hasher)
    }

    #[test]
    fn tags_with_one_hash_are_told_apart() {
        let confirmed = Confirmed::new(WAYS);
        let mut repeats = RepeatedTags::new(WAYS, 0, confirmed.clone());
        let different = [tags(b"a", b""), tags(b"b", b""), tags(b"a", b"b"), tags(b"ab", b"")];
        let names = different.map(|tags| named(&mut repeats, tags));
        for (place, (tags, seen)) in different.into_iter().zip(names).enumerate() {
            let repeat = Repeat { number: place as u32, turn: 1 };
            assert_eq!(seen, Seen::Named(repeat));
            confirmed.confirm(repeat);
            assert_eq!(named(&mut repeats, tags), Seen::Confirmed(repeat));
            let of_more = Tags { timers: 2, ..tags };
            assert!(matches!(repeats.find(of_more, &Hasher::constant()), Seen::New(_)));
        }
        // All places are in use, until others would have liked one.
        assert!(matches!(repeats.find(tags(b"c", b""), &Hasher::constant()), Seen::New(_)));
        assert_eq!(repeats.name(tags(b"c", b""), 1), None);
        assert_eq!(
            named(&mut repeats, tags(b"c", b"")),
            Seen::Named(Repeat { number: 0, turn: 2 })
        );
        assert!(!confirmed.has(Repeat { number: 0, turn: 2 }));
    }

    #[test]
    fn tags_have_a_budget() {
        let mut repeats = RepeatedTags::new(WAYS, 0, Confirmed::new(WAYS));
        let half = [1; WAYS * 256 / 2];
        let other = [2; WAYS * 256 / 2];
        assert!(matches!(named(&mut repeats, tags(&half, b"")), Seen::Named(_)));
        assert!(matches!(named(&mut repeats, tags(&other, b"")), Seen::Named(_)));
        assert!(matches!(named(&mut repeats, tags(b"a", b"")), Seen::New(_)), "no room");
        assert!(matches!(named(&mut repeats, tags(&[0; TAGS_BYTES_MAX + 1], b"")), Seen::Not));
    }

    #[test]
    fn receivers_share_the_places() {
        let of = [0, 1, 2, 3, 16, 64, 100, 10_000].map(|it| RepeatedTags::places(it, 1_000_000));
        assert_eq!(of, [32_768, 32_768, 32_768, 16_384, 4_096, 1_024, 1_024, 1_024]);
        assert_eq!(
            [0, 50_000, 100_000].map(|it| RepeatedTags::places(1, it)),
            [1_024, 2_048, 4_096]
        );
    }
}
