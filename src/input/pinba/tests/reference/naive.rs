//! The reference: prost decodes, and the validation rules are applied one after the other, as
//! specified, without regard to speed. Shares nothing with the decoder but the names of reasons and
//! the hash function.

use prost::Message as _;

use super::plain::{Plain, PlainTag, PlainTimer};
use super::{Hasher, RECEIVED_SECS, RejectReason, Repair, TextLimits, model};

/// The expected outcome of a datagram.
#[derive(Debug)]
pub(in crate::input::pinba) enum Verdict {
    /// Not a message, required fields aside. prost's reasons differ from ours.
    Undecodable,
    /// A message of which nothing is accepted.
    Refused(RejectReason),
    /// These requests are accepted; the others are refused for these reasons.
    Taken { requests: Vec<Plain>, refused: Vec<RejectReason>, repaired: [u64; Repair::COUNT] },
}

pub(in crate::input::pinba) fn judge(
    datagram: &[u8],
    limits: TextLimits,
    hasher: &Hasher,
) -> Verdict {
    if datagram.is_empty() {
        return Verdict::Refused(RejectReason::Empty);
    }
    // The outer message alone, nested ones unread: V1 of the outer message comes before the rest.
    let Ok(outer) = model::NestedRequest::decode(datagram) else {
        return Verdict::Undecodable;
    };
    if outer.missing_field().is_some() {
        return Verdict::Refused(RejectReason::MissingField);
    }
    if !timer_counts_agree(&outer) {
        return Verdict::Refused(RejectReason::TimerCounts);
    }
    for nested in &outer.requests {
        match model::NestedRequest::decode(nested.as_slice()) {
            Err(_) => return Verdict::Undecodable,
            Ok(nested) if nested.missing_field().is_some() => {
                return Verdict::Refused(RejectReason::MissingField);
            }
            Ok(_) => {}
        }
    }
    // prost allows one level of groups less inside a nested message than in a top-level one.
    let Ok(whole) = model::Request::decode(datagram) else {
        return Verdict::Undecodable;
    };
    let mut requests = Vec::new();
    let mut refused = Vec::new();
    let mut repaired = [0; Repair::COUNT];
    for request in std::iter::once(&outer).chain(&whole.requests) {
        match check(request) {
            Ok(()) => requests.push(convert(request, limits, hasher, &mut repaired)),
            Err(reason) => refused.push(reason),
        }
    }
    if requests.is_empty() {
        return Verdict::Refused(refused[0]);
    }
    Verdict::Taken { requests, refused, repaired }
}

fn timer_counts_agree(request: &model::NestedRequest) -> bool {
    let timers = request.timer_hit_count.len();
    request.timer_value.len() == timers && request.timer_tag_count.len() == timers
}

fn check(request: &model::NestedRequest) -> Result<(), RejectReason> {
    if !timer_counts_agree(request) {
        return Err(RejectReason::TimerCounts);
    }
    if request.tag_name.len() != request.tag_value.len() {
        return Err(RejectReason::RequestTagCounts);
    }
    let has_timers = !request.timer_hit_count.is_empty();
    let has_tags = !request.tag_name.is_empty();
    if request.dictionary.is_empty() && (has_timers || has_tags) {
        return Err(RejectReason::NoDictionary);
    }
    let indexes = request.tag_name.iter().chain(&request.tag_value);
    if indexes.copied().any(|index| index as usize >= request.dictionary.len()) {
        return Err(RejectReason::RequestTagIndex);
    }
    let pairs: u128 = request.timer_tag_count.iter().map(|count| u128::from(*count)).sum();
    if pairs != request.timer_tag_name.len() as u128
        || pairs != request.timer_tag_value.len() as u128
    {
        return Err(RejectReason::TimerTagCounts);
    }
    Ok(())
}

fn convert(
    request: &model::NestedRequest,
    limits: TextLimits,
    hasher: &Hasher,
    repaired: &mut [u64; Repair::COUNT],
) -> Plain {
    let cap = limits.text_bytes;
    let hostname = text(request.hostname.as_ref().expect("required"), cap, Some(repaired));
    let server_name = text(request.server_name.as_ref().expect("required"), cap, Some(repaired));
    let script_cap = limits.script_name_bytes;
    let script_name =
        text(request.script_name.as_ref().expect("required"), script_cap, Some(repaired));
    let schema = request.schema.as_ref().map(|schema| text(schema, cap, Some(repaired)));
    let status = request.status.unwrap_or(0);

    let mut used = vec![false; request.dictionary.len()];
    let mut tags_of =
        |names: &[u32], values: &[u32], max: usize, repaired: &mut [u64; Repair::COUNT]| {
            let mut tags: Vec<PlainTag> = Vec::new();
            let mut bytes = 0;
            for (name, value) in names.iter().zip(values) {
                let (name, value) = (*name as usize, *value as usize);
                if name >= request.dictionary.len() || value >= request.dictionary.len() {
                    repaired[Repair::TagIndex as usize] += 1;
                    continue;
                }
                let sent = [name, value].map(|at| request.dictionary[at].len().min(cap));
                if tags.len() == max || bytes + sent[0] + sent[1] > 65_535 {
                    repaired[Repair::TagOverLimit as usize] += 1;
                } else {
                    bytes += sent[0] + sent[1];
                    let mut word = |index: usize| {
                        let first = !std::mem::replace(&mut used[index], true);
                        text(&request.dictionary[index], cap, first.then_some(&mut *repaired))
                    };
                    let tag = (word(name), word(value));
                    tags.push(tag);
                }
            }
            tags
        };
    let tags = tags_of(&request.tag_name, &request.tag_value, 8192, repaired);

    let mut timers = Vec::new();
    let mut cursor = 0;
    for (timer, hit_count) in request.timer_hit_count.iter().enumerate() {
        let tag_count = request.timer_tag_count[timer] as usize;
        let names = &request.timer_tag_name[cursor..cursor + tag_count];
        let values = &request.timer_tag_value[cursor..cursor + tag_count];
        cursor += tag_count;
        if *hit_count == 0 {
            repaired[Repair::TimerWithoutHits as usize] += 1;
        } else if tag_count == 0 {
            repaired[Repair::TimerWithoutTags as usize] += 1;
        } else {
            let ru_utime = request.timer_ru_utime.get(timer).copied().unwrap_or(0.0);
            let ru_stime = request.timer_ru_stime.get(timer).copied().unwrap_or(0.0);
            let times = [request.timer_value[timer], ru_utime, ru_stime].map(|t| time(t, repaired));
            let tags = tags_of(names, values, 8192, repaired);
            let tags_hash = hash(hasher, &tags);
            timers.push(PlainTimer { hit_count: *hit_count, times, tags, tags_hash });
        }
    }

    let times = [request.request_time, request.ru_utime, request.ru_stime];
    Plain {
        repeat: None,
        received_secs: RECEIVED_SECS,
        identity_hash: hasher.hash_identity(
            &hostname,
            &server_name,
            &script_name,
            schema.as_deref(),
            status,
        ),
        hostname,
        server_name,
        script_name,
        schema,
        request_count: request.request_count.expect("required"),
        document_size: request.document_size.expect("required"),
        memory_peak: request.memory_peak.expect("required"),
        memory_footprint: request.memory_footprint.unwrap_or(0),
        status,
        times: times.map(|t| time(t.expect("required"), repaired)),
        tags_hash: hash(hasher, &tags),
        tags,
        timers,
    }
}

fn hash(hasher: &Hasher, tags: &[PlainTag]) -> u64 {
    hasher.hash_tags(tags.iter().map(|(name, value)| (name.as_slice(), value.as_slice())))
}

/// V9 to V17.
fn time(sent: f32, repaired: &mut [u64; Repair::COUNT]) -> f32 {
    if sent.is_nan() || sent < 0.0 || f64::from(sent) > 2_147_483_647.0 {
        repaired[Repair::TimeZeroed as usize] += 1;
        return 0.0;
    }
    if sent == 0.0 { 0.0 } else { sent }
}

/// Character by character; each byte that is not part of a character is escaped.
fn text(raw: &[u8], cap: usize, repaired: Option<&mut [u64; Repair::COUNT]>) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut cut, mut bad) = (false, false);
    let mut rest = raw;
    while !rest.is_empty() {
        let character = (1..=4.min(rest.len()))
            .find(|len| std::str::from_utf8(&rest[..*len]).is_ok())
            .map(|len| &rest[..len]);
        let unit = character.map_or_else(
            || {
                bad = true;
                format!("\\x{:02x}", rest[0]).into_bytes()
            },
            <[u8]>::to_vec,
        );
        if out.len() + unit.len() > cap {
            cut = true;
            break;
        }
        out.extend_from_slice(&unit);
        rest = &rest[character.map_or(1, <[u8]>::len)..];
    }
    if let Some(repaired) = repaired {
        repaired[Repair::TextCut as usize] += u64::from(cut);
        repaired[Repair::TextNotUtf8 as usize] += u64::from(bad);
    }
    out
}
