//! One line of the `stat` extension's stream: a sample of what a PHP process was doing.
//!
//! ```text
//! {"type": "user", "request": {"pid": 8, "elapsed": 0.1, "path": "/a.php", "method":GET", "uri":/a"}, "elapsed": 0.2,
//!  "memory": {"used": 1, "peak": 2}, "symbol": {..}, "arginfo": [..], "opline": {..}}
//! ```
//!
//! It looks like JSON but is not: nothing in it is escaped, and the opening quote of method and URI
//! is missing. So it is read by position: the fixed beginning, then the last `}, "elapsed": F,
//! "memory": {"used": I, "peak": I}` of the line, because an imitation that a client may have
//! written into the URI comes before that. [`split`] finds the parts; their content repeats from
//! line to line and is read by [`Request::read`] and the like when it is new. Pure; nothing is
//! allocated.

use memchr::memmem;
use serde::{Deserialize, Serialize};

use crate::input::record::counted;

counted! {
    /// The reason for rejecting a line.
    BadLine {
        /// Longer than the limit.
        TooLong = "too_long",
        /// It does not begin like a sample.
        NoSample = "no_sample",
        /// It has no time and memory, or ends before its last brace.
        CutOff = "cut_off",
        /// An invalid number, or one out of range.
        BadNumber = "bad_number",
        /// The request is invalid.
        BadRequest = "bad_request",
        /// After the memory comes something other than symbol, arginfo, opline and caller.
        BadSymbol = "bad_symbol",
    }
}

counted! {
    /// A defect in an accepted line.
    Defect {
        /// Method and URI without their opening quote.
        Unquoted = "unquoted",
        /// Text like the end of a request and a time, inside a URI or path: an attempt to
        /// inject lines.
        Injected = "injected",
        /// A text with unprintable bytes, or one that is too long: shown escaped, or cut.
        Escaped = "escaped",
        /// Memory beyond 2 GiB that was printed as a negative number.
        MemoryWrapped = "memory_wrapped",
        /// The value of an integer argument was dropped, because the extension never has it right.
        IntegerDropped = "integer_dropped",
        /// An impossible offset was dropped.
        OffsetDropped = "offset_dropped",
        /// A sample older than an earlier one of the same request.
        OutOfOrder = "out_of_order",
        /// A sample less than 30 us after another of the same request: late ticks arrive together.
        Burst = "burst",
    }
}

/// Units of time in a second: it is sent with ten decimals.
pub const UNITS: u64 = 10_000_000_000;

/// Ticks closer together than this were late, in [`UNITS`].
pub const BURST: u64 = 30 * UNITS / 1_000_000;

/// Largest plausible number of seconds: 30 years.
const SECONDS_MAX: u64 = 1_000_000_000;

/// Offsets from here on are garbage: no function has so many operations.
const OFFSET_END: u64 = 1 << 24;

counted! {
    /// The code that was running, as sent.
    #[derive(Default, Serialize, Deserialize)]
    SampleType {
        /// PHP code.
        User = "user",
        /// A function of PHP itself or of an extension.
        Internal = "internal",
        /// None, or it could not be read.
        #[default]
        Memory = "memory",
    }
}

/// A line, split but not decoded.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Line<'a> {
    /// The code that was running.
    pub sample_type: SampleType,
    /// The content of `request`.
    pub request: &'a [u8],
    /// Time since the extension started, in [`UNITS`].
    pub elapsed: u64,
    /// Memory in use, bytes.
    pub used: u64,
    /// Peak memory, bytes.
    pub peak: u64,
    /// Whether either was negative.
    pub memory_wrapped: bool,
    /// The content of `symbol`.
    pub symbol: Option<&'a [u8]>,
    /// The content of `arginfo`.
    pub arguments: Option<&'a [u8]>,
    /// The content of `opline`.
    pub operation: Option<&'a [u8]>,
    /// The content of `caller`.
    pub caller: Option<&'a [u8]>,
}

/// The data on a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Request<'a> {
    /// Process id, or thread id if PHP uses threads.
    pub pid: i64,
    /// From the start of the extension to that of the request, in [`UNITS`].
    pub elapsed: u64,
    /// The script's file.
    pub path: Option<&'a [u8]>,
    /// `GET`.
    pub method: Option<&'a [u8]>,
    /// The requested URI, with its query.
    pub uri: Option<&'a [u8]>,
    /// Whether an opening quote was missing.
    pub unquoted: bool,
    /// Whether it contains what looks like its end and a time.
    pub injected: bool,
}

/// A function, or the top level of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its file.
    pub file: Option<&'a [u8]>,
    /// Its class.
    pub scope: Option<&'a [u8]>,
    /// Its name; the top level has none.
    pub function: Option<&'a [u8]>,
}

/// The position of PHP code in its function.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Operation<'a> {
    /// The line of the file.
    pub line: Option<u32>,
    /// The number of the operation in the function.
    pub offset: Option<u32>,
    /// The opcode: `ASSIGN_OP`.
    pub opcode: Option<&'a [u8]>,
    /// Whether an impossible offset was dropped, and the line with it if there is no opcode.
    pub offset_dropped: bool,
}

const TIME: &[u8] = b"}, \"elapsed\": ";
const MEMORY: &[u8] = b", \"memory\": {\"used\": ";
const PEAK: &[u8] = b", \"peak\": ";

/// Splits a line, which has no line end.
///
/// # Errors
/// The reason why it cannot be used.
pub fn split(line: &[u8]) -> Result<Line<'_>, BadLine> {
    let rest = line.strip_prefix(b"{\"type\": \"");
    let rest = rest.ok_or(BadLine::NoSample)?;
    let of_type = |it: SampleType| Some((it, rest.strip_prefix(it.name().as_bytes())?));
    let (sample_type, rest) =
        SampleType::ALL.into_iter().find_map(of_type).ok_or(BadLine::NoSample)?;
    let rest = rest.strip_prefix(b"\", \"request\": {");
    let rest = rest.ok_or(BadLine::NoSample)?.strip_suffix(b"}").ok_or(BadLine::CutOff)?;
    let mut failure = BadLine::CutOff;
    for at in memmem::rfind_iter(rest, TIME) {
        let (request, behind) = rest.split_at(at);
        let behind = behind.get(TIME.len()..).unwrap_or_default();
        match measures(sample_type, request, behind) {
            Ok((line, behind)) => return with_symbols(line, behind),
            // A name may contain one that only looks like it.
            Err(why) => failure = why,
        }
    }
    Err(failure)
}

/// Parses time and memory; returns the rest.
fn measures<'a>(
    sample_type: SampleType,
    request: &'a [u8],
    text: &'a [u8],
) -> Result<(Line<'a>, &'a [u8]), BadLine> {
    let (elapsed, rest) = seconds(text).ok_or(BadLine::BadNumber)?;
    let rest = rest.strip_prefix(MEMORY).ok_or(BadLine::CutOff)?;
    let ((used, is_used_wrapped), rest) = memory(rest)?;
    let rest = rest.strip_prefix(PEAK).ok_or(BadLine::CutOff)?;
    let ((peak, is_peak_wrapped), rest) = memory(rest)?;
    let rest = rest.strip_prefix(b"}").ok_or(BadLine::CutOff)?;
    let memory_wrapped = is_used_wrapped || is_peak_wrapped;
    let known =
        Line { sample_type, request, elapsed, used, peak, memory_wrapped, ..Line::default() };
    Ok((known, rest))
}

/// Parses what follows the memory: each part at most once, in order.
fn with_symbols<'a>(mut line: Line<'a>, mut rest: &'a [u8]) -> Result<Line<'a>, BadLine> {
    let mut last = |start: &[u8]| -> Option<&'a [u8]> {
        let at = memmem::rfind(rest, start)?;
        let (before, part) = rest.split_at(at);
        let part = part.get(start.len()..)?.strip_suffix(b"}")?;
        rest = before;
        Some(part)
    };
    match line.sample_type {
        SampleType::User => line.operation = last(b", \"opline\": {"),
        SampleType::Internal => line.caller = last(b", \"caller\": {"),
        SampleType::Memory => {}
    }
    if let Some(at) = memmem::rfind(rest, b", \"arginfo\": [") {
        let (before, part) = rest.split_at(at);
        let part = part.strip_prefix(b", \"arginfo\": [").unwrap_or_default();
        line.arguments = Some(part.strip_suffix(b"]").ok_or(BadLine::BadSymbol)?);
        rest = before;
    }
    if !rest.is_empty() {
        let part = rest.strip_prefix(b", \"symbol\": {");
        let part = part.and_then(|part| part.strip_suffix(b"}"));
        line.symbol = Some(part.ok_or(BadLine::BadSymbol)?);
    }
    Ok(line)
}

impl<'a> Request<'a> {
    /// Parses the content of `request`.
    ///
    /// # Errors
    /// Fails if it is invalid.
    pub fn read(text: &'a [u8]) -> Result<Self, BadLine> {
        let rest = text.strip_prefix(b"\"pid\": ").ok_or(BadLine::BadRequest)?;
        let (pid, rest) = integer(rest).ok_or(BadLine::BadNumber)?;
        let rest = rest.strip_prefix(b", \"elapsed\": ").ok_or(BadLine::BadRequest)?;
        let (elapsed, mut rest) = seconds(rest).ok_or(BadLine::BadNumber)?;
        let injected = memmem::find(text, TIME).is_some();
        let mut request = Self { pid, elapsed, injected, ..Self::default() };
        if let Some(text) = rest.strip_prefix(b", \"path\": \"") {
            // The closing quote stays: the next part begins after it.
            let (method, uri) =
                (memmem::find(text, b"\", \"method\":"), memmem::find(text, b"\", \"uri\":"));
            let end = method.into_iter().chain(uri).min();
            let end = end.unwrap_or(text.len().saturating_sub(1));
            let (path, behind) = text.split_at_checked(end).unwrap_or((text, b""));
            request.path = Some(path);
            rest = behind.strip_prefix(b"\"").ok_or(BadLine::BadRequest)?;
        }
        if let Some(text) = rest.strip_prefix(b", \"method\":") {
            let text = unquoted(text, &mut request.unquoted);
            let end = memmem::find(text, b"\", \"uri\":").unwrap_or(text.len().saturating_sub(1));
            let (method, behind) = text.split_at_checked(end).unwrap_or((text, b""));
            request.method = Some(method);
            rest = behind.strip_prefix(b"\"").ok_or(BadLine::BadRequest)?;
        }
        if let Some(text) = rest.strip_prefix(b", \"uri\":") {
            let text = unquoted(text, &mut request.unquoted);
            request.uri = Some(text.strip_suffix(b"\"").ok_or(BadLine::BadRequest)?);
            rest = b"";
        }
        match rest {
            b"" => Ok(request),
            _ => Err(BadLine::BadRequest),
        }
    }
}

/// Strips a leading space and the opening quote.
fn unquoted<'a>(text: &'a [u8], missing: &mut bool) -> &'a [u8] {
    let text = text.strip_prefix(b" ").unwrap_or(text);
    text.strip_prefix(b"\"").unwrap_or_else(|| {
        *missing = true;
        text
    })
}

impl<'a> Frame<'a> {
    /// Parses the content of `symbol` or `caller`.
    ///
    /// # Errors
    /// Fails if it is neither.
    pub fn read(text: &'a [u8]) -> Result<Self, BadLine> {
        let mut frame = Self::default();
        let mut rest = text;
        for (name, member) in [
            ("file", &mut frame.file),
            ("scope", &mut frame.scope),
            ("function", &mut frame.function),
        ] {
            let Some(text) = of_member(rest, name) else { continue };
            let others: [&[u8]; 2] = [b"\", \"scope\": \"", b"\", \"function\": \""];
            let next = others.into_iter().filter_map(|next| memmem::find(text, next));
            let end = next.min().unwrap_or(text.len().saturating_sub(1));
            let (value, behind) = text.split_at_checked(end).unwrap_or((text, b""));
            *member = Some(value);
            rest = behind.strip_prefix(b"\"").ok_or(BadLine::BadSymbol)?;
            rest = rest.strip_prefix(b", ").unwrap_or(rest);
        }
        match rest {
            b"" => Ok(frame),
            _ => Err(BadLine::BadSymbol),
        }
    }
}

/// The text after `"name": "`.
fn of_member<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    text.strip_prefix(b"\"")?.strip_prefix(name.as_bytes())?.strip_prefix(b"\": \"")
}

impl<'a> Operation<'a> {
    /// Parses the content of `opline`.
    ///
    /// # Errors
    /// Fails if it is invalid.
    pub fn read(text: &'a [u8]) -> Result<Self, BadLine> {
        let mut operation = Self::default();
        let mut rest = text;
        if let Some(text) = rest.strip_prefix(b"\"line\": ") {
            let (line, behind) = integer(text).ok_or(BadLine::BadNumber)?;
            operation.line = u32::try_from(line).ok();
            rest = behind.strip_prefix(b", ").unwrap_or(behind);
        }
        if let Some(text) = rest.strip_prefix(b"\"offset\": ") {
            let (digits, behind) = digits(text.strip_prefix(b"-").unwrap_or(text));
            let offset = number(digits).filter(|it| *it < OFFSET_END);
            let offset = offset.filter(|_| !text.starts_with(b"-"));
            operation.offset = offset.and_then(|it| u32::try_from(it).ok());
            operation.offset_dropped = operation.offset.is_none();
            rest = behind.strip_prefix(b", ").unwrap_or(behind);
        }
        if let Some(text) = of_member(rest, "opcode") {
            operation.opcode = Some(text.strip_suffix(b"\"").ok_or(BadLine::BadSymbol)?);
            rest = b"";
        } else if operation.offset_dropped {
            // Read from where there is no operation, which has no line either.
            operation.line = None;
        }
        match rest {
            b"" => Ok(operation),
            _ => Err(BadLine::BadSymbol),
        }
    }
}

/// The arguments in `arginfo` as shown, and whether one of them lost its value.
pub fn arguments(text: &[u8]) -> impl Iterator<Item = (&[u8], bool)> {
    let text = text.strip_prefix(b"\"").unwrap_or(text);
    let text = text.strip_suffix(b"\"").unwrap_or(text);
    let mut rest = (!text.is_empty()).then_some(text);
    std::iter::from_fn(move || {
        let all = rest?;
        let end = memmem::find(all, b"\",\"").unwrap_or(all.len());
        let (argument, behind) = all.split_at_checked(end)?;
        rest = behind.strip_prefix(b"\",\"");
        match argument.starts_with(b"int(") {
            true => Some((b"int".as_slice(), true)),
            false => Some((argument, false)),
        }
    })
}

/// The leading digits of a text, and the rest.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn integer(text: &[u8]) -> Option<(i64, &[u8])> {
    let (minus, text) = match text.strip_prefix(b"-") {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (digits, rest) = digits(text);
    let number = i64::try_from(number(digits)?).ok()?;
    Some((if minus { number.checked_neg()? } else { number }, rest))
}

/// Parses seconds with up to ten decimals, in [`UNITS`].
fn seconds(text: &[u8]) -> Option<(u64, &[u8])> {
    let (whole, rest) = digits(text);
    let whole = number(whole).filter(|it| *it <= SECONDS_MAX)?;
    let (decimals, rest) = match rest.strip_prefix(b".") {
        Some(rest) => digits(rest),
        None => (b"".as_slice(), rest),
    };
    let mut units = 0_u64;
    for at in 0..10 {
        let digit = decimals.get(at).map_or(0, |digit| digit.saturating_sub(b'0'));
        units = units.saturating_mul(10).saturating_add(digit.into());
    }
    Some((whole.checked_mul(UNITS)?.checked_add(units)?, rest))
}

/// Parses bytes, and whether they were printed as a negative number: in 32 bits, values beyond 2
/// GiB wrap.
fn memory(text: &[u8]) -> Result<((u64, bool), &[u8]), BadLine> {
    let (bytes, rest) = integer(text).ok_or(BadLine::BadNumber)?;
    match u64::try_from(bytes) {
        Ok(bytes) => Ok(((bytes, false), rest)),
        Err(_) if bytes >= i64::from(i32::MIN) => {
            let bytes = u64::try_from(bytes.saturating_add(1 << 32));
            Ok(((bytes.unwrap_or_default(), true), rest))
        }
        Err(_) => Err(BadLine::BadNumber),
    }
}
