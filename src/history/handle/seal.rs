//! The cut that a snapshot makes through the rows: what was counted up to a second of the stream is
//! written to files of its own, so that their numbers tell what the snapshot has.

use std::sync::Arc;

use super::{History, MEMORY, Memory, next_number};
use crate::history::part::Part;
use crate::state::snapshot_writer::{CutHistory, PiecesCut, Sealed};

/// A second of the stream behind which rows are to be in later files.
#[derive(Debug, Default)]
pub(super) enum Seal {
    #[default]
    Nowhere,
    /// The number of a second that may still be on its way.
    Behind(u64),
    /// It is over, and what is to be written is what came before.
    Begun,
    /// Rows from before are in files below this number, later ones are not.
    Done(u64),
    /// Something else was being written, or nothing can be yet.
    Failed,
}

impl Memory {
    /// Ends the rows to be written next, if that is due behind this second.
    pub(super) fn seal_rows(&mut self, is_due: impl Fn(u64) -> bool) {
        if matches!(self.seal, Seal::Behind(second) if is_due(second)) {
            self.seal = if self.flushing.is_some() { Seal::Failed } else { Seal::Begun };
            self.begin_flush();
        }
    }

    /// Once what came before is written, later rows are in later files.
    pub(super) fn end_seal(&mut self, parts: &[Arc<Part>]) {
        if matches!(self.seal, Seal::Begun) && self.flushing.is_none() {
            self.seal = Seal::Done(next_number(parts));
        }
    }
}

impl CutHistory for History {
    fn next_file(&self) -> Option<u64> {
        let parts = self.0.parts.read();
        let memory = MEMORY.lock(&self.0.memory);
        let is_all_written = memory.running.is_empty() && memory.flushing.is_none();
        (is_all_written && self.run() > 0).then(|| next_number(&parts))
    }

    fn store(&self) -> u64 {
        self.0.status.lock().store
    }

    fn seal(&self, second: u64) {
        // What waits for a store that is not open yet is written behind what its log restores.
        let seal = if self.run() > 0 { Seal::Behind(second) } else { Seal::Failed };
        MEMORY.lock(&self.0.memory).seal = seal;
    }

    fn sealed(&self) -> Option<Sealed> {
        let parts = self.0.parts.read();
        let mut memory = MEMORY.lock(&self.0.memory);
        memory.end_seal(&parts);
        let is_failing = self.0.status.lock().is_failing();
        match memory.seal {
            Seal::Done(file) => Some(Sealed::Before(file)),
            _ if is_failing => Some(Sealed::Never),
            Seal::Nowhere | Seal::Behind(_) | Seal::Begun => None,
            Seal::Failed => Some(Sealed::Busy),
        }
    }

    fn has_flushed(&self, to: u64) -> bool {
        let mut memory = MEMORY.lock(&self.0.memory);
        memory.wanted_to = memory.wanted_to.max(to);
        memory.flushed_to >= to || self.0.status.lock().is_failing()
    }

    fn keep_apart(&self, cut: PiecesCut) {
        let mut status = self.status_mut();
        status.cuts.truncate(1);
        status.cuts.push(cut);
    }

    fn has_snapshot(&self) {
        let mut status = self.status_mut();
        let last = status.cuts.len().saturating_sub(1);
        status.cuts.drain(..last);
    }
}
