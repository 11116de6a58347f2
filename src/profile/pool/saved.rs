//! Samples in a snapshot: a segment is a record.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::{Frame, Pool, Run, SEGMENT_SAMPLES, Sample, Segment, StatRequest, segments_max};
use crate::pool::snapshot::Damage;

/// Largest id of a sample that a snapshot may have.
const ID_MAX: u64 = 1 << 62;

type Text = Option<Box<str>>;

/// A segment in a snapshot.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedSegment {
    first_id: u64,
    samples: Vec<Sample>,
    requests: Vec<SavedRequest>,
    /// Number, host, and start of the clock of the runs of these.
    runs: Vec<(u64, Box<str>, i64)>,
    frames: Vec<[Text; 3]>,
    texts: Vec<Box<str>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedRequest {
    /// Index of its run.
    run: usize,
    pid: i64,
    elapsed: u64,
    newest: u64,
    texts: [Text; 5],
}

fn saved<const N: usize>(texts: [&Option<Arc<str>>; N]) -> [Text; N] {
    texts.map(|text| text.as_deref().map(Box::from))
}

impl SavedSegment {
    /// A copy of a segment.
    pub(crate) fn of(segment: &Segment) -> Self {
        let mut runs: Vec<&Arc<Run>> = Vec::new();
        let requests = segment.requests.iter().map(|it| SavedRequest {
            run: runs.iter().position(|run| run.number == it.run.number).unwrap_or_else(|| {
                runs.push(&it.run);
                runs.len() - 1
            }),
            pid: it.pid,
            elapsed: it.elapsed,
            newest: it.newest.load(Ordering::Relaxed),
            texts: saved([&it.script, &it.path, &it.method, &it.uri, &it.uri_sent]),
        });
        let requests = requests.collect();
        let run = |run: &Arc<Run>| {
            let zero_us = run.zero_us.load(Ordering::Relaxed);
            (run.number, Box::from(&*run.host), zero_us)
        };
        let frames = segment.frames.iter();
        Self {
            first_id: segment.first_id,
            samples: segment.samples.clone(),
            requests,
            runs: runs.into_iter().map(run).collect(),
            frames: frames.map(|it| saved([&it.file, &it.scope, &it.function])).collect(),
            texts: segment.texts.iter().map(|it| Box::from(&**it)).collect(),
        }
    }

    /// Rebuilds the segment; `None` if it is inconsistent.
    fn segment(self) -> Option<Segment> {
        let runs = self.runs.into_iter().map(|(number, host, zero_us)| {
            Arc::new(Run { number, host: host.into(), zero_us: AtomicI64::new(zero_us) })
        });
        let runs: Vec<_> = runs.collect();
        let requests = self.requests.into_iter().map(|it| {
            let [script, path, method, uri, uri_sent] = it.texts.map(|it| it.map(Arc::from));
            Some(Arc::new(StatRequest {
                run: Arc::clone(runs.get(it.run)?),
                pid: it.pid,
                elapsed: it.elapsed,
                script,
                path,
                method,
                uri,
                uri_sent,
                newest: AtomicU64::new(it.newest),
            }))
        });
        let requests: Vec<_> = requests.collect::<Option<_>>()?;
        let has_request = |it: &Sample| (it.request as usize) < requests.len();
        let frame = |texts: [Text; 3]| {
            let [file, scope, function] = texts.map(|it| it.map(Arc::from));
            Frame { file, scope, function }
        };
        let is_valid = (1..=SEGMENT_SAMPLES).contains(&self.samples.len())
            && self.samples.iter().all(has_request);
        is_valid.then(|| Segment {
            first_id: self.first_id,
            samples: self.samples,
            requests,
            frames: self.frames.into_iter().map(frame).collect(),
            texts: self.texts.into_iter().map(Arc::from).collect(),
        })
    }
}

impl Pool {
    /// Adds the next segment of a snapshot, before any sample is added; returns the largest number
    /// of a run in it.
    ///
    /// # Errors
    /// Fails if the segment is inconsistent, or its ids do not follow those of the one before.
    pub(crate) fn restore(&mut self, saved: SavedSegment) -> Result<u64, Damage> {
        let segment = saved
            .segment()
            .ok_or(Damage("a segment of samples is empty, too long, or names what it lacks"))?;
        let samples = segment.samples.len();
        if !(self.open.first_id..ID_MAX).contains(&segment.first_id) {
            return Err(Damage("samples in a wrong order"));
        }
        self.open.first_id = segment.first_id + samples as u64;
        self.samples += samples;
        let runs = segment.requests.iter().map(|it| it.run.number);
        let run = runs.max().unwrap_or_default();
        self.sealed.push_back(Arc::new(segment));
        let is_full = |it: &Self| {
            it.samples > it.samples_max || it.sealed.len() >= segments_max(it.samples_max)
        };
        while is_full(self) && self.evict() {}
        Ok(run)
    }
}
