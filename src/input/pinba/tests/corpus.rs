//! The corpus: packets of real PHP, the specification's test vector, and one packet for each
//! refusal or repair.
//!
//! `tests/corpus/README.md` lists the files. Generated ones are built here; with
//! `PINBAD_WRITE_CORPUS=1` in the environment they are written, otherwise the test compares the
//! files.

use std::path::PathBuf;

use prost::Message as _;

use super::naive::{Verdict, judge};
use super::packets::{RawField, good, good_nested, put_field, repacked, sized};
use super::*;

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus"))
}

/// All packets with their names, sorted by name.
pub(super) fn all() -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "bin"))
        .collect();
    files.sort();
    let name = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    files.iter().map(|path| (name(path), std::fs::read(path).unwrap())).collect()
}

pub(super) fn named(name: &str) -> Vec<u8> {
    std::fs::read(directory().join(format!("{name}.bin"))).unwrap()
}

/// The hex vector of the specification.
const VECTOR: &str = "0a0268311202 7331 1a022f61 2001 288010 30808040 3d0000803e 450ad7233c 4d6f12033b 5002 5dcdcccc3d
    6002 6802 6804 7003 7005 7a0470726f64 7a03656e76 7a0567726f7570 7a026462 7a026f70 7a0472656164
    8001c801 880180808002 9a010468747470 a00101 a80100 b5018fc2f53c bd010ad7233c";

fn vector() -> Vec<u8> {
    let digits: Vec<u8> = VECTOR.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

/// The expected outcome for a generated packet.
enum Fate {
    Refused(RejectReason),
    Repaired(&'static [Repair]),
    Taken(u32),
    /// This many accepted, and one request refused for this reason.
    PartlyTaken(u32, RejectReason),
}
use Fate::{PartlyTaken, Refused, Repaired, Taken};

/// A valid packet with a change.
fn changed(change: impl FnOnce(&mut model::Request)) -> Vec<u8> {
    let mut packet = good();
    change(&mut packet);
    packet.encode_to_vec()
}

/// A valid packet followed by bytes.
fn followed_by(bytes: &[u8]) -> Vec<u8> {
    let mut packet = good().encode_to_vec();
    packet.extend_from_slice(bytes);
    packet
}

/// A valid packet with valid nested ones, the last of which is changed.
fn nested(change: impl FnOnce(&mut model::NestedRequest)) -> Vec<u8> {
    changed(|packet| {
        packet.requests = vec![good_nested("/nested/1"), good_nested("/nested/2")];
        change(&mut packet.requests[1]);
    })
}

/// The generated packets, with their outcomes.
fn made() -> Vec<(&'static str, Vec<u8>, Fate)> {
    let good_bytes = good().encode_to_vec();
    let all_times_bad = |request: &mut model::Request| {
        request.request_time = Some(-1.5);
        request.ru_utime = Some(f32::NAN);
        request.ru_stime = Some(f32::INFINITY);
        request.timer_value = vec![-0.1, f32::NEG_INFINITY, 2_147_483_648.0];
        request.timer_ru_utime = vec![-1.0];
        request.timer_ru_stime = vec![f32::NAN];
    };
    let mut server_name_first = model::Request::named("h", "s", "/").encode_to_vec();
    server_name_first.rotate_left(3);
    let mut lz4 = vec![0x10, 0x01, 0x00, 0xee];
    lz4.extend_from_slice(&[0xf0; 40]);
    let deeper = {
        let mut inner = good_nested("/nested").encode_to_vec();
        let unread = RawField { number: 18, wire_type: 2, value: sized(b"\xff no message") };
        put_field(&mut inner, &unread);
        let mut packet = good().encode_to_vec();
        put_field(&mut packet, &RawField { number: 18, wire_type: 2, value: sized(&inner) });
        packet
    };
    vec![
        ("spec-vector", vector(), Taken(1)),
        ("good-packed", repacked(&good_bytes, 1000).unwrap(), Taken(1)),
        ("good-packed-and-not-mixed", repacked(&good_bytes, 2).unwrap(), Taken(1)),
        ("good-nested", nested(|_| {}), Taken(3)),
        ("good-nested-deeper-unread", deeper, Taken(2)),
        (
            "good-unknown-fields",
            followed_by(b"\xc0\x01\x05\xc9\x01........\xd2\x01\x01.\xdb\x01\xe5\x01....\xdc\x01"),
            Taken(1),
        ),
        ("good-first-byte-like-lz4", server_name_first, Taken(1)),
        ("refused-empty", vec![], Refused(RejectReason::Empty)),
        ("refused-lz4-header", lz4, Refused(RejectReason::Lz4Header)),
        (
            "refused-truncated",
            good_bytes[..good_bytes.len() - 2].to_vec(),
            Refused(RejectReason::Truncated),
        ),
        (
            "refused-length-past-the-end",
            followed_by(b"\x7a\xff\xff\x03word"),
            Refused(RejectReason::Truncated),
        ),
        (
            "refused-length-of-64-bits",
            followed_by(b"\x7a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01word"),
            Refused(RejectReason::Truncated),
        ),
        (
            "refused-packed-floats-odd-length",
            followed_by(b"\x5a\x05....."),
            Refused(RejectReason::Truncated),
        ),
        (
            "refused-group-not-closed",
            followed_by(b"\xc3\x01\xc0\x01\x05"),
            Refused(RejectReason::Truncated),
        ),
        (
            "refused-varint-too-long",
            followed_by(b"\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),
            Refused(RejectReason::BadVarint),
        ),
        ("refused-field-number-0", followed_by(b"\x00\x01"), Refused(RejectReason::BadKey)),
        ("refused-wire-type-7", followed_by(b"\x57\x01"), Refused(RejectReason::BadKey)),
        (
            "refused-key-of-33-bits",
            followed_by(b"\x80\x80\x80\x80\x10\x01"),
            Refused(RejectReason::BadKey),
        ),
        (
            "refused-status-as-text",
            followed_by(b"\x82\x01\x03200"),
            Refused(RejectReason::WrongWireType),
        ),
        (
            "refused-group-closed-as-another",
            followed_by(b"\xc3\x01\xcc\x01"),
            Refused(RejectReason::BadGroup),
        ),
        ("refused-group-not-open", followed_by(b"\xc4\x01"), Refused(RejectReason::BadGroup)),
        (
            "refused-no-script-name",
            changed(|packet| packet.script_name = None),
            Refused(RejectReason::MissingField),
        ),
        (
            "refused-no-rusage-in-nested",
            nested(|last| last.ru_stime = None),
            Refused(RejectReason::MissingField),
        ),
        (
            "refused-v1-timer-counts",
            changed(|packet| packet.timer_value.push(1.0)),
            Refused(RejectReason::TimerCounts),
        ),
        (
            "refused-v1-with-its-nested",
            changed(|packet| {
                packet.requests = vec![good_nested("/nested")];
                packet.timer_hit_count.pop();
            }),
            Refused(RejectReason::TimerCounts),
        ),
        (
            "refused-v2-tag-counts",
            changed(|packet| packet.tag_value.push(0)),
            Refused(RejectReason::RequestTagCounts),
        ),
        (
            "refused-v3-no-dictionary",
            changed(|packet| packet.dictionary.clear()),
            Refused(RejectReason::NoDictionary),
        ),
        (
            "refused-v4-tag-index",
            changed(|packet| packet.tag_value[0] = 9999),
            Refused(RejectReason::RequestTagIndex),
        ),
        (
            "refused-v6-timer-tag-counts",
            changed(|packet| packet.timer_tag_count[1] = 7),
            Refused(RejectReason::TimerTagCounts),
        ),
        (
            "refused-v6-and-nested-too",
            nested(|last| last.timer_tag_count[1] = 7),
            PartlyTaken(2, RejectReason::TimerTagCounts),
        ),
        (
            "mended-v5-index-outside",
            changed(|packet| packet.timer_tag_name[0] = 77),
            Repaired(&[Repair::TagIndex]),
        ),
        (
            "mended-v7-no-hits",
            changed(|packet| packet.timer_hit_count[0] = 0),
            Repaired(&[Repair::TimerWithoutHits]),
        ),
        (
            "mended-v8-no-tags",
            changed(|packet| {
                packet.timer_tag_count = vec![2, 0, 3];
            }),
            Repaired(&[Repair::TimerWithoutTags]),
        ),
        ("mended-v9-to-v16-times", changed(all_times_bad), Repaired(&[Repair::TimeZeroed; 8])),
        (
            "mended-text-cut",
            changed(|packet| packet.hostname = Some(vec![b'h'; 300])),
            Repaired(&[Repair::TextCut]),
        ),
        (
            "mended-latin-1",
            changed(|packet| packet.script_name = Some(b"/caf\xe9".to_vec())),
            Repaired(&[Repair::TextNotUtf8]),
        ),
    ]
}

#[test]
fn made_packets_show_what_their_names_say() {
    let write = std::env::var_os("PINBAD_WRITE_CORPUS").is_some();
    for (name, packet, fate) in made() {
        let path = directory().join(format!("{name}.bin"));
        if write {
            std::fs::write(&path, &packet).unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap_or_default(), packet, "{name}: the file differs");
        let outcome = decode(&packet);
        let counts = outcome.counts;
        match fate {
            Refused(reason) => assert_eq!(outcome.result, Err(reason), "{name}"),
            Taken(requests) => {
                assert_eq!(outcome.result, Ok(requests), "{name}");
                assert_eq!(counts.repaired, [0; Repair::COUNT], "{name}");
            }
            PartlyTaken(requests, reason) => {
                assert_eq!(outcome.result, Ok(requests), "{name}");
                assert_eq!(counts.requests_decoded, u64::from(requests) + 1, "{name}");
                assert_eq!(counts.requests_invalid_by(reason), 1, "{name}");
            }
            Repaired(repairs) => {
                assert_eq!(outcome.result, Ok(1), "{name}");
                let mut expected = [0; Repair::COUNT];
                for mend in repairs {
                    expected[*mend as usize] += 1;
                }
                assert_eq!(counts.repaired, expected, "{name}");
            }
        }
    }
}

#[test]
fn every_refusal_that_a_socket_can_bring_has_a_packet() {
    let mut shown = [false; RejectReason::COUNT];
    for (_, _, fate) in made() {
        if let Refused(reason) | PartlyTaken(_, reason) = fate {
            shown[reason as usize] = true;
        }
    }
    for reason in RejectReason::ALL {
        let cannot_come =
            matches!(reason, RejectReason::TooLong | RejectReason::TooLarge | RejectReason::NoLine)
                || reason.is_unread();
        assert!(shown[reason as usize] || cannot_come, "no packet for {}", reason.name());
    }
}

#[test]
fn the_readme_lists_every_file() {
    let readme = std::fs::read_to_string(directory().join("README.md")).unwrap();
    for (name, _) in all() {
        assert_has!(readme => format!("`{name}`"); "{name} is not in tests/corpus/README.md");
    }
}

/// For every file, the record equals what prost decodes, field by field.
#[test]
fn records_hold_what_prost_decodes() {
    let mut decoder = decoder();
    for (name, packet) in all() {
        let outcome = decode_with(&mut decoder, &packet);
        match judge(&packet, TextLimits::default(), &hasher()) {
            Verdict::Taken { requests, .. } => assert_eq!(outcome.requests, requests, "{name}"),
            Verdict::Refused(reason) => assert_eq!(outcome.result, Err(reason), "{name}"),
            Verdict::Undecodable => {
                assert!(outcome.result.is_err_and(RejectReason::is_malformed), "{name}");
            }
        }
    }
}

/// What PHP sends leaves out its tags when it comes again.
#[test]
fn packets_of_php_that_come_again_leave_out_their_tags() {
    let mut decoders = Decoders::new(TextLimits::default());
    for (name, packet) in all().iter().filter(|(name, _)| name.starts_with("php-")) {
        let left_out = [(); 3].map(|()| decoders.repeating(packet).1);
        if ["php-web-page-1", "php-flush-2-of-3", "php-request-tags-and-status-503"]
            .contains(&&**name)
        {
            assert_eq!(left_out, [0, 0, 1], "{name}");
        }
    }
}

#[test]
fn packets_of_php_are_taken_whole() {
    for (name, packet) in all().iter().filter(|(name, _)| name.starts_with("php-")) {
        let (request, counts) = decode_one(packet);
        assert!(!request.hostname.is_empty() && !request.script_name.is_empty(), "{name}");
        let repaired: u64 = counts.repaired.iter().sum();
        let odd =
            matches!(name.as_str(), "php-names-too-long" | "php-cyrillic-and-a-value-not-utf8");
        assert_eq!(repaired > 0, odd, "{name}: {:?}", counts.repaired);
    }
}

#[test]
fn the_vector_of_the_specification() {
    let packet = named("spec-vector");
    assert_eq!(packet.len(), 120);
    let (request, _) = decode_one(&packet);
    let tag = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    assert_eq!(request.received_secs, RECEIVED_SECS);
    assert_eq!(request.hostname, b"h1");
    assert_eq!(request.server_name, b"s1");
    assert_eq!(request.script_name, b"/a");
    assert_eq!(request.schema.as_deref(), Some(&b"http"[..]));
    assert_eq!((request.request_count, request.document_size), (1, 2048));
    assert_eq!((request.memory_peak, request.memory_footprint), (1_048_576, 4_194_304));
    assert_eq!(request.status, 200);
    assert_eq!(request.times, [0.25, 0.01, 0.002]);
    assert_eq!(request.times.map(micros), [250_000, 10_000, 2_000]);
    assert_eq!(request.tags, [tag("env", "prod")]);
    let [timer] = &request.timers[..] else { panic!("one timer") };
    assert_eq!(timer.hit_count, 2);
    assert_eq!(timer.times.map(micros), [100_000, 30_000, 10_000]);
    assert_eq!(timer.tags, [tag("group", "db"), tag("op", "read")]);
}

#[test]
fn texts_of_php_that_are_not_utf8_or_too_long() {
    let (request, _) = decode_one(&named("php-cyrillic-and-a-value-not-utf8"));
    assert_eq!(request.server_name, "пример.рф".as_bytes());
    assert_eq!(request.tags[0].0, "ключ".as_bytes());
    assert_eq!(request.tags[0].1, "значение \\xff\\xfe bytes".as_bytes());

    let (request, counts) = decode_one(&named("php-names-too-long"));
    assert_eq!(request.server_name, vec![b's'; 255].as_slice());
    assert_eq!(request.script_name.len(), 401, "within 512");
    assert_eq!(counts.repaired_by(Repair::TextCut), 1);
}
