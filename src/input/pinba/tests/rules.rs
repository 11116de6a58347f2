//! Each validation rule (V0 to V18) by name, and the decoding of single fields.

use prost::Message as _;

use super::packets::{RawField, good, good_nested, put_field, put_varint, repacked, sized};
use super::*;

fn with(change: impl FnOnce(&mut model::Request)) -> Vec<u8> {
    let mut packet = good();
    change(&mut packet);
    packet.encode_to_vec()
}

/// Each of these changes breaks a valid packet so that it is refused for that reason.
#[track_caller]
fn assert_refused(reason: RejectReason, breakers: &[fn(&mut model::Request)]) {
    for (number, breaks) in breakers.iter().enumerate() {
        assert_eq!(decode(&with(breaks)).result, Err(reason), "number {number}");
    }
}

fn one(change: impl FnOnce(&mut model::Request)) -> (Plain, DecodeCounts) {
    decode_one(&with(change))
}

/// Bytes as the field of a nested request.
fn nested_field(message: &[u8]) -> RawField {
    RawField { number: 18, wire_type: 2, value: sized(message) }
}

/// A change that breaks a rule, and the reason for refusal.
type Breaker<T> = (fn(&mut T), RejectReason);

fn script(name: &str) -> impl Fn(&Plain) -> bool {
    move |request| request.script_name == name.as_bytes()
}

#[test]
fn v0_each_required_field_is_required() {
    let packet = good().encode_to_vec();
    let fields = super::packets::fields_of(&packet).unwrap();
    let without = |number: u32| {
        let others = fields.iter().filter(|field| field.number != number);
        super::packets::message_of(&others.cloned().collect::<Vec<_>>())
    };
    for number in 1..=9 {
        let message = without(number);
        let missing = Err(RejectReason::MissingField);
        assert_eq!(decode(&message).result, missing, "field {number}");
        // The same inside a nested request: the whole datagram is refused.
        let mut outer = good().encode_to_vec();
        put_field(&mut outer, &nested_field(&message));
        assert_eq!(decode(&outer).result, missing, "nested, field {number}");
    }
    for number in [16, 17, 19] {
        assert_eq!(decode(&without(number)).result, Ok(1), "field {number}");
    }
}

#[test]
fn v0_wrong_wire_types_are_refused_for_every_field() {
    for number in 1..=23_u32 {
        let right: &[u32] = match number {
            1..=3 | 15 | 18 | 19 => &[2],
            4..=6 | 16 | 17 => &[0],
            7..=9 => &[5],
            11 | 22 | 23 => &[5, 2],
            _ => &[0, 2],
        };
        for wire_type in (0..=5).filter(|wire_type| !right.contains(wire_type)) {
            let mut packet = good().encode_to_vec();
            let field = RawField { number, wire_type, value: vec![1; 8] };
            put_field(&mut packet, &field);
            assert_eq!(
                decode(&packet).result,
                Err(RejectReason::WrongWireType),
                "field {number} as wire type {wire_type}"
            );
        }
    }
}

#[test]
fn v0_lz4_header_is_told_only_after_decoding_failed() {
    for (packet, result) in [
        // Field 2 first: 0x12 looks like the header, and the packet is valid.
        (&corpus::named("good-first-byte-like-lz4")[..], Ok(1)),
        (&[0x10, 0, 0, 0], Err(RejectReason::Lz4Header)),
        (&[0x1f, 0, 0, 0, 1, 2, 3], Err(RejectReason::Lz4Header)),
        // No room for a header; another first byte.
        (&[0x12, 0x7f, 0], Err(RejectReason::Truncated)),
        (&[0x20, 0, 0, 0], Err(RejectReason::BadKey)),
    ] {
        assert_eq!(decode(packet).result, result, "{packet:?}");
    }
    // A message that breaks rules is not mistaken for a compressed one.
    let mut packet = corpus::named("good-first-byte-like-lz4");
    packet.extend_from_slice(&[0x50, 1]);
    assert_eq!(decode(&packet).result, Err(RejectReason::TimerCounts));
}

#[test]
fn v0_a_bad_nested_message_takes_all_with_it_whatever_came_before() {
    let mut packet = with(|packet| packet.requests = vec![good_nested("/a"), good_nested("/b")]);
    put_field(&mut packet, &nested_field(b"\x0a\x05ab"));
    let outcome = decode(&packet);
    assert_eq!(outcome.result, Err(RejectReason::Truncated));
    assert_eq!(outcome.counts.requests_decoded, 0);
}

#[test]
fn v1_counts_of_hits_values_and_tag_counts_must_agree() {
    let breakers: [fn(&mut model::Request); 4] = [
        |packet| packet.timer_hit_count.push(1),
        |packet| packet.timer_value.truncate(2),
        |packet| packet.timer_tag_count.push(0),
        // This drops nested requests too.
        |packet| {
            packet.requests = vec![good_nested("/a")];
            packet.timer_hit_count.push(1);
        },
    ];
    assert_refused(RejectReason::TimerCounts, &breakers);
}

#[test]
fn v1_to_v6_of_a_nested_request_lose_that_one_alone() {
    let breakers: [Breaker<model::NestedRequest>; 5] = cases![
        |request| request.timer_hit_count.push(1) => RejectReason::TimerCounts;
        |request| request.tag_name.push(0) => RejectReason::RequestTagCounts;
        |request| request.dictionary.clear() => RejectReason::NoDictionary;
        |request| request.tag_value[0] = 99 => RejectReason::RequestTagIndex;
        |request| request.timer_tag_count[0] += 1 => RejectReason::TimerTagCounts;
    ];
    for (breaks, reason) in breakers {
        let outcome = decode(&with(|packet| {
            packet.requests = ["/a", "/b", "/c"].map(good_nested).to_vec();
            breaks(&mut packet.requests[1]);
        }));
        assert_eq!(outcome.result, Ok(3));
        assert!(script("/index.php")(&outcome.requests[0]), "the outer one first");
        assert!(script("/a")(&outcome.requests[1]) && script("/c")(&outcome.requests[2]));
        assert_eq!(outcome.counts.requests_decoded, 4);
        assert_eq!(outcome.counts.requests_invalid_by(reason), 1);
    }
}

#[test]
fn v2_to_v6_of_the_outer_request_leave_the_nested_ones() {
    let breakers: [Breaker<model::Request>; 4] = cases![
        |request| request.tag_name.push(0) => RejectReason::RequestTagCounts;
        |request| request.dictionary.clear() => RejectReason::NoDictionary;
        |request| request.tag_value[0] = 99 => RejectReason::RequestTagIndex;
        |request| request.timer_tag_count[0] += 1 => RejectReason::TimerTagCounts;
    ];
    for (breaks, reason) in breakers {
        let outcome = decode(&with(|packet| {
            packet.requests = vec![good_nested("/a"), good_nested("/b")];
            breaks(packet);
        }));
        assert_eq!(outcome.result, Ok(2));
        assert!(script("/a")(&outcome.requests[0]) && script("/b")(&outcome.requests[1]));
        assert_eq!(outcome.counts.requests_decoded, 3);
        assert_eq!(outcome.counts.requests_invalid_by(reason), 1);

        // With no request left, the datagram is invalid for the outer request's reason.
        let outcome = decode(&with(|packet| {
            packet.requests = vec![good_nested("/a")];
            packet.requests[0].timer_hit_count.push(1);
            breaks(packet);
        }));
        assert_eq!(outcome.result, Err(reason));
    }
}

#[test]
fn v2_counts_of_request_tag_names_and_values_must_agree() {
    let breakers: [fn(&mut model::Request); 2] =
        [|packet| packet.tag_name.push(0), |packet| packet.tag_value.clear()];
    assert_refused(RejectReason::RequestTagCounts, &breakers);
}

#[test]
fn v3_a_dictionary_must_be_there_if_timers_or_tags_are() {
    assert_refused(RejectReason::NoDictionary, &[|packet| packet.dictionary.clear()]);
    let bare = |tags: bool| {
        let mut packet = model::Request::named("h", "s", "/");
        if tags {
            packet.tag_name.push(0);
            packet.tag_value.push(0);
        } else {
            packet.add_timer::<&str, &str>(1, 1.0, &[]);
        }
        decode(&packet.encode_to_vec()).result
    };
    assert_eq!(bare(true), Err(RejectReason::NoDictionary));
    assert_eq!(bare(false), Err(RejectReason::NoDictionary), "also a timer that has no tags");
    assert_eq!(decode(&model::Request::named("h", "s", "/").encode_to_vec()).result, Ok(1));
}

#[test]
fn v4_a_request_tag_must_point_into_the_dictionary() {
    let breakers: [fn(&mut model::Request); 2] = [
        |packet| packet.tag_name[0] = packet.dictionary.len() as u32,
        |packet| packet.tag_value[0] = u32::MAX,
    ];
    assert_refused(RejectReason::RequestTagIndex, &breakers);
    let last = good().dictionary.len() as u32 - 1;
    assert_eq!(one(|packet| packet.tag_value[0] = last).0.tags.len(), 1);
}

#[test]
fn v5_a_timer_tag_outside_the_dictionary_is_skipped_and_the_timer_stays() {
    let (request, counts) = one(|packet| {
        packet.timer_tag_name[0] = 1000;
        packet.timer_tag_value[2] = u32::MAX;
    });
    assert_eq!(request.timers.len(), 3);
    assert_eq!(request.timers[0].tags, [(b"op".to_vec(), b"read".to_vec())]);
    assert_eq!(request.timers[1].tags, [], "it exists without tags");
    assert_eq!(request.timers[2].tags.len(), 2);
    assert_eq!(counts.repaired_by(Repair::TagIndex), 2);
}

#[test]
fn v6_tag_counts_must_add_up_to_the_names_and_to_the_values() {
    let breakers: [fn(&mut model::Request); 6] = [
        |packet| packet.timer_tag_count[0] = 3,
        |packet| packet.timer_tag_count[0] = 1,
        |packet| packet.timer_tag_name.push(0),
        |packet| packet.timer_tag_value.truncate(4),
        // Sums that would wrap to the right value in 32 bits, and in 16.
        |packet| packet.timer_tag_count = vec![u32::MAX, 1, 5],
        |packet| packet.timer_tag_count[0] += 1 << 16,
    ];
    assert_refused(RejectReason::TimerTagCounts, &breakers);
    // Tags without a timer.
    let mut packet = model::Request::named("h", "s", "/");
    packet.timer_tag_name.push(0);
    packet.timer_tag_value.push(0);
    let result = decode(&packet.encode_to_vec()).result;
    assert_eq!(result, Err(RejectReason::TimerTagCounts));
}

#[test]
fn v7_a_timer_without_hits_is_skipped_with_its_tags() {
    let (request, counts) = one(|packet| packet.timer_hit_count[0] = 0);
    assert_eq!(request.timers.len(), 2);
    assert_eq!(request.timers[0].times[0], 0.2);
    assert_eq!(request.timers[0].times[1], 0.04, "its own rusage");
    assert_eq!(request.timers[0].tags, [(b"group".to_vec(), b"cache".to_vec())]);
    assert_eq!(request.timers[1].tags[1], (b"op".to_vec(), b"write".to_vec()));
    assert_eq!(counts.repaired_by(Repair::TimerWithoutHits), 1);
}

#[test]
fn v8_a_timer_without_tags_is_skipped() {
    let (request, counts) = one(|packet| packet.timer_tag_count = vec![0, 3, 2]);
    assert_eq!(request.timers.len(), 2);
    assert_eq!(request.timers[0].hit_count, 1);
    assert_eq!(request.timers[0].tags.len(), 3);
    assert_eq!(counts.repaired_by(Repair::TimerWithoutTags), 1);
    assert_eq!(counts.repaired_by(Repair::TimerWithoutHits), 0);
    // Neither hits nor tags: counted once, for the hits.
    let (_, counts) = one(|packet| {
        packet.timer_tag_count = vec![0, 3, 2];
        packet.timer_hit_count[0] = 0;
    });
    assert_eq!(counts.repaired_by(Repair::TimerWithoutHits), 1);
    assert_eq!(counts.repaired_by(Repair::TimerWithoutTags), 0);
}

/// The request time, one CPU time, the value and one CPU time of a timer, after each was sent as
/// `sent`.
fn times(sent: f32) -> ([u32; 4], u64) {
    let (request, counts) = one(|packet| {
        packet.request_time = Some(sent);
        packet.ru_utime = Some(sent);
        packet.timer_value[1] = sent;
        packet.timer_ru_stime[1] = sent;
    });
    let timer = &request.timers[1];
    // Other times are unchanged.
    assert_eq!(request.times[2], 0.002);
    assert_eq!(timer.times[1], 0.04);
    let times = [request.times[0], request.times[1], timer.times[0], timer.times[2]];
    (times.map(f32::to_bits), counts.repaired_by(Repair::TimeZeroed))
}

#[test]
fn v9_v11_v14_v16_negative_times_become_zero() {
    for sent in [-1.0, -1e-40, f32::MIN] {
        assert_eq!(times(sent), ([0; 4], 4), "{sent}");
    }
    assert_eq!(times(-0.0), ([0; 4], 0), "-0.0 is 0, nothing is lost");
}

#[test]
fn v10_v12_v15_nan_and_infinity_become_zero() {
    for sent in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(times(sent), ([0; 4], 4), "{sent}");
    }
}

#[test]
fn v13_times_past_2147483647_s_become_zero() {
    assert_eq!(times(2_147_483_648.0), ([0; 4], 4));
    assert_eq!(times(f32::MAX), ([0; 4], 4));
    let last = 2_147_483_520.0_f32;
    assert_eq!(times(last), ([last.to_bits(); 4], 0), "the last float before");
}

#[test]
fn v17_subnormal_times_are_kept() {
    let tiny = f32::from_bits(1);
    assert_eq!(times(tiny), ([1; 4], 0));
    assert_eq!(micros(tiny), 0);
}

#[test]
fn v18_status_is_kept_whole() {
    for status in [0, 200, 65_535, 65_536, 70_000, u32::MAX] {
        assert_eq!(one(|packet| packet.status = Some(status)).0.status, status);
    }
    assert_eq!(one(|packet| packet.status = None).0.status, 0);
}

#[test]
fn missing_rusage_of_timers_is_zero() {
    let (request, _) = one(|packet| {
        packet.timer_ru_utime.truncate(1);
        packet.timer_ru_stime.clear();
    });
    let rusage: Vec<_> = request.timers.iter().map(|timer| timer.times[1]).collect();
    assert_eq!(rusage, [0.03, 0.0, 0.0]);
    assert!(request.timers.iter().all(|timer| timer.times[2] == 0.0));
    // More than there are timers: the rest is ignored.
    assert_eq!(one(|packet| packet.timer_ru_utime.push(9.0)).0.timers.len(), 3);
}

#[test]
fn of_a_singular_field_the_last_one_counts() {
    let mut packet = good().encode_to_vec();
    let mut again = model::Request::named("h2", "s2", "/2");
    again.request_time = Some(9.0);
    again.status = Some(404);
    again.schema = Some(vec![]);
    packet.extend_from_slice(&again.encode_to_vec());
    let (request, _) = decode_one(&packet);
    assert_eq!(request.hostname, b"h2");
    assert_eq!(request.script_name, b"/2");
    assert_eq!(request.times[0], 9.0);
    assert_eq!(request.status, 404);
    assert_eq!(request.schema, Some(vec![]));
    assert_eq!(request.timers.len(), 3, "lists go on");
}

#[test]
fn absent_and_empty_schema_differ() {
    let (absent, _) = one(|packet| packet.schema = None);
    let (empty, _) = one(|packet| packet.schema = Some(vec![]));
    assert_eq!(absent.schema, None);
    assert_eq!(empty.schema, Some(vec![]));
    assert_ne!(absent.identity_hash, empty.identity_hash);
}

#[test]
fn numbers_past_32_bits_keep_their_low_bits() {
    let mut packet = good().encode_to_vec();
    packet.push(0x28);
    put_varint(&mut packet, (5 << 32) | 77);
    packet.extend_from_slice(b"\x80\x01");
    put_varint(&mut packet, u64::MAX);
    let (request, _) = decode_one(&packet);
    assert_eq!(request.document_size, 77);
    assert_eq!(request.status, u32::MAX);
}

#[test]
fn numbers_and_keys_may_be_longer_than_needed() {
    let mut packet = good().encode_to_vec();
    packet.extend_from_slice(b"\xa0\x80\x80\x00\x85\x80\x80\x80\x80\x80\x80\x80\x80\x00");
    assert_eq!(decode_one(&packet).0.request_count, 5);
}

#[test]
fn packed_and_unpacked_are_the_same() {
    for name in ["spec-vector", "php-many-timers", "php-client-class-all-setters"] {
        let packet = corpus::named(name);
        let (unpacked, _) = decode_one(&packet);
        for piece in [1, 3, 1000] {
            let packed = repacked(&packet, piece).unwrap();
            assert_ne!(packed, packet);
            assert_eq!(decode_one(&packed).0, unpacked, "{name} in pieces of {piece}");
        }
    }
}

#[test]
fn a_word_that_is_name_and_value_at_once_is_one_word() {
    let mut packet = model::Request::named("h", "s", "/");
    packet.add_tag("same", "same");
    packet.add_timer(1, 1.0, &[("same", "same"), ("same", "other")]);
    let mut block = Vec::new();
    decoder().decode(&packet.encode_to_vec(), 1, &mut block).unwrap();
    let record = Record::next(&mut block.as_slice()).unwrap();
    assert_eq!(record.string_count(), 2);
}

#[test]
fn words_that_nothing_uses_stay_out() {
    let (request, counts) = one(|packet| {
        packet.dictionary.push(vec![0xff; 1000]);
        packet.dictionary.push(b"unused".to_vec());
    });
    assert_eq!(request.tags.len(), 1);
    // `read_all` has checked that every word is used.
    assert_eq!(counts.repaired, [0; Repair::COUNT], "what is not used is not repaired either");
}

/// Texts of all lengths around the 16 bytes that are handled at once, with a bad byte at each
/// position, in the middle of a packet and at its end.
#[test]
fn words_are_mended_wherever_the_bad_byte_is() {
    for length in 0..=20 {
        for bad in (0..length).map(Some).chain([None]) {
            let mut word: Vec<u8> = (0..length).map(|n| b'a' + n).collect();
            if let Some(bad) = bad {
                word[usize::from(bad)] = 0xe9;
            }
            let expected = word.iter().fold(Vec::new(), |mut text, byte| {
                match byte {
                    0xe9 => text.extend_from_slice(b"\\xe9"),
                    _ => text.push(*byte),
                }
                text
            });
            let mut packet = model::Request::named("h", "s", "/");
            packet.add_tag("n", &word);
            let packet = packet.encode_to_vec();
            let fields = super::packets::fields_of(&packet).unwrap();
            let (words, others): (Vec<_>, Vec<_>) =
                fields.into_iter().partition(|field| field.number == 15);
            let ordered = [
                [words.clone(), others.clone()].concat(),
                [others, vec![words[1].clone(), words[0].clone()]].concat(),
            ];
            for (at_end, fields) in ordered.iter().enumerate() {
                let (request, counts) = decode_one(&super::packets::message_of(fields));
                // The second has the dictionary in reverse order.
                let (name, value) = &request.tags[0];
                let text = if at_end == 0 { value } else { name };
                assert_eq!(*text, expected);
                assert_eq!(counts.repaired_by(Repair::TextNotUtf8), u64::from(bad.is_some()));
            }
        }
    }
}

#[test]
fn a_long_or_broken_word_is_counted_once_a_request() {
    let (request, counts) = one(|packet| {
        packet.dictionary[0] = vec![0xe9; 300];
        packet.tag_name = vec![0, 0];
        packet.tag_value = vec![0, 0];
    });
    assert_eq!(request.tags[1].1.len(), 252, "63 escapes of four bytes");
    assert_eq!(counts.repaired_by(Repair::TextCut), 1);
    assert_eq!(counts.repaired_by(Repair::TextNotUtf8), 1);
}

#[test]
fn hashes_are_those_that_anyone_can_recompute() {
    let (request, _) = one(|_| {});
    let h = hasher();
    let expected = h.hash_identity(b"web-1", b"example.org", b"/index.php", Some(b"https"), 200);
    assert_eq!(request.identity_hash, expected);
    assert_eq!(request.tags_hash, h.hash_tags([(&b"env"[..], &b"prod"[..])]));
    let of_timer = h.hash_tags([(&b"group"[..], &b"db"[..]), (&b"op"[..], &b"read"[..])]);
    assert_eq!(request.timers[0].tags_hash, of_timer);
    assert_eq!(
        of_timer,
        hasher().clone().hash_tags([(&b"group"[..], &b"db"[..]), (&b"op"[..], &b"read"[..]),])
    );
}

#[test]
fn the_hash_is_of_the_text_that_is_kept() {
    let long = |tail: &str| {
        let name = format!("{}{tail}", "x".repeat(255));
        one(move |packet| packet.server_name = Some(name.into())).0
    };
    assert_eq!(long("a").identity_hash, long("b").identity_hash);
    let word = |length: usize, tail: &[u8]| {
        let mut word = vec![b'w'; length];
        word.extend_from_slice(tail);
        one(move |packet| packet.dictionary[0] = word).0.tags_hash
    };
    assert_eq!(word(255, b"a"), word(255, b"b"));
    assert_ne!(word(10, b"a"), word(10, b"b"));
}
