//! The reference decoder: prost with the rules written plainly (`naive`), and records as plain
//! values (`plain`).
//!
//! Tests and the fuzz target of packets compare the decoders with it through [`compare`]; it has no
//! other use.

use std::collections::HashMap;
use std::fmt::Write as _;

use self::naive::{Verdict, judge};
use self::plain::{Plain, read_all};
use crate::input::Decode as _;
use crate::input::pinba::{Decoder, RepeatedTags, model};
use crate::input::record::{Confirmed, DecodeCounts, Hasher, RejectReason, Repair, TextLimits};
use crate::input::rewrite::Rewrite;

impl DecodeCounts {
    /// Datagrams decoded: accepted and invalid ones.
    pub(crate) fn datagrams_received(&self) -> u64 {
        self.datagrams_accepted + self.datagrams_invalid.iter().sum::<u64>()
    }

    /// Requests that reached the sink.
    pub(crate) fn requests_pushed(&self) -> u64 {
        self.requests_decoded - self.requests_invalid.iter().sum::<u64>()
    }

    pub(crate) fn datagrams_invalid_by(&self, reason: RejectReason) -> u64 {
        self.datagrams_invalid[reason as usize]
    }

    #[cfg(test)]
    pub(crate) fn requests_invalid_by(&self, reason: RejectReason) -> u64 {
        self.requests_invalid[reason as usize]
    }

    #[cfg(test)]
    pub(crate) fn repaired_by(&self, repair: Repair) -> u64 {
        self.repaired[repair as usize]
    }
}

pub(in crate::input::pinba) mod naive;
pub(in crate::input) mod plain;

/// Fails if the decoder and the reference disagree about any bytes.
pub(crate) fn agree(datagram: &[u8]) {
    thread_local! {
        static DECODERS: std::cell::RefCell<Decoders> =
            std::cell::RefCell::new(Decoders::new(TextLimits::default()));
    }
    DECODERS.with_borrow_mut(|decoders| {
        compare(decoders, datagram, &"any bytes");
    });
}

/// A decoder that reads all tags, and one that leaves out those that come again.
pub(in crate::input::pinba) struct Decoders {
    limits: TextLimits,
    plain: Decoder,
    repeating: Decoder,
    confirmed: Confirmed,
    /// The tags that have names, with the names' turns.
    named: HashMap<u32, (u32, Plain)>,
}

impl Decoders {
    pub(in crate::input::pinba) fn new(limits: TextLimits) -> Self {
        const PLACES: usize = 1024;
        let confirmed = Confirmed::new(PLACES);
        let repeats = RepeatedTags::new(PLACES, 0, confirmed.clone());
        Self {
            limits,
            plain: Decoder::new(limits, hasher()),
            repeating: Decoder::new(limits, hasher()).repeating(repeats),
            confirmed,
            named: HashMap::new(),
        }
    }

    /// Decodes with the second one; fills in the tags that are left out, as the merger does.
    /// Returns how many records left them out.
    pub(in crate::input::pinba) fn repeating(&mut self, datagram: &[u8]) -> (Outcome, usize) {
        let mut outcome = decode_with(&mut self.repeating, datagram);
        let mut left_out = 0;
        for request in &mut outcome.requests {
            let Some((repeat, leaves_out_tags)) = request.repeat.take() else {
                continue;
            };
            if leaves_out_tags {
                let (turn, named) = &self.named[&repeat.number];
                assert_eq!(*turn, repeat.turn, "a name of other tags");
                assert_eq!(named.timers.len(), request.timers.len());
                for (timer, named) in request.timers.iter_mut().zip(&named.timers) {
                    (timer.tags, timer.tags_hash) = (named.tags.clone(), named.tags_hash);
                }
                (request.tags, request.tags_hash) = (named.tags.clone(), named.tags_hash);
                left_out += 1;
            } else {
                self.named.insert(repeat.number, (repeat.turn, request.clone()));
                self.confirmed.confirm(repeat);
            }
        }
        (outcome, left_out)
    }
}

/// The result of decoding one datagram.
#[derive(Debug, PartialEq)]
pub(in crate::input::pinba) struct Outcome {
    pub(in crate::input::pinba) result: Result<u32, RejectReason>,
    pub(in crate::input::pinba) requests: Vec<Plain>,
    pub(in crate::input::pinba) counts: DecodeCounts,
}

/// The decoder of most tests: default limits, fixed keys.
pub(in crate::input::pinba) fn decoder() -> Decoder {
    Decoder::new(TextLimits::default(), hasher())
}

pub(in crate::input::pinba) fn hasher() -> Hasher {
    Hasher::with_seed(7)
}

/// The second of reception in tests.
pub(in crate::input::pinba) const RECEIVED_SECS: u32 = 1_700_000_000;

/// Decodes with a decoder that may have been used before, and checks the invariants of every
/// datagram.
pub(in crate::input::pinba) fn decode_with<R: Rewrite>(
    decoder: &mut Decoder<R>,
    datagram: &[u8],
) -> Outcome {
    decoder.take_counts();
    let mut block = Vec::new();
    let result = decoder.decode(datagram, RECEIVED_SECS, &mut block);
    let counts = decoder.take_counts();
    let requests = read_all(&block);

    assert_eq!(counts.datagrams_received(), 1);
    assert_eq!(counts.requests_pushed(), requests.len() as u64);
    match result {
        Ok(pushed) => {
            assert_eq!(counts.datagrams_accepted, 1);
            assert_eq!(pushed as usize, requests.len());
            assert!(pushed > 0);
        }
        Err(reason) => {
            assert_eq!(counts.datagrams_invalid_by(reason), 1);
            assert_eq!(counts.requests_decoded, 0, "a refused datagram counts no requests");
            assert_eq!(counts.repaired, [0; Repair::COUNT], "a refused datagram counts no mending");
            assert!(block.is_empty(), "a refused datagram leaves nothing behind");
        }
    }
    Outcome { result, requests, counts }
}

/// Fails with the packet in hexadecimal if the decoders and the reference disagree about it, also
/// when it comes again. Returns whether it was accepted.
pub(in crate::input::pinba) fn compare(
    decoders: &mut Decoders,
    datagram: &[u8],
    what: &dyn std::fmt::Display,
) -> bool {
    let outcome = decode_with(&mut decoders.plain, datagram);
    for _ in 0..3 {
        let (repeated, _) = decoders.repeating(datagram);
        assert_eq!(repeated, outcome, "{what}\npacket {datagram:02x?}");
    }
    let verdict = judge(datagram, decoders.limits, &hasher());
    let agree = match (&outcome.result, &verdict) {
        (Err(reason), Verdict::Undecodable) => {
            let has_header = datagram.len() >= 4 && datagram[0] >> 4 == 1;
            reason.is_malformed()
                && !matches!(reason, RejectReason::Empty | RejectReason::MissingField)
                && (*reason == RejectReason::Lz4Header) == has_header
        }
        (Err(reason), Verdict::Refused(expected)) => reason == expected,
        (Ok(_), Verdict::Taken { requests, refused, repaired }) => {
            let mut invalid = [0; RejectReason::COUNT];
            for reason in refused {
                invalid[*reason as usize] += 1;
            }
            outcome.requests == *requests
                && outcome.counts.requests_invalid == invalid
                && outcome.counts.repaired == *repaired
                && outcome.counts.requests_decoded == (requests.len() + refused.len()) as u64
        }
        _ => false,
    };
    if !agree {
        let hex = datagram.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        panic!(
            "{what}\npacket {hex}\nours: {:?} {:?} {:?}\nexpected: {verdict:?}",
            outcome.result, outcome.requests, outcome.counts
        );
    }
    outcome.result.is_ok()
}
