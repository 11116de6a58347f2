//! A snapshot, as a file with everything wrong in it, and as records whose checksums are right.
//!
//! A fuzzer does not find a checksum, so what does not begin as a snapshot does is taken for
//! records (`length of two bytes, bytes`, one after the other) and packed into a file as the writer
//! does it. Whatever is taken in has to count packets afterwards, to be written again, and to be
//! read back as what was written.

use std::sync::Arc;

use parking_lot::RwLock;
use prost::Message as _;

use super::live::{self, AWAY_MS};
use crate::clock::{Clock as _, ManualClock};
use crate::input::Decode as _;
use crate::input::pinba::{Decoder, model};
use crate::input::record::TextLimits;
use crate::merger::Live;
use crate::profile::Profile;
use crate::shutdown::Shutdown;
use crate::state::records::{MAGIC, RecordsWriter};
use crate::state::snapshot::{self, Cut, HistoryFrom, ReadError, Subject};
use crate::telemetry::Counters;

/// Requests that fit.
const REQUESTS: usize = 64;

/// Latest time of a process that is to write another: half of the latest that a file may have.
const WRITING_MS_MAX: u64 = 1 << 49;

/// Any bytes as the file.
pub fn snapshot(bytes: &[u8]) {
    let file = if bytes.starts_with(&MAGIC) { bytes.to_vec() } else { packed(bytes) };
    let Ok((mut live, now_ms)) = restored(&file, 1_000) else {
        return;
    };
    let mut records = Vec::new();
    let mut decoder = Decoder::new(TextLimits::default(), live::hasher());
    for number in 0..8_u32 {
        let packet = sent(number).encode_to_vec();
        let taken = decoder.decode(&packet, 1_700_000_000, &mut records);
        assert_eq!(taken, Ok(1));
    }
    live.merge(&records, now_ms);
    if now_ms > WRITING_MS_MAX {
        return;
    }
    let counted = live::read_all(&live);
    let requests = live.pool.requests.len();
    let (live, again) = written(live, now_ms);
    let (read, _) = restored(&again, 0).unwrap_or_else(|error| panic!("what was written: {error}"));
    assert_eq!(read.pool.requests.len(), requests, "requests of the second");
    assert_eq!(live::read_all(&read), counted, "sums of the second");
    let mut live = live;
    live.advance(now_ms + 2_000);
    live.advance(now_ms + AWAY_MS);
    assert_eq!(live::read_all(&live), 0, "all has left the reports");
    assert_eq!(live.pool.requests.len(), 0, "all has left the pool");
}

/// Restores the file as a start would, `away_ms` after it was written; returns the result and its
/// time.
fn restored(file: &[u8], away_ms: u64) -> Result<(Live, u64), ReadError> {
    let contents = snapshot::inspect(file)?;
    let now_ms = contents.mono_now(contents.unix_ms + away_ms);
    let mut live = live::empty(REQUESTS);
    let profile = Profile::new(Vec::new(), REQUESTS, Arc::new(ManualClock::new(0)));
    snapshot::restore(file, &mut live, live::definitions(), &[], Some(&profile), now_ms)?;
    let _read = profile.recent(None).map(|it| it.requests.len());
    Ok((live, now_ms))
}

/// The file that the daemon writes.
fn written(live: Live, now_ms: u64) -> (Live, Vec<u8>) {
    let clock = ManualClock::new(1_700_000_000_000);
    clock.advance_ms(now_ms);
    let shared = Arc::new(RwLock::new(live));
    let after = Some(HistoryFrom::Time(1_700_000_040));
    let cut = Cut::of(&shared.read(), (&Counters::new(1), &[]), after);
    let subject = Subject { live: &shared, profile: None, clock: &clock, stop: &Shutdown::new() };
    let (file, _) = snapshot::write(subject, cut, Vec::new()).expect("memory takes all");
    assert_eq!(clock.mono_ms(), now_ms);
    let live = Arc::into_inner(shared).expect("nobody else has it");
    (live.into_inner(), file)
}

/// Records as a file.
fn packed(mut bytes: &[u8]) -> Vec<u8> {
    let mut writer = RecordsWriter::new(Vec::new()).expect("memory takes all");
    while let Some((&[low, high], rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (record, after) = rest.split_at(length);
        writer.bytes(record).expect("memory takes all");
        bytes = after;
    }
    writer.finish().expect("memory takes all")
}

fn sent(number: u32) -> model::Request {
    let script = format!("/{}", number % 3);
    let mut sent = model::Request::named("h", "s", script);
    sent.request_time = Some(number as f32 / 3.0);
    sent.status = Some(200 + number % 2 * 300);
    sent.add_tag("env", if number > 3 { "prod" } else { "test" });
    sent.add_timer(1 + number, 0.25, &[("group", "db"), ("op", "read")]);
    sent
}

/// Snapshots of some histories, as records: what the corpus begins with.
#[cfg(test)]
pub(super) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    use crate::state::records::RecordsReader;

    let unpacked = |file: &[u8]| {
        let mut reader = RecordsReader::new(file).expect("a snapshot");
        let mut bytes = Vec::new();
        while reader.advance().expect("a record") {
            let record = &reader.record;
            let length = u16::try_from(record.len()).expect("a small record");
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(record);
        }
        bytes
    };
    let mut seeds = Vec::new();
    for (name, requests) in [("empty", 0), ("few", 3), ("many", 40)] {
        let mut live = live::with_reports(REQUESTS);
        let mut decoder = Decoder::new(TextLimits::default(), live::hasher());
        for number in 0..requests {
            let mut records = Vec::new();
            let packet = sent(number).encode_to_vec();
            let _taken = decoder.decode(&packet, 1_700_000_000, &mut records);
            live.advance(u64::from(number) * 200);
            live.merge(&records, u64::from(number) * 200);
        }
        let (_, file) = written(live, u64::from(requests) * 200);
        seeds.push((name, unpacked(&file)));
        if name == "few" {
            seeds.push(("file", file));
        }
    }
    seeds
}
