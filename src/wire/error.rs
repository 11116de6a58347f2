//! Why a datagram or one of its requests was refused, and what was mended in those that were taken.
//!
//! Small `Copy` enums for the hot path: no text, no allocation, no log line a packet. Each variant has one counter
//! (`counts.rs`) under the name given here, which is also its name in JSON, SQL and the metrics.

/// Why a whole datagram, or one request of an accepted datagram, was not taken.
///
/// The first nine and the last two can only hit a whole datagram; the others hit one request, and the datagram with it when none of
/// its requests is left. Where two apply, the one that comes first here is given, [`Refusal::Lz4Header`] apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// No bytes at all.
    Empty,
    /// More bytes than a UDP length field can say: not from a socket.
    TooLong,
    /// Cannot be decoded, and begins with the compression header of pinba2, which is not supported.
    Lz4Header,
    /// The bytes end inside a field, or a length points past the end.
    Truncated,
    /// A variable-length integer of more than 64 bits.
    BadVarint,
    /// A field key that cannot be: field number 0, wire type 6 or 7, or more than 32 bits.
    BadKey,
    /// A field of the message with a wire type that its declaration does not allow.
    WrongWireType,
    /// A group that is closed but not open, closed under another number, or too deep.
    BadGroup,
    /// One of the required fields 1 to 9 is missing, in the request or in a nested one.
    MissingField,
    /// V1: the numbers of hit counts, values and tag counts differ. In the outer request the nested ones go too.
    TimerCounts,
    /// V2: the numbers of request tag names and values differ.
    RequestTagCounts,
    /// V3: there are timers or request tags, but no dictionary.
    NoDictionary,
    /// V4: a request tag points outside the dictionary.
    RequestTagIndex,
    /// V6: the tag counts of the timers do not add up to the tag names or tag values present.
    TimerTagCounts,
    /// The record would not fit a block of the ring, or the sink had no room for it.
    TooLarge,
    /// Not looked at: it came from an address outside of `ingest.allow`.
    SourceNotAllowed,
    /// Not looked at: its source sent more than `ingest.source_rate_max`.
    SourceRate,
}

impl Refusal {
    /// How many reasons there are: the length of an array indexed by `reason as usize`.
    pub const COUNT: usize = Self::ALL.len();

    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 17] = [
        Self::Empty,
        Self::TooLong,
        Self::Lz4Header,
        Self::Truncated,
        Self::BadVarint,
        Self::BadKey,
        Self::WrongWireType,
        Self::BadGroup,
        Self::MissingField,
        Self::TimerCounts,
        Self::RequestTagCounts,
        Self::NoDictionary,
        Self::RequestTagIndex,
        Self::TimerTagCounts,
        Self::TooLarge,
        Self::SourceNotAllowed,
        Self::SourceRate,
    ];

    /// The reason as counters name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLong => "too_long",
            Self::Lz4Header => "lz4_header",
            Self::Truncated => "truncated",
            Self::BadVarint => "bad_varint",
            Self::BadKey => "bad_key",
            Self::WrongWireType => "wrong_wire_type",
            Self::BadGroup => "bad_group",
            Self::MissingField => "missing_field",
            Self::TimerCounts => "timer_counts_differ",
            Self::RequestTagCounts => "request_tag_counts_differ",
            Self::NoDictionary => "no_dictionary",
            Self::RequestTagIndex => "request_tag_index_out_of_range",
            Self::TimerTagCounts => "timer_tag_counts_differ",
            Self::TooLarge => "too_large",
            Self::SourceNotAllowed => "source_not_allowed",
            Self::SourceRate => "source_rate_exceeded",
        }
    }

    /// Whether the datagram was refused for where it came from, and nobody looked at its bytes.
    #[must_use]
    pub const fn is_unread(self) -> bool {
        matches!(self, Self::SourceNotAllowed | Self::SourceRate)
    }

    /// Whether the bytes are not a message at all (as opposed to a message that breaks Pinba's rules).
    #[must_use]
    pub const fn is_malformed(self) -> bool {
        match self {
            Self::Empty
            | Self::TooLong
            | Self::Lz4Header
            | Self::Truncated
            | Self::BadVarint
            | Self::BadKey
            | Self::WrongWireType
            | Self::BadGroup
            | Self::MissingField => true,
            Self::TimerCounts
            | Self::RequestTagCounts
            | Self::NoDictionary
            | Self::RequestTagIndex
            | Self::TimerTagCounts
            | Self::TooLarge
            | Self::SourceNotAllowed
            | Self::SourceRate => false,
        }
    }
}

/// What was left out of, or changed in, a request that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mend {
    /// V7: a timer with hit count 0 was skipped (its tags too: the later timers keep theirs).
    TimerWithoutHits,
    /// V8: a timer with tag count 0 was skipped.
    TimerWithoutTags,
    /// V5: a tag pair of a timer points outside the dictionary and was skipped; the timer stays.
    TagIndex,
    /// A tag pair past [`TIMER_TAGS_MAX`](crate::limits::TIMER_TAGS_MAX),
    /// [`REQUEST_TAGS_MAX`](crate::limits::REQUEST_TAGS_MAX) or, by the length of all,
    /// [`TAGS_TEXT_BYTES_MAX`](crate::limits::TAGS_TEXT_BYTES_MAX) was skipped.
    TagOverLimit,
    /// A text was longer than what is kept of it.
    TextCut,
    /// A text was not UTF-8; each bad byte became `\xNN`.
    TextNotUtf8,
    /// V9 to V16: a time was negative, not a number, infinite or past 2,147,483,647 s and became 0.
    TimeZeroed,
}

impl Mend {
    /// How many kinds there are: the length of an array indexed by `mend as usize`.
    pub const COUNT: usize = Self::ALL.len();

    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::TimerWithoutHits,
        Self::TimerWithoutTags,
        Self::TagIndex,
        Self::TagOverLimit,
        Self::TextCut,
        Self::TextNotUtf8,
        Self::TimeZeroed,
    ];

    /// The kind as counters name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TimerWithoutHits => "timers_without_hits",
            Self::TimerWithoutTags => "timers_without_tags",
            Self::TagIndex => "tag_index_out_of_range",
            Self::TagOverLimit => "tags_over_limit",
            Self::TextCut => "texts_cut",
            Self::TextNotUtf8 => "texts_not_utf8",
            Self::TimeZeroed => "times_zeroed",
        }
    }
}
