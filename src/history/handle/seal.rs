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
    /// Something else was being written.
    Failed,
}

impl History {
    /// Ends the rows to be written next, if that is due behind this second.
    pub(super) fn seal_rows(&self, memory: &mut Memory, is_due: impl Fn(u64) -> bool) {
        let mut seal = self.0.seal.lock();
        if !matches!(*seal, Seal::Behind(second) if is_due(second)) {
            return;
        }
        if memory.flushing.is_some() {
            *seal = Seal::Failed;
            return;
        }
        memory.begin_flush();
        *seal = Seal::Begun;
    }

    /// Once what came before is written, later rows are in later files.
    pub(super) fn end_seal(&self, parts: &[Arc<Part>], memory: &Memory) {
        let mut seal = self.0.seal.lock();
        if matches!(*seal, Seal::Begun) && memory.flushing.is_none() {
            *seal = Seal::Done(next_number(parts));
        }
    }

    /// Whether there are sealed rows to write.
    pub(in crate::history) fn has_sealed(&self) -> bool {
        let memory = MEMORY.lock(&self.0.memory);
        matches!(*self.0.seal.lock(), Seal::Begun) && memory.flushing.is_some()
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
        *self.0.seal.lock() = Seal::Behind(second);
    }

    fn sealed(&self) -> Sealed {
        let parts = self.0.parts.read();
        let memory = MEMORY.lock(&self.0.memory);
        self.end_seal(&parts, &memory);
        let is_failing = self.0.status.lock().is_failing();
        match *self.0.seal.lock() {
            Seal::Done(file) => Sealed::Before(file),
            _ if is_failing => Sealed::Never,
            Seal::Nowhere | Seal::Behind(_) | Seal::Begun => Sealed::NotYet,
            Seal::Failed => Sealed::Busy,
        }
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
