//! Converts a request of Squid to a record.
//!
//! Hostname is the name of the source, or else the sender of the line; server name is the origin's
//! host, script name the path of the URL. The other fields are request tags, and the time is
//! attributed by timers with one tag each:
//!
//! | tag | a timer for | its value |
//! |---|---|---|
//! | `activity` | each activity with a known total | the total |
//! | `bottleneck` | each set of resources in use at a time | how long exactly those were in use |
//! | `first_byte` | each activity for which it is known | from its start to its first bytes |
//! | `unfinished` | each that had begun but not ended | how long it had run |
//! | `resident` | each that was done for an earlier request | how long the object has been in memory |
//!
//! All known data on activities follows the record, for the pool to keep.

use std::net::IpAddr;

use zerocopy::IntoBytes as _;

use super::activity::{Activity, Packed, State};
use super::bottleneck::bottlenecks;
use super::line::Transaction;
use crate::config::SquidSource;
use crate::input::record::{
    DecodeCounts, Hasher, Interned, Numbers, RecordSink, RecordWriter, RejectReason, TextLimits,
};
use crate::input::rewrite::{NameRules, Rewrite as _, TagOf, TextField};
use crate::input::url::url_parts;
use crate::limits::TIMER_TAGS_MAX;

/// Writes records.
#[derive(Debug)]
pub(super) struct RequestWriter {
    record: RecordWriter,
    rules: NameRules,
    /// Whether reports already have the next request.
    pub(super) is_counted: bool,
}

impl RequestWriter {
    pub(super) fn new(limits: TextLimits, hasher: Hasher, rules: NameRules) -> Self {
        Self { record: RecordWriter::new(limits, hasher), rules, is_counted: false }
    }

    pub(super) fn publish_counts(&mut self) {
        self.rules.publish_counts();
    }

    /// Writes the record of a request to `sink`.
    pub(super) fn write(
        &mut self,
        request: &Transaction<'_>,
        source: &SquidSource,
        sender: IpAddr,
        received_secs: u32,
        counts: &mut DecodeCounts,
        sink: &mut impl RecordSink,
    ) -> Result<(), RejectReason> {
        let is_connect = request.method == Some(b"CONNECT");
        let place = url_parts(request.url.as_deref().unwrap_or_default(), is_connect);
        let (record, rules) = (&mut self.record, &mut self.rules);
        record.begin();
        let sender = source.name.is_none().then(|| sender.to_string());
        let hostname = source.name.as_deref().or(sender.as_deref());
        record.text(TextField::Hostname, hostname.map(str::as_bytes), rules);
        record.text(TextField::ServerName, Some(place.host), rules);
        record.text(TextField::ScriptName, Some(place.path), rules);
        record.text(TextField::Schema, place.schema, rules);
        record.end_texts(request.status);

        let tags = [
            ("code", Some(request.code)),
            ("hierarchy", request.hierarchy),
            ("peer", request.peer),
            ("method", request.method),
            ("mime", request.mime.as_deref()),
            ("client", request.client.filter(|_| source.client)),
        ];
        record.request_tags(rules, tags);
        let elapsed_us = request.elapsed_ms.saturating_mul(1000);
        let mut timers = Timers { record, rules, name: (b"", None) };
        let activities = || Activity::ALL.iter().zip(&request.activities);
        for (activity, known) in activities() {
            if let Some(us) = known.spent_us() {
                timers.add(b"activity", activity.name(), us);
            }
        }
        bottlenecks(elapsed_us, &request.activities, request.detail, |set, us| {
            timers.add(b"bottleneck", set, us);
        });
        for (activity, known) in activities() {
            if let Some(us) = known.first_byte_us() {
                timers.add(b"first_byte", activity.name(), us);
            }
        }
        for (activity, known) in activities() {
            let (name, us): (&[u8], _) = match (known.state(), known.resident_ms) {
                (_, Some(ms)) => (b"resident", ms.saturating_mul(1000)),
                (State::Unfinished, None) => {
                    let began = known.start_us.unwrap_or(elapsed_us);
                    (b"unfinished", elapsed_us.saturating_sub(began))
                }
                _ => continue,
            };
            timers.add(name, activity.name(), us);
        }
        let numbers = Numbers {
            request_count: 1,
            document_size: u32::try_from(request.sent_bytes).unwrap_or(u32::MAX),
            status: request.status,
            request_time: seconds(elapsed_us),
            is_counted: self.is_counted,
            ..Numbers::default()
        };
        let known = || Packed::all(&request.activities);
        record.finish(&numbers, received_secs)?;
        record.is_unmeasured();
        let bytes = record.further(known().count().saturating_mul(size_of::<Packed>()))?;
        let room = sink.reserve(bytes).ok_or(RejectReason::TooLarge)?;
        record.write(room);
        for packed in known() {
            room.extend_from_slice(packed.as_bytes());
        }
        counts.add_repaired(record.repaired());
        Ok(())
    }
}

/// Writes timers with one tag each.
struct Timers<'a> {
    record: &'a mut RecordWriter,
    rules: &'a mut NameRules,
    /// The name of the last timer, and its string.
    name: (&'static [u8], Option<Interned>),
}

impl Timers<'_> {
    fn add(&mut self, name: &'static [u8], value: &str, us: u64) {
        let Self { record, rules, .. } = self;
        let timer = record.begin_timer(1, seconds(us), 0.0, 0.0);
        let mut tags = record.tag_set(TIMER_TAGS_MAX);
        let string = match self.name {
            (known, Some(string)) if known == name => string,
            _ => record.string(name),
        };
        self.name = (name, Some(string));
        let value = record.tag_value(*rules, (TagOf::Timer, name), value.as_bytes());
        record.tag(&mut tags, string, value);
        record.end_timer(timer, &tags);
    }
}

/// Converts microseconds to seconds, as in records.
fn seconds(us: u64) -> f32 {
    (us as f64 / 1e6) as f32
}
