//! Test packets: built ones, and any message as a list of raw fields that can be rearranged.

use prost::Message as _;

use super::model;
use crate::dice::Dice;

/// One field of a message, raw.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RawField {
    pub(super) number: u32,
    pub(super) wire_type: u32,
    /// Without the key; including the length, if there is one.
    pub(super) value: Vec<u8>,
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn put_field(out: &mut Vec<u8>, field: &RawField) {
    put_varint(out, u64::from(field.number << 3 | field.wire_type));
    out.extend_from_slice(&field.value);
}

/// A length and the bytes.
pub(super) fn sized(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, bytes.len() as u64);
    out.extend_from_slice(bytes);
    out
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in 0..9 {
        let (first, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(first & 0x7f) << (7 * shift);
        if *first < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The fields of a message; `None` if it has groups or is invalid.
pub(super) fn fields_of(message: &[u8]) -> Option<Vec<RawField>> {
    let mut rest = message;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let key = take_varint(&mut rest)?;
        let value = rest;
        let len = match key & 7 {
            0 => {
                take_varint(&mut rest)?;
                value.len() - rest.len()
            }
            1 => 8,
            2 => {
                let len = take_varint(&mut rest)?;
                (value.len() - rest.len()).checked_add(usize::try_from(len).ok()?)?
            }
            5 => 4,
            _ => return None,
        };
        rest = value.get(len..)?;
        fields.push(RawField {
            number: u32::try_from(key >> 3).ok()?,
            wire_type: (key & 7) as u32,
            value: value[..len].to_vec(),
        });
    }
    Some(fields)
}

pub(super) fn message_of(fields: &[RawField]) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields {
        put_field(&mut out, field);
    }
    out
}

/// The fields that may be packed.
pub(super) const PACKABLE: [u32; 9] = [10, 11, 12, 13, 14, 20, 21, 22, 23];

/// The message with its lists packed: each list in pieces of up to `piece` elements at its first
/// position, or, for a piece of 0, all unpacked.
pub(super) fn repacked(message: &[u8], piece: usize) -> Option<Vec<u8>> {
    let fields = fields_of(message)?;
    let mut out = Vec::new();
    let mut done = Vec::new();
    for field in &fields {
        if !PACKABLE.contains(&field.number) {
            put_field(&mut out, field);
            continue;
        }
        if done.contains(&field.number) {
            continue;
        }
        done.push(field.number);
        let is_float = matches!(field.number, 11 | 22 | 23);
        let mut elements: Vec<Vec<u8>> = Vec::new();
        for field in fields.iter().filter(|other| other.number == field.number) {
            let mut rest = field.value.as_slice();
            if field.wire_type == 2 {
                take_varint(&mut rest)?;
            }
            while !rest.is_empty() {
                let element = rest;
                rest = if is_float {
                    rest.get(4..)?
                } else {
                    take_varint(&mut rest)?;
                    rest
                };
                elements.push(element[..element.len() - rest.len()].to_vec());
            }
        }
        let number = field.number;
        if piece == 0 {
            let wire_type = if is_float { 5 } else { 0 };
            for value in elements {
                put_field(&mut out, &RawField { number, wire_type, value });
            }
        } else {
            for piece in elements.chunks(piece) {
                let value = sized(&piece.concat());
                put_field(&mut out, &RawField { number, wire_type: 2, value });
            }
        }
    }
    Some(out)
}

/// A valid request, with a bit of everything.
pub(super) fn good() -> model::Request {
    let mut request = model::Request::named("web-1", "example.org", "/index.php");
    request.request_count = Some(1);
    request.document_size = Some(2048);
    request.memory_peak = Some(1 << 20);
    request.request_time = Some(0.25);
    request.ru_utime = Some(0.01);
    request.ru_stime = Some(0.002);
    request.status = Some(200);
    request.memory_footprint = Some(4 << 20);
    request.schema = Some(b"https".to_vec());
    request.add_tag("env", "prod");
    request.add_timer_with_rusage(2, 0.1, (0.03, 0.01), &[("group", "db"), ("op", "read")]);
    request.add_timer_with_rusage(1, 0.2, (0.04, 0.02), &[("group", "cache")]);
    request.add_timer_with_rusage(3, 0.3, (0.05, 0.03), &[("group", "db"), ("op", "write")]);
    request
}

/// The same as a nested request with another script name.
pub(super) fn good_nested(script_name: &str) -> model::NestedRequest {
    let mut nested = model::NestedRequest::decode(good().encode_to_vec().as_slice()).unwrap();
    nested.script_name = Some(script_name.into());
    nested
}

/// A request that may be wrong in any way: small numbers of everything, odd texts and times,
/// indexes out of range, counts that do not add up.
pub(super) fn odd(dice: &mut Dice) -> model::NestedRequest {
    const TEXTS: [&[u8]; 12] = [
        b"",
        b"a",
        b"web-1",
        b"/index.php?a=1",
        "привет".as_bytes(),
        b"\xff",
        b"caf\xe9 au lait",
        b"exactly-16-bytes",
        b"seventeen-bytes-x",
        "日本".as_bytes(),
        b"\xe6\x97",
        b"with\0nul",
    ];
    const TIMES: [f32; 14] = [
        0.0,
        -0.0,
        0.1,
        12.5,
        -1.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1e-40,
        1e10,
        2_147_483_520.0,
        2_147_483_648.0,
        f32::MAX,
        f32::MIN_POSITIVE,
    ];
    let text = |dice: &mut Dice| {
        if dice.once_in(20) { vec![b'x'; dice.index(700)] } else { dice.pick(&TEXTS).to_vec() }
    };
    let time = |dice: &mut Dice| {
        if dice.once_in(3) { *dice.pick(&TIMES) } else { 0.05 }
    };
    let number = |dice: &mut Dice| (dice.next() >> dice.index(64)) as u32;
    let mut request = model::NestedRequest::named(text(dice), text(dice), text(dice));
    request.request_count = Some(number(dice));
    request.document_size = Some(number(dice));
    request.memory_peak = Some(number(dice));
    request.request_time = Some(time(dice));
    request.ru_utime = Some(time(dice));
    request.ru_stime = Some(time(dice));
    request.status = dice.once_in(2).then(|| number(dice));
    request.memory_footprint = dice.once_in(2).then(|| number(dice));
    request.schema = dice.once_in(2).then(|| text(dice));
    request.dictionary = (0..dice.index(6)).map(|_| text(dice)).collect();
    let words = request.dictionary.len() + usize::from(dice.once_in(12));
    let index = |dice: &mut Dice| dice.index(words) as u32;
    for _ in 0..dice.index(3) {
        request.tag_name.push(index(dice));
        request.tag_value.push(index(dice));
    }
    for _ in 0..dice.index(5) {
        let tags = dice.index(4);
        request.timer_hit_count.push(dice.index(4) as u32);
        request.timer_value.push(time(dice));
        request.timer_tag_count.push(tags as u32);
        for _ in 0..tags {
            request.timer_tag_name.push(index(dice));
            request.timer_tag_value.push(index(dice));
        }
        if dice.once_in(2) {
            request.timer_ru_utime.push(time(dice));
        }
        if dice.once_in(2) {
            request.timer_ru_stime.push(time(dice));
        }
    }
    // Sometimes one list is one too long or too short.
    if dice.once_in(8) {
        match dice.index(6) {
            0 => request.timer_hit_count.push(1),
            1 => drop(request.timer_value.pop()),
            2 => drop(request.tag_name.pop()),
            3 => drop(request.timer_tag_name.pop()),
            4 => request.timer_tag_value.push(0),
            _ => request.hostname = None,
        }
    }
    request
}
