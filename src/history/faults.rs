//! What goes wrong with the disk of a store under test.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// Shared by the store and its test.
#[derive(Clone, Default)]
pub(super) struct Faults(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Changes that were begun.
    steps: u64,
    /// The one that fails.
    fails_at: Option<u64>,
    /// Whether those after it fail too, as after a kill.
    is_dead: bool,
    /// Whether nothing can be written.
    is_full: bool,
    /// What the system cannot read, and how often it was tried.
    unreadable: Option<(PathBuf, u32)>,
    /// Files that are not safe from a power cut, and how many of their bytes are.
    unsynced: BTreeMap<PathBuf, u64>,
    /// Names that are not: what a file was called before, what it is called, and what that name stood for.
    unnamed: Vec<(PathBuf, PathBuf, Option<Vec<u8>>)>,
    free: Option<u64>,
    watch: Option<Box<dyn FnMut() + Send>>,
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faults").finish_non_exhaustive()
    }
}

impl Faults {
    /// Before a change.
    pub(super) fn step(&self) -> io::Result<()> {
        let watch = self.0.lock().watch.take();
        if let Some(mut watch) = watch {
            watch();
            self.0.lock().watch = Some(watch);
        }
        let mut state = self.0.lock();
        state.steps += 1;
        match state.fails_at {
            Some(at) if state.steps == at || state.is_dead && state.steps > at => {
                Err(io::Error::other("a fault of the test"))
            }
            _ => Ok(()),
        }
    }

    /// A file is new, or more is written to it than so many bytes.
    pub(super) fn written(&self, path: &Path, safe: u64) {
        let mut state = self.0.lock();
        state.unsynced.entry(path.to_owned()).or_insert(safe);
    }

    pub(super) fn synced(&self, path: &Path) {
        self.0.lock().unsynced.remove(path);
    }

    /// Before a file is renamed.
    pub(super) fn renamed(&self, from: &Path, to: &Path) {
        let mut state = self.0.lock();
        if let Some(safe) = state.unsynced.remove(from) {
            state.unsynced.insert(to.to_owned(), safe);
        }
        let before = (from.to_owned(), to.to_owned(), fs::read(to).ok());
        state.unnamed.push(before);
    }

    pub(super) fn folder_synced(&self, folder: &Path) {
        let mut state = self.0.lock();
        state
            .unnamed
            .retain(|(_, to, _)| to.parent() != Some(folder));
    }

    /// What is not safe is gone.
    pub(super) fn cut_power(&self) {
        let mut state = self.0.lock();
        for (path, safe) in std::mem::take(&mut state.unsynced) {
            // Some were removed.
            if let Ok(file) = File::options().write(true).open(path) {
                file.set_len(safe).unwrap();
            }
        }
        while let Some((from, to, before)) = state.unnamed.pop() {
            if fs::rename(&to, from).is_ok()
                && let Some(before) = before
            {
                fs::write(to, before).unwrap();
            }
        }
    }

    /// Before a piece is read.
    pub(super) fn read(&self, path: &Path) -> io::Result<()> {
        match &mut self.0.lock().unreadable {
            Some((unreadable, tries)) if unreadable == path => {
                *tries += 1;
                Err(rustix::io::Errno::IO.into())
            }
            _ => Ok(()),
        }
    }

    /// How often a file was tried that cannot be read from now on.
    pub(super) fn set_unreadable(&self, path: Option<&Path>) -> u32 {
        let path = path.map(|path| (path.to_owned(), 0));
        let before = std::mem::replace(&mut self.0.lock().unreadable, path);
        before.map_or(0, |(_, tries)| tries)
    }

    /// A file that can take nothing.
    pub(super) fn full(&self) -> Option<File> {
        let full = || File::options().write(true).open("/dev/full").unwrap();
        self.0.lock().is_full.then(full)
    }

    pub(super) fn free(&self) -> Option<u64> {
        self.0.lock().free
    }

    /// Lets the `n`th change from now fail, and those after it.
    pub(super) fn die_at(&self, n: u64) {
        self.fail_at(n);
        self.0.lock().is_dead = true;
    }

    /// Lets the `n`th change from now fail.
    pub(super) fn fail_at(&self, n: u64) {
        let mut state = self.0.lock();
        (state.steps, state.fails_at, state.is_dead) = (0, Some(n), false);
    }

    /// Whether the change that was to fail was reached.
    pub(super) fn was_reached(&self) -> bool {
        let state = self.0.lock();
        state.fails_at.is_some_and(|at| state.steps >= at)
    }

    pub(super) fn set_full(&self, is_full: bool) {
        self.0.lock().is_full = is_full;
    }

    pub(super) fn set_free(&self, free: u64) {
        self.0.lock().free = Some(free);
    }

    /// Called before each change.
    pub(super) fn set_watch(&self, watch: impl FnMut() + Send + 'static) {
        self.0.lock().watch = Some(Box::new(watch));
    }
}
