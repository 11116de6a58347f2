//! The decoder's judge: prost with the rules written down plainly (`naive`), and records as plain values (`plain`).
//!
//! Tests and the fuzz target of packets hold every datagram against it with [`compare`]; nothing else is made with it.

use std::fmt::Write as _;

use self::naive::{Verdict, judge};
use self::plain::{Plain, read_all};
use super::{DecodeCounts, Decoder, Hasher, Mend, Refusal, Rewrite, TextLimits, model};

pub(in crate::wire) mod naive;
pub(in crate::wire) mod plain;

/// Fails if the decoder and its judge do not agree about any bytes.
pub(crate) fn agree(datagram: &[u8]) {
    thread_local! {
        static DECODER: std::cell::RefCell<Decoder> = std::cell::RefCell::new(decoder());
    }
    DECODER.with_borrow_mut(|decoder| {
        compare(decoder, TextLimits::default(), datagram, &"any bytes");
    });
}

/// What one decoder makes of one datagram.
pub(in crate::wire) struct Outcome {
    pub(in crate::wire) result: Result<u32, Refusal>,
    pub(in crate::wire) requests: Vec<Plain>,
    pub(in crate::wire) counts: DecodeCounts,
}

/// The decoder of most tests: default limits, fixed keys.
pub(in crate::wire) fn decoder() -> Decoder {
    Decoder::new(TextLimits::default(), hasher())
}

pub(in crate::wire) fn hasher() -> Hasher {
    Hasher::with_seed(7)
}

/// The second of reception that the tests give.
pub(in crate::wire) const RECEIVED_SECS: u32 = 1_700_000_000;

/// Decodes with a decoder that may have been used before, and checks what holds for every datagram.
pub(in crate::wire) fn decode_with<R: Rewrite>(
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
            assert_eq!(
                counts.requests_decoded, 0,
                "a refused datagram counts no requests"
            );
            assert_eq!(
                counts.mended,
                [0; Mend::COUNT],
                "a refused datagram counts no mending"
            );
            assert!(block.is_empty(), "a refused datagram leaves nothing behind");
        }
    }
    Outcome {
        result,
        requests,
        counts,
    }
}

/// Fails with the packet in hexadecimal if the two disagree about it. Gives whether it was taken.
pub(in crate::wire) fn compare(
    decoder: &mut Decoder,
    limits: TextLimits,
    datagram: &[u8],
    what: &dyn std::fmt::Display,
) -> bool {
    let outcome = decode_with(decoder, datagram);
    let verdict = judge(datagram, limits, &hasher());
    let agree = match (&outcome.result, &verdict) {
        (Err(reason), Verdict::Undecodable) => {
            let has_header = datagram.len() >= 4 && datagram[0] >> 4 == 1;
            reason.is_malformed()
                && !matches!(reason, Refusal::Empty | Refusal::MissingField)
                && (*reason == Refusal::Lz4Header) == has_header
        }
        (Err(reason), Verdict::Refused(expected)) => reason == expected,
        (
            Ok(_),
            Verdict::Taken {
                requests,
                refused,
                mended,
            },
        ) => {
            let mut invalid = [0; Refusal::COUNT];
            for reason in refused {
                invalid[*reason as usize] += 1;
            }
            outcome.requests == *requests
                && outcome.counts.requests_invalid == invalid
                && outcome.counts.mended == *mended
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
