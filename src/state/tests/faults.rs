//! Simulated disk failures of a store, or of the state, for tests.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// Random failures of one in so many changes, before or after the change.
#[derive(Clone, Copy)]
struct Weather {
    state: u64,
    one_in: u64,
    /// Instead, syncs report success without syncing.
    lies: bool,
}

impl Weather {
    fn strikes(&mut self) -> bool {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33).is_multiple_of(self.one_in)
    }
}

/// Shared by the store and its test.
#[derive(Clone, Default)]
pub(crate) struct Faults(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Changes started so far.
    steps: u64,
    /// The change that fails.
    fails_at: Option<u64>,
    /// Whether later changes fail too, as after a kill.
    is_dead: bool,
    /// Whether the disk is full.
    is_full: bool,
    /// A path that cannot be read, and how often that was tried.
    unreadable: Option<(PathBuf, u32)>,
    /// Files that would not survive a power cut, with the number of bytes that would.
    unsynced: BTreeMap<PathBuf, u64>,
    /// Renames that would not survive: old name, new name, and the previous content of the new
    /// name.
    unnamed: Vec<(PathBuf, PathBuf, Option<Vec<u8>>)>,
    free: Option<u64>,
    /// Random failures.
    weather: Option<Weather>,
    watch: Option<Box<dyn FnMut() + Send>>,
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faults").finish_non_exhaustive()
    }
}

impl Faults {
    /// Called before a change.
    pub(crate) fn step(&self) -> io::Result<()> {
        let watch = self.0.lock().watch.take();
        if let Some(mut watch) = watch {
            watch();
            self.0.lock().watch = Some(watch);
        }
        self.late()?;
        let mut state = self.0.lock();
        state.steps += 1;
        match state.fails_at {
            Some(at) if state.steps == at || state.is_dead && state.steps > at => {
                Err(io::Error::other("a fault of the test"))
            }
            _ => Ok(()),
        }
    }

    /// Called before a change of a file or folder; records what a power cut would undo.
    pub(crate) fn change(&self, what: &str, path: &Path) -> io::Result<()> {
        self.step()?;
        match what {
            "make" => self.written(path, 0),
            "write" => self.written(path, fs::metadata(path)?.len()),
            "sync" => self.synced(path),
            _ => {}
        }
        Ok(())
    }

    /// Makes a change fail at random after or just before it is made, for lack of luck or room.
    pub(crate) fn late(&self) -> io::Result<()> {
        let weather = &mut self.0.lock().weather;
        let Some(weather) = weather.as_mut().filter(|weather| !weather.lies) else {
            return Ok(());
        };
        match (weather.strikes(), weather.state >> 40 & 1 == 0) {
            (false, _) => Ok(()),
            (true, false) => Err(rustix::io::Errno::IO.into()),
            (true, true) => Err(rustix::io::Errno::NOSPC.into()),
        }
    }

    /// Whether a sync reports success without syncing.
    fn lies(&self) -> bool {
        let weather = &mut self.0.lock().weather;
        let lying = weather.as_mut().filter(|weather| weather.lies);
        lying.is_some_and(Weather::strikes)
    }

    /// Makes one in `one_in` changes fail from now on, at random with this seed, or makes syncs
    /// lie; 0 for none.
    pub(crate) fn set_weather(&self, seed: u64, one_in: u64, lies: bool) {
        self.0.lock().weather = (one_in > 0).then_some(Weather { state: seed, one_in, lies });
    }

    /// Records a new file, or one that grows beyond `safe` bytes.
    pub(crate) fn written(&self, path: &Path, safe: u64) {
        let mut state = self.0.lock();
        state.unsynced.entry(path.to_owned()).or_insert(safe);
    }

    /// Records that a file, or a folder, is synced.
    pub(crate) fn synced(&self, path: &Path) {
        if self.lies() {
            return;
        }
        let mut state = self.0.lock();
        state.unsynced.remove(path);
        state.unnamed.retain(|(_, to, _)| to.parent() != Some(path));
    }

    /// Called before a rename.
    pub(crate) fn renamed(&self, from: &Path, to: &Path) {
        let mut state = self.0.lock();
        // The file of that name is replaced.
        state.unsynced.remove(to);
        if let Some(safe) = state.unsynced.remove(from) {
            state.unsynced.insert(to.to_owned(), safe);
        }
        let before = (from.to_owned(), to.to_owned(), fs::read(to).ok());
        state.unnamed.push(before);
    }

    /// Removes everything that would not survive a power cut.
    pub(crate) fn cut_power(&self) {
        let mut state = self.0.lock();
        for (path, safe) in std::mem::take(&mut state.unsynced) {
            // Some were removed.
            if let Ok(file) = File::options().write(true).open(path) {
                file.set_len(safe).unwrap();
            }
        }
        while let Some((from, to, before)) = state.unnamed.pop() {
            // A newer file may have that name, and survives.
            if !from.exists()
                && fs::rename(&to, from).is_ok()
                && let Some(before) = before
            {
                fs::write(to, before).unwrap();
            }
        }
    }

    /// Called before a piece is read.
    pub(crate) fn read(&self, path: &Path) -> io::Result<()> {
        self.late()?;
        match &mut self.0.lock().unreadable {
            Some((unreadable, tries)) if unreadable == path => {
                *tries += 1;
                Err(rustix::io::Errno::IO.into())
            }
            _ => Ok(()),
        }
    }

    /// Makes a file unreadable from now on; returns how often the previous one was tried.
    pub(crate) fn set_unreadable(&self, path: Option<&Path>) -> u32 {
        let path = path.map(|path| (path.to_owned(), 0));
        let before = std::mem::replace(&mut self.0.lock().unreadable, path);
        before.map_or(0, |(_, tries)| tries)
    }

    /// A file that accepts no data.
    pub(crate) fn full(&self) -> Option<File> {
        let full = || File::options().write(true).open("/dev/full").unwrap();
        self.0.lock().is_full.then(full)
    }

    pub(crate) fn free(&self) -> Option<u64> {
        self.0.lock().free
    }

    /// Cancels all scheduled failures.
    pub(crate) fn recover(&self) {
        let mut state = self.0.lock();
        (state.fails_at, state.is_dead) = (None, false);
    }

    /// Makes the `n`th change from now fail, and all after it.
    pub(crate) fn die_at(&self, n: u64) {
        self.fail_at(n);
        self.0.lock().is_dead = true;
    }

    /// Makes the `n`th change from now fail.
    pub(crate) fn fail_at(&self, n: u64) {
        let mut state = self.0.lock();
        (state.steps, state.fails_at, state.is_dead) = (0, Some(n), false);
    }

    /// Whether the scheduled failure was reached.
    pub(crate) fn was_reached(&self) -> bool {
        let state = self.0.lock();
        state.fails_at.is_some_and(|at| state.steps >= at)
    }

    pub(crate) fn set_full(&self, is_full: bool) {
        self.0.lock().is_full = is_full;
    }

    pub(crate) fn set_free(&self, free: u64) {
        self.0.lock().free = Some(free);
    }

    /// Sets a function to call before each change.
    pub(crate) fn set_watch(&self, watch: impl FnMut() + Send + 'static) {
        self.0.lock().watch = Some(Box::new(watch));
    }
}
