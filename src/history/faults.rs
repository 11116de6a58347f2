//! What goes wrong with the disk of a store under test.

use std::fs::File;
use std::io;
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
