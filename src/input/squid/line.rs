//! Parses one line of a Squid log, in any of its formats.
//!
//! | format | example |
//! |---|---|
//! | collector | `sq1 start=1795235378.795 end=.. tr=4 ..`: named members in any order |
//! | access.log | 10 fields, the first a time with milliseconds |
//! | the patch's access.log | the same and six of `start/first_delay/total` |
//! | the patch's store.log | 11 fields, the second an action, the last `first_delay/total` |
//!
//! The format is recognised from the line alone. Fields of `-` or (in the patch) -2 are `None`
//! here. A truncated line is used as far as it goes: its last field is ignored, unless that is the
//! URL. Pure; only encoded texts are allocated.

use std::borrow::Cow;

use percent_encoding::percent_decode;

use super::activity::{Activity, Measure, Measures};
use super::bottleneck::Detail;
use crate::input::record::counted;

/// Prefix of lines in the collector's format.
const COLLECTOR: &[u8] = b"sq1";

/// Fields of an access.log.
const ACCESS_FIELDS: usize = 10;

/// Most fields of any format except the collector's.
const FIELDS_MAX: usize = 16;

counted! {
    /// The reason for rejecting a line.
    BadLine {
        /// Longer than any line of Squid.
        TooLong = "too_long",
        /// It ends before the required fields.
        CutOff = "cut_off",
        /// In none of the formats.
        UnknownFormat = "unknown_format",
        /// A store.log as Squid 5.7 writes it: 13 fields, without timings.
        StoreLogWithoutTimings = "store_log_without_timings",
        /// An invalid number.
        BadNumber = "bad_number",
        /// No time, duration or result code.
        MissingField = "missing_field",
    }
}

/// Why a line is rejected, and for which of its fields; "" if it is not one alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejected<'a> {
    /// The reason.
    pub reason: BadLine,
    /// The name of the field.
    pub field: &'a str,
}

impl From<BadLine> for Rejected<'_> {
    fn from(reason: BadLine) -> Self {
        Self { reason, field: "" }
    }
}

/// Names the field of an error.
fn of_field<'a>(field: &'a str) -> impl FnOnce(BadLine) -> Rejected<'a> {
    move |reason| Rejected { reason, field }
}

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack for one line; most are requests"
)]
pub enum Line<'a> {
    /// A request, from an access.log.
    Request(Transaction<'a>),
    /// An object moved or dropped, from a store.log.
    Swap(Swap<'a>),
}

/// A request. Texts are as logged, decoded where the format encodes them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Transaction<'a> {
    /// Its start, in milliseconds since 1970-01-01 UTC.
    pub start_ms: u64,
    /// Its duration in milliseconds.
    pub elapsed_ms: u64,
    /// Its number in the run of Squid.
    pub sequence: Option<u64>,
    /// The result code: `TCP_MISS`.
    pub code: &'a [u8],
    /// HTTP status sent to the client; 0 for none.
    pub status: u32,
    /// Bytes sent to the client.
    pub sent_bytes: u64,
    /// Bytes received from the server.
    pub fetched_bytes: Option<u64>,
    /// `GET`.
    pub method: Option<&'a [u8]>,
    /// The requested URL.
    pub url: Option<Cow<'a, [u8]>>,
    /// How the server was found: `HIER_DIRECT`.
    pub hierarchy: Option<&'a [u8]>,
    /// The server asked, with its port if that is logged.
    pub peer: Option<&'a [u8]>,
    /// The response's media type.
    pub mime: Option<Cow<'a, [u8]>>,
    /// The client, without the port.
    pub client: Option<&'a [u8]>,
    /// The data on activities.
    pub activities: Measures,
    /// The detail of the format on activities.
    pub detail: Detail,
}

impl Transaction<'_> {
    /// Its end, in seconds since 1970-01-01 UTC.
    pub fn ended_secs(&self) -> u32 {
        let ended_ms = self.start_ms.saturating_add(self.elapsed_ms);
        u32::try_from(ended_ms / 1000).unwrap_or(u32::MAX)
    }
}

/// An object that was written to disk, read from it, or dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct Swap<'a> {
    /// The time, in milliseconds since 1970-01-01 UTC.
    pub time_ms: u64,
    /// `SWAPOUT`, `SWAPIN`, `RELEASE`.
    pub action: &'a [u8],
    /// The object's type.
    pub mime: &'a [u8],
    /// Bytes of the object.
    pub object_bytes: Option<u64>,
    /// From the start to the first piece, in microseconds.
    pub first_delay_us: Option<u64>,
    /// From the start to the end, in microseconds.
    pub total_us: Option<u64>,
}

/// Parses a line, which has no line end. `cut`: it ended without one.
///
/// # Errors
/// The reason why it cannot be used.
pub fn parse(line: &[u8], cut: bool) -> Result<Line<'_>, Rejected<'_>> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|it| !it.is_empty());
    if line.starts_with(COLLECTOR) && words.next() == Some(COLLECTOR) {
        return collector(words, cut).map(Line::Request);
    }
    let words = line.split(u8::is_ascii_whitespace).filter(|it| !it.is_empty());
    let mut fields: [&[u8]; FIELDS_MAX] = [&[]; FIELDS_MAX];
    let mut count = 0_usize;
    for word in words {
        let place = fields.get_mut(count).ok_or(BadLine::UnknownFormat)?;
        *place = word;
        count = count.saturating_add(1);
    }
    let fields = fields.get(..count).unwrap_or(&[]);
    match fields {
        [_, b"SWAPOUT" | b"SWAPIN" | b"RELEASE" | b"CREATE", rest @ ..] => match rest.len() {
            9 => swap(fields).map(Line::Swap),
            11 => Err(BadLine::StoreLogWithoutTimings.into()),
            _ if cut => Err(BadLine::CutOff.into()),
            _ => Err(BadLine::UnknownFormat.into()),
        },
        _ => access(fields, cut).map(Line::Request),
    }
}

/// Parses `sq1` and its members.
fn collector<'a>(
    members: impl Iterator<Item = &'a [u8]>,
    cut: bool,
) -> Result<Transaction<'a>, Rejected<'a>> {
    let mut request = Transaction::default();
    let (mut start, mut end, mut elapsed, mut code) = (None, None, None, None);
    let (mut dns, mut server_in, mut server) = (None, None, None);
    let mut members = members.peekable();
    while let Some(member) = members.next() {
        let at = member.iter().position(|byte| *byte == b'=');
        let Some((name, [_, value @ ..])) = at.and_then(|at| member.split_at_checked(at)) else {
            match cut && members.peek().is_none() {
                true => break,
                false => return Err(BadLine::UnknownFormat.into()),
            }
        };
        if cut && members.peek().is_none() && name != b"url" || value == b"-" {
            continue;
        }
        let known = std::str::from_utf8(name).unwrap_or_default();
        let number = |text| number(text).map_err(of_field(known));
        match name {
            b"start" => start = Some(time_ms(value).map_err(of_field(known))?),
            b"end" => end = Some(time_ms(value).map_err(of_field(known))?),
            b"tr" => elapsed = Some(number(value)?),
            b"dt" => dns = Some(number(value)?),
            b"pt" => server_in = Some(number(value)?),
            b"tt" => server = Some(number(value)?),
            b"ss" => code = Some(value),
            b"hs" => request.status = status(value).map_err(of_field(known))?,
            b"rm" => request.method = Some(value),
            b"out" => request.sent_bytes = number(value)?,
            b"bs" => request.fetched_bytes = Some(number(value)?),
            b"sh" => request.hierarchy = Some(value),
            b"peer" if value != b"-:-" => request.peer = Some(value),
            b"cl" => request.client = Some(without_port(value)),
            b"sn" => request.sequence = Some(number(value)?),
            b"mt" => request.mime = Some(percent_decode(value).into()),
            b"url" => request.url = Some(percent_decode(value).into()),
            _ => {}
        }
    }
    let missing = match cut {
        true => BadLine::CutOff,
        false => BadLine::MissingField,
    };
    let between = |start: Option<u64>, end: Option<u64>| end?.checked_sub(start?);
    request.elapsed_ms = elapsed.or(between(start, end)).ok_or(missing)?;
    request.start_ms = start.or(between(elapsed, end)).ok_or(missing)?;
    request.code = code.ok_or(missing)?;
    let of_server = server.or(server_in);
    request.detail = Detail::Totals(of_server.map(|ms| ms.saturating_mul(1000)));
    // These Squids only measure the total of the server's side, and the part of it that is the
    // response.
    let server_out = between(server_in, server);
    for (activity, total_ms) in
        [(Activity::Dns, dns), (Activity::ServerIn, server_in), (Activity::ServerOut, server_out)]
    {
        if let Some(known) = request.activities.get_mut(activity as usize) {
            known.total_us = total_ms.map(|ms: u64| ms.saturating_mul(1000));
        }
    }
    Ok(request)
}

/// Parses an access.log, Squid's own or the patch's.
fn access<'a>(fields: &[&'a [u8]], cut: bool) -> Result<Transaction<'a>, Rejected<'a>> {
    let (fields, triples) = match fields.split_at_checked(ACCESS_FIELDS) {
        Some((fields, triples)) => (fields, triples),
        None if cut => (fields, &[][..]),
        None => return Err(BadLine::UnknownFormat.into()),
    };
    let unknown = match cut {
        true => BadLine::CutOff,
        false => BadLine::UnknownFormat,
    };
    let [time, elapsed, client, result, bytes, method, url, rest @ ..] = fields else {
        return Err(unknown.into());
    };
    let slash = |text: &'a [u8]| {
        let at = text.iter().rposition(|byte| *byte == b'/')?;
        let (before, [_, after @ ..]) = text.split_at_checked(at)? else { return None };
        Some((before, after))
    };
    let Ok(end_ms) = time_ms(time) else { return Err(BadLine::UnknownFormat.into()) };
    let (code, status_text) = slash(result).ok_or(BadLine::UnknownFormat)?;
    let elapsed_ms = number(elapsed).map_err(of_field("elapsed"))?;
    let mut request = Transaction {
        start_ms: end_ms.saturating_sub(elapsed_ms),
        elapsed_ms,
        code,
        status: status(status_text).map_err(of_field("status"))?,
        sent_bytes: number(bytes).map_err(of_field("bytes"))?,
        method: given(method),
        url: given(url).map(Cow::Borrowed),
        client: given(client),
        ..Transaction::default()
    };
    // The last field of a truncated line is ignored.
    let whole = |at: usize| {
        let field = rest.get(at).copied()?;
        (!cut || rest.len() > at.saturating_add(1)).then_some(field)
    };
    if let Some((hierarchy, peer)) = whole(1).and_then(slash) {
        request.hierarchy = given(hierarchy);
        request.peer = given(peer);
    }
    request.mime = whole(2).and_then(given).map(Cow::Borrowed);
    match triples.len() {
        0 => {}
        6 if !cut => {
            request.detail = Detail::Starts;
            for ((activity, known), triple) in
                Activity::ALL.iter().zip(&mut request.activities).zip(triples)
            {
                *known = measure(*activity, triple).map_err(of_field(activity.name()))?;
            }
        }
        _ => return Err(unknown.into()),
    }
    Ok(request)
}

/// Parses `start/first_delay/total` in microseconds; but a disk start below 0 is in milliseconds,
/// for which the object was in memory.
fn measure(activity: Activity, triple: &[u8]) -> Result<Measure, BadLine> {
    let [start, first_delay, total] = slashed(triple)?;
    let is_resident = activity.is_disk() && start < 0 && start != NOT_KNOWN;
    Ok(Measure {
        start_us: u64::try_from(start).ok(),
        first_delay_us: u64::try_from(first_delay).ok(),
        total_us: u64::try_from(total).ok(),
        resident_ms: is_resident.then_some(start.unsigned_abs()),
    })
}

/// Parses so many numbers with slashes between them.
fn slashed<const N: usize>(text: &[u8]) -> Result<[i64; N], BadLine> {
    let parts = text.split(|byte| *byte == b'/');
    if parts.clone().count() != N {
        return Err(BadLine::UnknownFormat);
    }
    let mut numbers = [0; N];
    for (number, part) in numbers.iter_mut().zip(parts) {
        *number = signed(part)?;
    }
    Ok(numbers)
}

/// Printed by the patch for values that do not apply or are unknown.
const NOT_KNOWN: i64 = -2;

/// The patch's store.log:
/// `time action status date lastmod expires mime expected/real method url first_delay/total`.
fn swap<'a>(fields: &[&'a [u8]]) -> Result<Swap<'a>, Rejected<'a>> {
    let [time, action, _, _, _, _, mime, sizes, _, _, times] = fields else {
        return Err(BadLine::UnknownFormat.into());
    };
    let [_, object_bytes] =
        slashed(sizes).map_err(of_field("expected/real"))?.map(|it| u64::try_from(it).ok());
    let [first_delay_us, total_us] =
        slashed(times).map_err(of_field("first_delay/total"))?.map(|it| u64::try_from(it).ok());
    let time_ms = time_ms(time).map_err(of_field("time"))?;
    Ok(Swap { time_ms, action, mime, object_bytes, first_delay_us, total_us })
}

/// The field, unless it stands for no value.
fn given(field: &[u8]) -> Option<&[u8]> {
    (field != b"-").then_some(field)
}

/// The address in `address:port`.
fn without_port(text: &[u8]) -> &[u8] {
    let colon = text.iter().rposition(|byte| *byte == b':');
    let address = colon.and_then(|at| text.get(..at)).unwrap_or(text);
    match address {
        [b'[', inner @ .., b']'] => inner,
        address => address,
    }
}

fn number(text: &[u8]) -> Result<u64, BadLine> {
    let text = std::str::from_utf8(text).map_err(|_| BadLine::BadNumber)?;
    match text.starts_with('+') {
        true => Err(BadLine::BadNumber),
        false => text.parse().map_err(|_| BadLine::BadNumber),
    }
}

fn signed(text: &[u8]) -> Result<i64, BadLine> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        digits => (1, digits),
    };
    let number = i64::try_from(number(digits)?).map_err(|_| BadLine::BadNumber)?;
    Ok(number.saturating_mul(sign))
}

/// Parses a status; `-` and 000 are none.
fn status(text: &[u8]) -> Result<u32, BadLine> {
    match text {
        b"-" => Ok(0),
        text => u32::try_from(number(text)?).map_err(|_| BadLine::BadNumber),
    }
}

/// Parses `seconds.milliseconds`.
fn time_ms(text: &[u8]) -> Result<u64, BadLine> {
    let point = text.iter().position(|byte| *byte == b'.');
    let parts = point.and_then(|at| text.split_at_checked(at));
    let Some((seconds, [_, millis @ ..])) = parts else { return Err(BadLine::BadNumber) };
    if millis.len() != 3 {
        return Err(BadLine::BadNumber);
    }
    let ms = number(seconds)?.checked_mul(1000);
    ms.and_then(|ms| ms.checked_add(number(millis).ok()?)).ok_or(BadLine::BadNumber)
}
