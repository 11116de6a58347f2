//! Every compile-time limit, and how they relate.
//!
//! Limits that an operator may want to change are configuration keys; those here follow from a
//! protocol, from a layout, or bound the work that one hostile datagram can cause. The assertions
//! at the end are the reasoning that other files rely on: if a number is changed and a relation
//! breaks, the crate no longer compiles.

// ---- wire: one datagram -> records ----

/// Longest datagram that is read, in bytes: UDP's length field allows no more; over IPv4 the
/// payload ends at [`UDP_PAYLOAD_BYTES_MAX`]. Positions inside a datagram are therefore kept in 16
/// bits.
pub const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Largest UDP payload over IPv4, in bytes: 65,535 less 20 of IP and 8 of UDP header.
pub const UDP_PAYLOAD_BYTES_MAX: usize = 65_507;

/// One block of the ring, in bytes. A record never straddles two.
pub const BLOCK_BYTES: usize = 256 * 1024;

/// Largest record, in bytes: it must fit an empty block.
pub const RECORD_BYTES_MAX: usize = BLOCK_BYTES;

/// A record, and all records of one datagram together, take at most this many times their bytes on
/// the wire (`input/pinba/encode.rs` has the sum, item by item). Rewriting rules may exceed it; a
/// record that then outgrows [`RECORD_BYTES_MAX`] is refused and counted.
pub const RECORD_GROWTH_MAX: usize = 4;

/// Tag pairs kept per timer; further pairs are skipped and counted.
pub const TIMER_TAGS_MAX: usize = 8192;

/// Tag pairs kept per request; further pairs are skipped and counted.
pub const REQUEST_TAGS_MAX: usize = 8192;

/// Most bytes of the tag names and values of one request, or of one timer, as sent (cut to the
/// length kept of a text); pairs beyond that are skipped and counted. A datagram that contains each
/// of its words once cannot reach it; one that names the same long words again and again would be 4
/// MB of tags for 16 kB sent.
pub const TAGS_TEXT_BYTES_MAX: usize = DATAGRAM_BYTES_MAX;

/// Bytes kept of a host, server, schema, tag name or tag value unless configured otherwise.
pub const TEXT_BYTES_DEFAULT: usize = 255;

/// Bytes kept of a script name unless configured otherwise.
pub const SCRIPT_NAME_BYTES_DEFAULT: usize = 512;

/// Smallest configurable length of a text, in bytes. Texts up to this length are never cut, which
/// makes their path short.
pub const TEXT_BYTES_MIN: usize = 16;

/// Largest configurable length of a text, in bytes.
pub const TEXT_BYTES_MAX: usize = 4096;

/// `[[squid]]` entries. Each takes a thread.
pub const SQUIDS_MAX: usize = 64;

/// `[[stat]]` entries. Each takes a thread.
pub const STATS_MAX: usize = 64;

/// `[[otlp_input]]` entries. Each takes a few threads, and memory for waiting spans.
pub const OTLP_INPUTS_MAX: usize = 8;

/// Largest body with spans, in bytes as sent.
pub const OTLP_BODY_BYTES_MAX: usize = 4 << 20;

/// Largest body with spans, in bytes after decompression.
pub const OTLP_UNPACKED_BYTES_MAX: usize = 16 << 20;

/// Most spans in one body.
pub const BODY_SPANS_MAX: usize = 100_000;

/// Attributes read per span or resource.
pub const SPAN_ATTRIBUTES_MAX: usize = 128;

/// Attributes that a configuration may turn into request tags.
pub const SPAN_TAGS_MAX: usize = 16;

/// Events read per span.
pub const SPAN_EVENTS_MAX: usize = 32;

/// Most bytes of spans that wait for the rest of their traces, for each `[[otlp_input]]`.
pub const SPANS_WAITING_BYTES_MAX: usize = 64 << 20;

/// Timers of a request from spans, one per span; further ones are added up by tags.
pub const SPAN_TIMERS_MAX: usize = 1000;

/// Longest line of a log or stream that is read; Squid cuts its own at 8 KiB.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Largest piece of a log imported at once, in bytes.
pub const LOG_PIECE_BYTES_MAX: usize = 4 << 20;

/// `[[rewrite]]` entries. A text's rules are a set of 64 bits.
pub const REWRITES_MAX: usize = 64;

/// Longest pattern or replacement of a rule, in bytes as written.
pub const REWRITE_TEXT_BYTES_MAX: usize = 1024;

/// Most bytes of a compiled pattern. Searching a text takes time in proportion to text and program;
/// `\d` and `\w` cover all of Unicode and make it some 10 and 50 KiB larger.
pub const REWRITE_PROGRAM_BYTES_MAX: usize = 1 << 20;

/// Bytes of the cache of one running pattern, twice (forwards and backwards) in each receiver.
/// Beyond it the cache is cleared, or a slower search is used.
pub const REWRITE_DFA_BYTES_MAX: usize = 256 << 10;

/// Matches that one rule replaces in one text; further ones stay. Finding each match is linear in
/// the text, so finding all of them would be quadratic for some patterns.
pub const REWRITE_MATCHES_MAX: usize = 128;

/// Times of this many seconds or more count as 0 (they are past 2,147,483,647 s, where Pinba's
/// clock fields end). Exact in `f32`.
pub const SECONDS_END: f32 = 2_147_483_648.0;

/// Most nested groups (an old protobuf construct) in an unknown field; as deep as prost goes.
pub const GROUP_DEPTH_MAX: usize = 100;

// ---- alerts ----

/// `[[alert]]` entries.
pub const ALERTS_MAX: usize = 1_000;

/// `[[slo]]` entries. Each looks at the histogram of every row that it concerns, every second.
pub const SLOS_MAX: usize = 50;

/// Longest period of one: 90 days.
pub const SLO_PERIOD_SECS_MAX: u64 = 90 * 86_400;

/// Labels that an entry may add.
pub const ALERT_LABELS_MAX: usize = 32;

/// Longest window, and longest hold of a condition: a day.
pub const ALERT_WINDOW_SECS_MAX: u64 = 86_400;

/// Rows of a rule with an alert of their own; further ones share one alert.
pub const ALERT_ROWS_MAX: usize = 100;

/// Known rows of a rule, which are checked for missing data.
pub const ALERT_KNOWN_ROWS_MAX: usize = 1_000;

/// Silences at once.
pub const SILENCES_MAX: usize = 1_000;

/// Bytes of seconds in transit to the rules.
pub const ALERT_QUEUE_BYTES_MAX: usize = 8 << 20;

/// Bytes of windows while rules are replayed over the past.
pub const ALERT_REPLAY_BYTES_MAX: usize = 64 << 20;

/// Longest duration of a replay, in milliseconds.
pub const ALERT_REPLAY_MS_MAX: u64 = 100_000;

// ---- releases ----

/// Releases that are known. Those of few requests, then the longest idle, give way.
pub const RELEASES_MAX: usize = 50;

/// Pairs of release and script in a block of time, and of script and status of a release.
pub const RELEASE_CELLS_MAX: usize = 300;

/// Pairs of release and script in a block of time whose times are kept.
pub const RELEASE_TIMES_MAX: usize = 100;

/// Bytes of a script's name; those with longer ones are not compared.
pub const RELEASE_SCRIPT_BYTES_MAX: usize = 128;

/// Releases that get an annotation in a day: a tag with ever new values is no release, and must not
/// push out what people noted.
pub const RELEASE_MARKS_MAX: usize = 24;

/// Bytes of all that, and of a copy that is written to disk.
pub const RELEASES_BYTES_MAX: usize = 48 << 20;

// ---- access ----

/// `[[user]]` entries. Checking a token compares it with each of them.
pub const USERS_MAX: usize = 256;

/// Bytes of the variables of a MySQL session: names, values and overhead.
pub const SESSION_BYTES_MAX: usize = 64 << 10;

/// Longest name of a user, in bytes.
pub const USER_NAME_BYTES_MAX: usize = 64;

/// Longest password or token, in bytes; hashing one takes time in proportion.
pub const SECRET_BYTES_MAX: usize = 1024;

/// Shortest token, in bytes: it is the only protection, and nobody has to remember it.
pub const TOKEN_BYTES_MIN: usize = 16;

/// Failed logins that one peer may make at once.
pub const FAILED_LOGINS_BURST: u64 = 10;

/// Milliseconds until it may make one more.
pub const FAILED_LOGIN_MS: u64 = 1000;

/// Slots for counting failed logins; peers that map to the same slot share it.
pub const FAILED_LOGIN_PLACES: usize = 4096;

const _: () = {
    assert!(UDP_PAYLOAD_BYTES_MAX <= DATAGRAM_BYTES_MAX);
    // `wire` keeps positions and lengths in 16 bits.
    assert!(DATAGRAM_BYTES_MAX <= u16::MAX as usize);
    // Any datagram's records fit one block (and the decoder's own buffer, which is as large).
    assert!(DATAGRAM_BYTES_MAX * RECORD_GROWTH_MAX <= RECORD_BYTES_MAX);
    assert!(RECORD_BYTES_MAX <= BLOCK_BYTES);
    // A record has 16 bits for the length of a text (all ones: absent) and for the count of a tag
    // set.
    assert!(TEXT_BYTES_MAX < u16::MAX as usize);
    assert!(TEXT_BYTES_MIN <= TEXT_BYTES_DEFAULT && TEXT_BYTES_DEFAULT <= TEXT_BYTES_MAX);
    assert!(SCRIPT_NAME_BYTES_DEFAULT <= TEXT_BYTES_MAX);
    assert!(TIMER_TAGS_MAX < u16::MAX as usize);
    assert!(REQUEST_TAGS_MAX < u16::MAX as usize);
};

/// Bytes of a receiver's name rules, if there are any: recent names, and the tags of one packet.
pub const RULES_SCRATCH_BYTES: u64 = 2 << 20;

/// Bytes that each running pattern may need in addition.
pub const PATTERN_SCRATCH_BYTES: u64 = 1 << 20;

/// By this time after its end, every pinbad has shipped a minute to ClickHouse: it is shipped two
/// minutes after its end.
pub const SHIPPED_AFTER_SECS: u64 = 180;

/// Most bytes of the keys of all answers over the past together.
pub const PAST_ANSWERS_BYTES_MAX: usize = 256 << 20;
