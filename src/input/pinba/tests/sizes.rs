//! Large packets: thousands of nested requests, thousands of timers, full datagrams, and the growth
//! of records.

use prost::Message as _;

use super::packets::{RawField, good, good_nested, put_field, put_varint, sized};
use super::*;
use crate::dice::Dice;
use crate::limits::{
    RECORD_GROWTH_MAX, REQUEST_TAGS_MAX, TAGS_TEXT_BYTES_MAX, TIMER_TAGS_MAX, UDP_PAYLOAD_BYTES_MAX,
};

/// The smallest request: all required fields, empty.
fn least() -> Vec<u8> {
    let packet =
        b"\x0a\x00\x12\x00\x1a\x00\x20\x00\x28\x00\x30\x00\x3d\0\0\0\0\x45\0\0\0\0\x4d\0\0\0\0";
    assert_eq!(packet.len(), 27, "what encode.rs reckons with");
    packet.to_vec()
}

fn packed(number: u32, elements: &[u8]) -> RawField {
    RawField { number, wire_type: 2, value: sized(elements) }
}

/// Decodes, and checks the limit on growth.
fn decode_bounded(packet: &[u8]) -> (Result<u32, RejectReason>, DecodeCounts, Vec<u8>) {
    let mut decoder = decoder();
    let mut block = Vec::new();
    let result = decoder.decode(packet, 1, &mut block);
    assert!(
        block.len() <= packet.len() * RECORD_GROWTH_MAX,
        "{} bytes became {}",
        packet.len(),
        block.len()
    );
    assert!(block.len() <= RECORD_BYTES_MAX);
    (result, decoder.take_counts(), block)
}

#[test]
fn a_thousand_nested_requests() {
    let mut packet = model::Request::named("outer", "s", "/outer");
    for number in 0..1000 {
        let mut nested = model::NestedRequest::named("h", "s", format!("/{number}"));
        nested.add_tag("n", format!("{number}"));
        packet.requests.push(nested);
    }
    let outcome = decode(&packet.encode_to_vec());
    assert_eq!(outcome.result, Ok(1001));
    assert_eq!(outcome.requests[0].script_name, b"/outer");
    for (number, request) in outcome.requests[1..].iter().enumerate() {
        assert_eq!(request.script_name, format!("/{number}").into_bytes());
        assert_eq!(request.tags[0].1, format!("{number}").into_bytes());
        assert_eq!(request.received_secs, RECEIVED_SECS);
    }
}

#[test]
fn as_many_nested_requests_as_fit() {
    let mut packet = least();
    let nested = RawField { number: 18, wire_type: 2, value: sized(&least()) };
    let mut count = 1;
    while packet.len() + 30 <= UDP_PAYLOAD_BYTES_MAX {
        put_field(&mut packet, &nested);
        count += 1;
    }
    let (result, _, _) = decode_bounded(&packet);
    assert_eq!(result, Ok(count));
    assert!(count > 2000, "{count}");

    // More nested ones fit if they are empty; they are refused.
    let mut packet = least();
    while packet.len() + 3 <= UDP_PAYLOAD_BYTES_MAX {
        packet.extend_from_slice(b"\x92\x01\x00");
    }
    assert_eq!(decode_bounded(&packet).0, Err(RejectReason::MissingField));
}

#[test]
fn thousands_of_timers() {
    let mut packet = model::Request::named("h", "s", "/");
    for number in 0..3000_u32 {
        packet.add_timer(number + 1, 0.5, &[("a", "b")]);
    }
    let (request, _) = decode_one(&packet.encode_to_vec());
    assert_eq!(request.timers.len(), 3000);
    for (number, timer) in request.timers.iter().enumerate() {
        assert_eq!(timer.hit_count as usize, number + 1);
        assert_eq!(timer.tags, [(b"a".to_vec(), b"b".to_vec())]);
    }
}

/// The most timers in a datagram: packed, one tag each, one word.
#[test]
fn a_full_datagram_of_timers() {
    let timers = 8182;
    let mut packet = least();
    put_field(&mut packet, &packed(15, b""));
    put_field(&mut packet, &packed(10, &vec![1; timers]));
    put_field(&mut packet, &packed(11, &vec![0; timers * 4]));
    put_field(&mut packet, &packed(12, &vec![1; timers]));
    put_field(&mut packet, &packed(13, &vec![0; timers]));
    put_field(&mut packet, &packed(14, &vec![0; timers]));
    assert!(packet.len() <= UDP_PAYLOAD_BYTES_MAX && packet.len() > UDP_PAYLOAD_BYTES_MAX - 30);
    let (result, _, block) = decode_bounded(&packet);
    assert_eq!(result, Ok(1));
    let record = Record::next(&mut block.as_slice()).unwrap();
    assert_eq!(record.timers().count(), timers);
    assert!(block.len() > packet.len() * 37 / 10, "this is nearly the worst: {}", block.len());
}

/// The worst case for words: each is used once and each of its bytes becomes four.
#[test]
fn a_full_datagram_of_words_that_are_not_utf8() {
    for length in [0, 1, 3, 15, 16, 17, 62, 63, 64, 200] {
        let mut packet = least();
        let mut indexes = Vec::new();
        let mut words = 0;
        while packet.len() + indexes.len() + length + 20 <= UDP_PAYLOAD_BYTES_MAX {
            put_field(
                &mut packet,
                &RawField { number: 15, wire_type: 2, value: sized(&vec![0xff; length]) },
            );
            put_varint(&mut indexes, words);
            words += 1;
        }
        // All in pairs of neighbours, as request tags.
        let names: Vec<u64> = (0..words).step_by(2).collect();
        let values = names.iter().map(|name| (name + 1).min(words - 1));
        let list = |indexes: &mut dyn Iterator<Item = u64>| {
            let mut list = Vec::new();
            indexes.for_each(|index| put_varint(&mut list, index));
            list
        };
        put_field(&mut packet, &packed(20, &list(&mut names.iter().copied())));
        put_field(&mut packet, &packed(21, &list(&mut values.into_iter())));
        assert!(packet.len() <= UDP_PAYLOAD_BYTES_MAX, "{length}: {}", packet.len());
        let (result, counts, block) = decode_bounded(&packet);
        assert_eq!(result, Ok(1), "{length}");
        let record = Record::next(&mut block.as_slice()).unwrap();
        if names.len() <= REQUEST_TAGS_MAX {
            assert_eq!(u64::from(record.string_count()), words, "{length}");
            assert_eq!(
                counts.repaired_by(Repair::TextNotUtf8),
                if length == 0 { 0 } else { words }
            );
        }
    }
}

#[test]
fn a_full_datagram_of_one_text() {
    for byte in [b'x', 0xff] {
        let room = UDP_PAYLOAD_BYTES_MAX - 27 - 2;
        let mut packet = least();
        packet.splice(
            0..2,
            RawField { number: 1, wire_type: 2, value: sized(&vec![byte; room]) }.value,
        );
        packet.insert(0, 0x0a);
        assert_eq!(packet.len(), UDP_PAYLOAD_BYTES_MAX);
        let (result, counts, block) = decode_bounded(&packet);
        assert_eq!(result, Ok(1));
        let record = Record::next(&mut block.as_slice()).unwrap();
        assert!(record.hostname().len() >= 252);
        assert_eq!(counts.repaired_by(Repair::TextCut), 1);
    }
}

#[test]
fn a_full_datagram_of_numbers_without_timers() {
    // Every list at its maximum: the lists hold it, and the counts differ.
    for number in [10, 12, 13, 14, 20, 21] {
        let mut packet = least();
        let room = UDP_PAYLOAD_BYTES_MAX - packet.len() - 5;
        put_field(&mut packet, &packed(number, &vec![0; room]));
        let (result, _, _) = decode_bounded(&packet);
        assert!(result.is_err_and(|reason| !reason.is_malformed()), "field {number}: {result:?}");
    }
    let mut packet = least();
    while packet.len() + 2 <= UDP_PAYLOAD_BYTES_MAX {
        packet.extend_from_slice(b"\x7a\x00");
    }
    assert_eq!(decode_bounded(&packet).0, Ok(1), "32,740 empty words");
}

#[test]
fn longer_than_a_datagram_can_be() {
    let mut packet = good().encode_to_vec();
    while packet.len() + 2 <= DATAGRAM_BYTES_MAX {
        packet.extend_from_slice(b"\x7a\x00");
    }
    assert_eq!(decode(&packet).result, Ok(1), "{} bytes", packet.len());
    packet.extend_from_slice(&vec![0x7a; DATAGRAM_BYTES_MAX]);
    assert_eq!(decode(&packet).result, Err(RejectReason::TooLong));
}

/// Exactly `TIMER_TAGS_MAX` pairs are kept of a timer and of a request.
#[test]
fn tags_past_the_limit_are_skipped_and_counted() {
    let extra = 5;
    let pairs = TIMER_TAGS_MAX + extra;
    let mut packet = least();
    put_field(&mut packet, &packed(15, b"w"));
    put_field(&mut packet, &packed(10, &[1, 1]));
    put_field(&mut packet, &packed(11, &[0; 8]));
    let mut tag_counts = Vec::new();
    put_varint(&mut tag_counts, pairs as u64);
    tag_counts.push(1);
    put_field(&mut packet, &packed(12, &tag_counts));
    put_field(&mut packet, &packed(13, &vec![0; pairs + 1]));
    put_field(&mut packet, &packed(14, &vec![0; pairs + 1]));
    put_field(&mut packet, &packed(20, &vec![0; REQUEST_TAGS_MAX + 2]));
    put_field(&mut packet, &packed(21, &vec![0; REQUEST_TAGS_MAX + 2]));
    let (request, counts) = decode_one(&packet);
    assert_eq!(request.tags.len(), REQUEST_TAGS_MAX);
    assert_eq!(request.timers[0].tags.len(), TIMER_TAGS_MAX);
    assert_eq!(request.timers[1].tags.len(), 1);
    assert_eq!(counts.repaired_by(Repair::TagOverLimit), extra as u64 + 2);
}

/// The same few long words in thousands of pairs: tags are kept up to the text that a datagram
/// could hold.
#[test]
fn tags_are_not_more_text_than_a_datagram_has() {
    let mut packet = least();
    let (name, value) = ([b'n'; 300], [b'v'; 200]);
    for word in [&name[..], &value[..]] {
        put_field(&mut packet, &packed(15, word));
    }
    let (pairs, timers) = (2_000, 2);
    let indexes = |at: u8| vec![at; pairs];
    put_field(&mut packet, &packed(10, &[1; 2]));
    put_field(&mut packet, &packed(11, &[0; 8]));
    let mut tag_counts = Vec::new();
    for _ in 0..timers {
        put_varint(&mut tag_counts, pairs as u64);
    }
    put_field(&mut packet, &packed(12, &tag_counts));
    for (names, values, times) in [(13, 14, timers), (20, 21, 1)] {
        put_field(&mut packet, &packed(names, &indexes(0).repeat(times)));
        put_field(&mut packet, &packed(values, &indexes(1).repeat(times)));
    }
    let (request, counts) = decode_one(&packet);
    let kept = TAGS_TEXT_BYTES_MAX / (255 + 200);
    assert_eq!(request.tags.len(), kept);
    for timer in &request.timers {
        assert_eq!(timer.tags.len(), kept);
    }
    let left_out = (pairs - kept) * (1 + timers);
    assert_eq!(counts.repaired_by(Repair::TagOverLimit), left_out as u64);
}

/// Full datagrams of random fields stay within the limit on growth.
#[test]
fn full_datagrams_of_random_fields_stay_within_bounds() {
    let mut dice = Dice(2024);
    for _ in 0..40 {
        let mut packet = least();
        let words = 1 + dice.index(120);
        for _ in 0..words {
            let word = vec![*dice.pick(&[b'a', 0xff]); dice.index(80)];
            put_field(&mut packet, &packed(15, &word));
        }
        let room = UDP_PAYLOAD_BYTES_MAX - packet.len() - 30;
        let per_timer = 1 + dice.index(4);
        let timers = room / (6 + 2 * per_timer);
        put_field(&mut packet, &packed(10, &vec![1; timers]));
        put_field(&mut packet, &packed(11, &vec![0; timers * 4]));
        put_field(&mut packet, &packed(12, &vec![per_timer as u8; timers]));
        for number in [13, 14] {
            let list: Vec<u8> =
                (0..timers * per_timer).map(|_| dice.index(words + 1) as u8).collect();
            put_field(&mut packet, &packed(number, &list));
        }
        assert!(packet.len() <= UDP_PAYLOAD_BYTES_MAX);
        assert_eq!(decode_bounded(&packet).0, Ok(1));
    }
}

/// A sink with room for this many records.
struct Few(usize, Vec<u8>);

impl RecordSink for Few {
    fn reserve(&mut self, bytes: usize) -> Option<&mut Vec<u8>> {
        self.0 = self.0.checked_sub(1)?;
        self.1.reserve_exact(bytes);
        Some(&mut self.1)
    }
}

#[test]
fn a_sink_without_room_is_counted() {
    let mut decoder = decoder();
    let packet = good().encode_to_vec();
    let mut sink = Few(0, Vec::new());
    assert_eq!(decoder.decode(&packet, 1, &mut sink), Err(RejectReason::TooLarge));
    let counts = decoder.take_counts();
    assert_eq!(counts.datagrams_invalid_by(RejectReason::TooLarge), 1);
    assert_eq!(counts.requests_decoded, 0);

    let mut packet = good();
    packet.requests = vec![good_nested("/a"), good_nested("/b")];
    let packet = packet.encode_to_vec();
    let mut sink = Few(1, Vec::new());
    assert_eq!(decoder.decode(&packet, 1, &mut sink), Ok(1));
    let counts = decoder.take_counts();
    assert_eq!(counts.requests_decoded, 3);
    assert_eq!(counts.requests_invalid_by(RejectReason::TooLarge), 2);
    assert_eq!(counts.requests_pushed(), 1);
    assert_eq!(plain::read_all(&sink.1).len(), 1);

    let mut sink = Few(0, Vec::new());
    assert_eq!(decoder.decode(&packet, 1, &mut sink), Err(RejectReason::TooLarge));
    assert_eq!(decoder.take_counts().requests_decoded, 0);
}

/// The length passed to `reserve` is the length written.
#[test]
fn a_sink_is_told_the_exact_length() {
    struct Exact(Vec<usize>, Vec<u8>);
    impl RecordSink for Exact {
        fn reserve(&mut self, bytes: usize) -> Option<&mut Vec<u8>> {
            let told: usize = self.0.iter().sum();
            assert_eq!(self.1.len(), told);
            self.0.push(bytes);
            Some(&mut self.1)
        }
    }
    let mut sink = Exact(Vec::new(), Vec::new());
    let mut decoder = decoder();
    for (_, packet) in corpus::all() {
        let _ = decoder.decode(&packet, 1, &mut sink);
    }
    assert_eq!(sink.1.len(), sink.0.iter().sum::<usize>());
    assert!(sink.0.len() > 20);
}

/// The decoder allocates nothing after creation: its buffers stay where they are.
#[test]
fn buffers_never_grow() {
    let mut decoder = decoder();
    let capacities = |decoder: &Decoder| {
        let lists = &decoder.lists;
        [
            lists.timer_hit_counts.capacity(),
            lists.timer_values.capacity(),
            lists.timer_tag_names.capacity(),
            lists.tag_values.capacity(),
            lists.dictionary.capacity(),
            decoder.nested.capacity(),
            decoder.pending.capacity(),
        ]
    };
    let before = capacities(&decoder);
    let mut block = Vec::with_capacity(RECORD_BYTES_MAX);
    let full = |number: u32, bytes: &[u8]| {
        let mut packet = least();
        while packet.len() + bytes.len() + 8 <= DATAGRAM_BYTES_MAX {
            put_field(&mut packet, &RawField { number, wire_type: 2, value: sized(bytes) });
        }
        packet
    };
    for (number, bytes) in
        [(10, vec![0; 60_000]), (11, vec![0; 60_000]), (15, vec![]), (18, least())]
    {
        block.clear();
        let _ = decoder.decode(&full(number, &bytes), 1, &mut block);
    }
    assert_eq!(capacities(&decoder), before);
    assert_eq!(block.capacity(), RECORD_BYTES_MAX);
}

/// A damaged record ends the iteration; it never panics.
#[test]
fn damaged_records_end_the_iteration() {
    let mut block = Vec::new();
    let mut decoder = decoder();
    decoder.decode(&good().encode_to_vec(), 1, &mut block).unwrap();
    decoder.decode(&corpus::named("spec-vector"), 1, &mut block).unwrap();
    let look = |block: &[u8]| {
        let mut rest = block;
        let mut records = 0;
        while let Some(record) = Record::next(&mut rest) {
            records += 1;
            let texts = record.hostname().len() + record.server_name().len();
            let texts = texts + record.script_name().len() + record.schema().map_or(0, <[u8]>::len);
            let tags = record.timers().take(1000).flat_map(|timer| timer.tags.iter());
            let words: usize = tags
                .chain(record.request_tags().iter())
                .map(|(name, value)| record.string(name).len() + record.string(value).len())
                .sum();
            std::hint::black_box((texts, words, record.string(u16::MAX)));
            assert!(records < 10_000, "it comes to an end");
        }
        records
    };
    assert_eq!(look(&block), 2);
    for len in 0..block.len() {
        assert!(look(&block[..len]) <= 1, "cut to {len}");
    }
    let mut dice = Dice(5);
    for at in 0..block.len() {
        for _ in 0..20 {
            let mut damaged = block.clone();
            damaged[at] = dice.next() as u8;
            look(&damaged);
        }
    }
    look(&[0; 200]);
    look(&[0xff; 200]);
}
