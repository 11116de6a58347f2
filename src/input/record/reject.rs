//! Reasons for rejecting a datagram or request, and kinds of repair in accepted ones.
//!
//! Small `Copy` enums for the hot path: no text, no allocation, no log line per packet. Each
//! variant has one counter with the name given here, which is also its name in JSON, SQL and the
//! metrics. Each input uses those that apply to it.

use serde::Serialize;

use crate::telemetry::counter::counted;

/// Longest excerpt of a bad line, in bytes.
const EXAMPLE_BYTES: usize = 160;

/// An example of a rejected line of a log or stream, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Example {
    /// The reason.
    pub reason: &'static str,
    /// The field at fault, if it is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// The start of the line, with unprintable characters escaped.
    pub line: String,
}

impl Example {
    /// An example from this line.
    pub fn of(reason: &'static str, line: &[u8]) -> Self {
        let shown = line.get(..EXAMPLE_BYTES).unwrap_or(line);
        // Quotes stay as they are: in JSON and on pages they would be escaped a second time.
        let line = shown.escape_ascii().to_string().replace("\\\"", "\"").replace("\\'", "'");
        Self { reason, field: String::new(), line }
    }
}

counted! {
    /// The reason why a whole datagram, or one request of an accepted datagram, was refused.
    ///
    /// Reasons up to `MissingField` and the last two apply to whole datagrams only; the others
    /// apply to one request, and to the datagram if none of its requests is left. Where two apply,
    /// the first one here is given, except `Lz4Header`.
    RejectReason {
        /// No bytes at all.
        Empty = "empty",
        /// More bytes than a UDP length field allows: not from a socket.
        TooLong = "too_long",
        /// Undecodable, and begins with the compression header of pinba2, which is not supported.
        Lz4Header = "lz4_header",
        /// The bytes end inside a field, or a length points past the end.
        Truncated = "truncated",
        /// A variable-length integer of more than 64 bits.
        BadVarint = "bad_varint",
        /// An impossible field key: field number 0, wire type 6 or 7, or more than 32 bits.
        BadKey = "bad_key",
        /// A known field with a wire type that its declaration does not allow.
        WrongWireType = "wrong_wire_type",
        /// A group that is closed but not open, closed under another number, or nested too deep.
        BadGroup = "bad_group",
        /// One of the required fields 1 to 9 is missing, in the request or in a nested one.
        MissingField = "missing_field",
        /// V1: the numbers of hit counts, values and tag counts differ. In the outer request this
        /// refuses the nested ones too.
        TimerCounts = "timer_counts_differ",
        /// V2: the numbers of request tag names and values differ.
        RequestTagCounts = "request_tag_counts_differ",
        /// V3: there are timers or request tags, but no dictionary.
        NoDictionary = "no_dictionary",
        /// V4: a request tag points outside the dictionary.
        RequestTagIndex = "request_tag_index_out_of_range",
        /// V6: the tag counts of the timers do not add up to the tag names or tag values present.
        TimerTagCounts = "timer_tag_counts_differ",
        /// The record would not fit a block of the ring, or the sink had no room for it.
        TooLarge = "too_large",
        /// No usable line in it: a `[[squid]]` source counts its lines by reason.
        NoLine = "no_line",
        /// Not read: its address is outside `ingest.allow`.
        SourceNotAllowed = "source_not_allowed",
        /// Not read: its sender exceeded `ingest.source_rate_max`.
        SourceRate = "source_rate_exceeded",
    }
}

impl RejectReason {
    /// Whether the datagram was rejected because of its sender, unread.
    pub const fn is_unread(self) -> bool {
        matches!(self, Self::SourceNotAllowed | Self::SourceRate)
    }

    /// Whether the bytes are not a message at all (as opposed to a message that breaks Pinba's
    /// rules).
    pub const fn is_malformed(self) -> bool {
        self as u8 <= Self::MissingField as u8
    }
}

counted! {
    /// An element left out of, or changed in, an accepted request.
    Repair {
        /// V7: a timer with hit count 0 was skipped (with its tags: the later timers keep theirs).
        TimerWithoutHits = "timers_without_hits",
        /// V8: a timer with tag count 0 was skipped.
        TimerWithoutTags = "timers_without_tags",
        /// V5: a tag pair of a timer points outside the dictionary and was skipped; the timer
        /// stays.
        TagIndex = "tag_index_out_of_range",
        /// A tag pair past [`TIMER_TAGS_MAX`](crate::limits::TIMER_TAGS_MAX),
        /// [`REQUEST_TAGS_MAX`](crate::limits::REQUEST_TAGS_MAX) or, by total length,
        /// [`TAGS_TEXT_BYTES_MAX`](crate::limits::TAGS_TEXT_BYTES_MAX) was skipped.
        TagOverLimit = "tags_over_limit",
        /// A text exceeded its limit and was cut.
        TextCut = "texts_cut",
        /// A text was not UTF-8; each bad byte became `\xNN`.
        TextNotUtf8 = "texts_not_utf8",
        /// V9 to V16: a time was negative, not a number, infinite or past 2,147,483,647 s and
        /// became 0.
        TimeZeroed = "times_zeroed",
    }
}
