//! A request of Squid's -> a record.
//!
//! Hostname is the name of the source, or else who sent the line; server name the origin's host, script name the path of the
//! URL. What else says where the time went are request tags, and each activity whose total is known is a timer.

use std::net::IpAddr;

use super::activity::Activity;
use super::line::{Transaction, place};
use crate::config::SquidSource;
use crate::input::record::{
    DecodeCounts, Hasher, Interned, Numbers, RecordSink, RecordWriter, RejectReason, TextLimits,
};
use crate::input::rewrite::{Rewrite, TagOf, TextField};
use crate::limits::{REQUEST_TAGS_MAX, TIMER_TAGS_MAX};

/// Tag of the timers.
const ACTIVITY: &[u8] = b"activity";

/// Writes records, with `R` as name rules.
#[derive(Debug)]
pub(super) struct RequestWriter<R> {
    record: RecordWriter,
    rules: R,
}

impl<R: Rewrite> RequestWriter<R> {
    pub(super) fn new(limits: TextLimits, hasher: Hasher, rules: R) -> Self {
        Self {
            record: RecordWriter::new(limits, hasher),
            rules,
        }
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
        let place = place(request.url.as_deref().unwrap_or_default(), is_connect);
        let (record, rules) = (&mut self.record, &mut self.rules);
        record.begin();
        let sender = source.name.is_none().then(|| sender.to_string());
        let hostname = source.name.as_deref().or(sender.as_deref());
        record.text(TextField::Hostname, hostname.map(str::as_bytes), rules);
        record.text(TextField::ServerName, Some(place.host), rules);
        record.text(TextField::ScriptName, Some(place.path), rules);
        record.text(TextField::Schema, place.schema, rules);
        record.end_texts(request.status);

        let mut tags = record.tag_set(REQUEST_TAGS_MAX);
        for (name, value) in [
            ("code", Some(request.code)),
            ("hierarchy", request.hierarchy),
            ("peer", request.peer),
            ("method", request.method),
            ("mime", request.mime.as_deref()),
            ("client", request.client.filter(|_| source.client)),
        ] {
            let (name, Some(value)) = (name.as_bytes(), value) else {
                continue;
            };
            if record.has_room(&mut tags, name.len(), value.len()) {
                let name_string = record.string(name);
                let value = tag_value(record, rules, (TagOf::Request, name), value);
                record.tag(&mut tags, name_string, value);
            }
        }
        record.end_request_tags(&tags);
        let mut name_string = None;
        for (activity, known) in Activity::ALL.iter().zip(&request.activities) {
            let Some(spent_us) = known.spent_us() else {
                continue;
            };
            let timer = record.begin_timer(1, seconds(spent_us), 0.0, 0.0);
            let mut tags = record.tag_set(TIMER_TAGS_MAX);
            let name = *name_string.get_or_insert_with(|| record.string(ACTIVITY));
            let value = activity.name().as_bytes();
            let value = tag_value(record, rules, (TagOf::Timer, ACTIVITY), value);
            record.tag(&mut tags, name, value);
            record.end_timer(timer, &tags);
        }
        let numbers = Numbers {
            request_count: 1,
            document_size: u32::try_from(request.sent_bytes).unwrap_or(u32::MAX),
            status: request.status,
            request_time: seconds(request.elapsed_ms.saturating_mul(1000)),
            ..Numbers::default()
        };
        let bytes = record.finish(&numbers, received_secs)?;
        let room = sink.reserve(bytes).ok_or(RejectReason::TooLarge)?;
        record.write(room);
        for (counter, repaired) in counts.repaired.iter_mut().zip(record.repaired()) {
            *counter = counter.saturating_add(*repaired);
        }
        Ok(())
    }
}

/// The string for the value of a tag, after the rules for that name.
fn tag_value<R: Rewrite>(
    record: &mut RecordWriter,
    rules: &mut R,
    (of, name): (TagOf, &[u8]),
    value: &[u8],
) -> Interned {
    let chain = match rules.has_tag_chains() {
        true => rules.tag_chain(of, name),
        false => None,
    };
    let rewritten = chain.and_then(|chain| record.rewritten_string(chain, value, rules));
    rewritten.unwrap_or_else(|| record.string(value))
}

/// Microseconds as records have them.
fn seconds(us: u64) -> f32 {
    (us as f64 / 1e6) as f32
}
