//! One line of the `stat` extension's stream: a sample of what a PHP process was doing.
//!
//! ```text
//! {"type": "user", "request": {"pid": 8, "elapsed": 0.1, "path": "/a.php", "method":GET", "uri":/a"}, "elapsed": 0.2,
//!  "memory": {"used": 1, "peak": 2}, "symbol": {..}, "arginfo": [..], "opline": {..}}
//! ```
//!
//! It looks like JSON and is none: nothing in it is escaped, and the quote before method and URI is missing. So it is read by
//! position: the fixed beginning, then the last `}, "elapsed": F, "memory": {"used": I, "peak": I}` of the line, because what a
//! client may have written into the URI to look like one stands before that. [`split`] finds the parts; what is in them
//! repeats from line to line and is read by [`Request::read`] and its kin when it is new. Pure; nothing is allocated.

use memchr::memmem;

use crate::input::record::counted;

counted! {
    /// Why a line was not taken.
    BadLine {
        /// Longer than any that is read.
        TooLong = "too_long",
        /// It does not begin as a sample does.
        NoSample = "no_sample",
        /// It has no time and memory, or ends before its last brace.
        CutOff = "cut_off",
        /// A number is none, or out of its range.
        BadNumber = "bad_number",
        /// What stands in the request is not one.
        BadRequest = "bad_request",
        /// What stands behind the memory is none of symbol, arginfo, opline and caller.
        BadSymbol = "bad_symbol",
    }
}

counted! {
    /// What was wrong with a line that was taken.
    Defect {
        /// Method and URI without their opening quote.
        Unquoted = "unquoted",
        /// What looks like the end of a request and a time, inside a URI or a path: somebody tried to have lines of their own.
        Injected = "injected",
        /// A text with bytes that are no characters to be seen, or one that is too long: they are shown escaped, or cut.
        Escaped = "escaped",
        /// Memory beyond 2 GiB that was printed as a negative number.
        MemoryWrapped = "memory_wrapped",
        /// The value of an integer argument, which the extension never has right, was left out.
        IntegerDropped = "integer_dropped",
        /// An offset that cannot be was left out.
        OffsetDropped = "offset_dropped",
        /// A sample older than one of the same request that came before.
        OutOfOrder = "out_of_order",
        /// A sample less than 30 us behind another of the same request: late ticks come together.
        Burst = "burst",
    }
}

/// Units of time in a second: it is sent with ten decimals.
pub const UNITS: u64 = 10_000_000_000;

/// Ticks that are closer together than this came late, in [`UNITS`].
pub const BURST: u64 = 30 * UNITS / 1_000_000;

/// Largest number of seconds that is believed: 30 years.
const SECONDS_MAX: u64 = 1_000_000_000;

/// An offset from here on is garbage: no function has so many operations.
const OFFSET_END: u64 = 1 << 24;

counted! {
    /// What was running, as it is sent.
    SampleType {
        /// PHP code.
        User = "user",
        /// A function of PHP's own or of an extension.
        Internal = "internal",
        /// Nothing, or it could not be read.
        Memory = "memory",
    }
}

/// A line, its parts still as they were sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// What was running.
    pub sample_type: SampleType,
    /// What stands in `request`.
    pub request: &'a [u8],
    /// Since the extension started, in [`UNITS`].
    pub elapsed: u64,
    /// Memory in use, bytes.
    pub used: u64,
    /// Most that was in use, bytes.
    pub peak: u64,
    /// Whether one of the two was negative.
    pub memory_wrapped: bool,
    /// What stands in `symbol`.
    pub symbol: Option<&'a [u8]>,
    /// What stands in `arginfo`.
    pub arguments: Option<&'a [u8]>,
    /// What stands in `opline`.
    pub operation: Option<&'a [u8]>,
    /// What stands in `caller`.
    pub caller: Option<&'a [u8]>,
}

/// What is known of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Process, or thread where PHP has those.
    pub pid: i64,
    /// From the start of the extension to that of the request, in [`UNITS`].
    pub elapsed: u64,
    /// The script's file.
    pub path: Option<&'a [u8]>,
    /// `GET`.
    pub method: Option<&'a [u8]>,
    /// What was asked for, with its query.
    pub uri: Option<&'a [u8]>,
    /// Whether an opening quote was missing.
    pub unquoted: bool,
    /// Whether there is what looks like its end and a time.
    pub injected: bool,
}

/// A function, or the top level of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Where it is written.
    pub file: Option<&'a [u8]>,
    /// Its class.
    pub scope: Option<&'a [u8]>,
    /// Its name; the top level has none.
    pub function: Option<&'a [u8]>,
}

/// Where in its function PHP code was.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Operation<'a> {
    /// The line of the file.
    pub line: Option<u32>,
    /// The number of the operation in the function.
    pub offset: Option<u32>,
    /// What it does: `ASSIGN_OP`.
    pub opcode: Option<&'a [u8]>,
    /// Whether an offset was left out because it cannot be.
    pub offset_dropped: bool,
}

const TIME: &[u8] = b"}, \"elapsed\": ";
const MEMORY: &[u8] = b", \"memory\": {\"used\": ";
const PEAK: &[u8] = b", \"peak\": ";

/// Finds the parts of a line, which has no line end.
///
/// # Errors
/// Why it cannot be used.
pub fn split(line: &[u8]) -> Result<Line<'_>, BadLine> {
    let rest = line.strip_prefix(b"{\"type\": \"");
    let rest = rest.ok_or(BadLine::NoSample)?;
    let of_type = |it: SampleType| Some((it, rest.strip_prefix(it.name().as_bytes())?));
    let (sample_type, rest) = SampleType::ALL
        .into_iter()
        .find_map(of_type)
        .ok_or(BadLine::NoSample)?;
    let rest = rest.strip_prefix(b"\", \"request\": {");
    let rest = rest.ok_or(BadLine::NoSample)?;
    let rest = rest.strip_suffix(b"}").ok_or(BadLine::CutOff)?;
    let mut failure = BadLine::CutOff;
    for at in memmem::rfind_iter(rest, TIME) {
        let (request, behind) = rest.split_at(at);
        let behind = behind.get(TIME.len()..).unwrap_or_default();
        match measures(behind) {
            Ok((measures, behind)) => {
                return with_symbols(sample_type, request, &measures, behind);
            }
            // One that only looks like it may stand in a name.
            Err(why) => failure = why,
        }
    }
    Err(failure)
}

/// Time and memory, and what stands behind them.
fn measures(text: &[u8]) -> Result<(Measures, &[u8]), BadLine> {
    let (elapsed, rest) = seconds(text).ok_or(BadLine::BadNumber)?;
    let rest = rest.strip_prefix(MEMORY).ok_or(BadLine::CutOff)?;
    let (used, rest) = memory(rest)?;
    let rest = rest.strip_prefix(PEAK).ok_or(BadLine::CutOff)?;
    let (peak, rest) = memory(rest)?;
    let rest = rest.strip_prefix(b"}").ok_or(BadLine::CutOff)?;
    let measures = Measures {
        elapsed,
        used: used.0,
        peak: peak.0,
        wrapped: used.1 || peak.1,
    };
    Ok((measures, rest))
}

struct Measures {
    elapsed: u64,
    used: u64,
    peak: u64,
    wrapped: bool,
}

/// What stands behind the memory: each part at most once, in their order.
fn with_symbols<'a>(
    sample_type: SampleType,
    request: &'a [u8],
    measures: &Measures,
    mut rest: &'a [u8],
) -> Result<Line<'a>, BadLine> {
    let mut last = |start: &[u8]| -> Option<&'a [u8]> {
        let at = memmem::rfind(rest, start)?;
        let (before, part) = rest.split_at(at);
        let part = part.get(start.len()..)?.strip_suffix(b"}")?;
        rest = before;
        Some(part)
    };
    let (operation, caller) = match sample_type {
        SampleType::User => (last(b", \"opline\": {"), None),
        SampleType::Internal => (None, last(b", \"caller\": {")),
        SampleType::Memory => (None, None),
    };
    let mut arguments = None;
    if let Some(at) = memmem::rfind(rest, b", \"arginfo\": [") {
        let (before, part) = rest.split_at(at);
        let part = part.strip_prefix(b", \"arginfo\": [").unwrap_or_default();
        arguments = Some(part.strip_suffix(b"]").ok_or(BadLine::BadSymbol)?);
        rest = before;
    }
    let symbol = match rest {
        b"" => None,
        rest => {
            let part = rest.strip_prefix(b", \"symbol\": {");
            let part = part.and_then(|part| part.strip_suffix(b"}"));
            Some(part.ok_or(BadLine::BadSymbol)?)
        }
    };
    Ok(Line {
        sample_type,
        request,
        elapsed: measures.elapsed,
        used: measures.used,
        peak: measures.peak,
        memory_wrapped: measures.wrapped,
        symbol,
        arguments,
        operation,
        caller,
    })
}

impl<'a> Request<'a> {
    /// Reads what stands in `request`.
    ///
    /// # Errors
    /// When it is not one.
    pub fn read(text: &'a [u8]) -> Result<Self, BadLine> {
        let rest = text.strip_prefix(b"\"pid\": ").ok_or(BadLine::BadRequest)?;
        let (pid, rest) = integer(rest).ok_or(BadLine::BadNumber)?;
        let rest = rest.strip_prefix(b", \"elapsed\": ");
        let rest = rest.ok_or(BadLine::BadRequest)?;
        let (elapsed, mut rest) = seconds(rest).ok_or(BadLine::BadNumber)?;
        let mut request = Self {
            pid,
            elapsed,
            path: None,
            method: None,
            uri: None,
            unquoted: false,
            injected: memmem::find(text, TIME).is_some(),
        };
        if let Some(text) = rest.strip_prefix(b", \"path\": \"") {
            // The quote that ends it stays: what follows begins behind that.
            let (method, uri) = (
                memmem::find(text, b"\", \"method\":"),
                memmem::find(text, b"\", \"uri\":"),
            );
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

/// A text without what may stand before it: a space, and the opening quote.
fn unquoted<'a>(text: &'a [u8], missing: &mut bool) -> &'a [u8] {
    let text = text.strip_prefix(b" ").unwrap_or(text);
    text.strip_prefix(b"\"").unwrap_or_else(|| {
        *missing = true;
        text
    })
}

impl<'a> Frame<'a> {
    /// Reads what stands in `symbol` or `caller`.
    ///
    /// # Errors
    /// When it is neither.
    pub fn read(text: &'a [u8]) -> Result<Self, BadLine> {
        let mut frame = Self::default();
        let mut rest = text;
        for (name, member) in [
            ("file", &mut frame.file),
            ("scope", &mut frame.scope),
            ("function", &mut frame.function),
        ] {
            let Some(text) = of_member(rest, name) else {
                continue;
            };
            let others: [&[u8]; 2] = [b"\", \"scope\": \"", b"\", \"function\": \""];
            let next = others
                .into_iter()
                .filter_map(|next| memmem::find(text, next));
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

/// What follows `"name": "`.
fn of_member<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let text = text.strip_prefix(b"\"")?.strip_prefix(name.as_bytes())?;
    text.strip_prefix(b"\": \"")
}

impl<'a> Operation<'a> {
    /// Reads what stands in `opline`.
    ///
    /// # Errors
    /// When it is none.
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
        }
        match rest {
            b"" => Ok(operation),
            _ => Err(BadLine::BadSymbol),
        }
    }
}

/// The arguments in `arginfo` as they are shown, and whether one of them lost its value.
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

/// The digits that a text begins with, and what follows.
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

/// Seconds with up to ten decimals, in [`UNITS`].
fn seconds(text: &[u8]) -> Option<(u64, &[u8])> {
    let (whole, rest) = digits(text);
    let whole = number(whole).filter(|it| *it <= SECONDS_MAX)?;
    let (decimals, rest) = match rest.strip_prefix(b".") {
        Some(rest) => digits(rest),
        None => (b"".as_slice(), rest),
    };
    let mut units = 0_u64;
    for at in 0..10 {
        let digit = decimals
            .get(at)
            .map_or(0, |digit| digit.saturating_sub(b'0'));
        units = units.saturating_mul(10).saturating_add(digit.into());
    }
    Some((whole.checked_mul(UNITS)?.checked_add(units)?, rest))
}

/// Bytes, and whether they were printed as a negative number: in 32 bits what is beyond 2 GiB wraps.
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
