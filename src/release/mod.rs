//! Releases: which code ran, and what it changed.
//!
//! ```text
//!   daemon thread `releases`: the request tag appears -> report over tag, script and status;
//!                             the raw rows before its first second -> Tracker
//!   series thread: Second -(rows of that report)-> Tracker: blocks of time
//!   daemon thread `releases`: new values -> annotations; after `releases.after`: verdict -> state file
//! ```
//!
//! While nothing is sent under the tag there is no report, and nothing is counted. Front ends hold
//! a [`Releases`]. `judge` has the method, `tracker` what is kept and its limits, `running` which
//! of them is running.

mod blocks;
mod judge;
mod running;
mod tracker;
pub mod verdict;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tracing::warn;

use self::tracker::FORM;
pub use self::tracker::{Release, Tracker};
use crate::delta::{RowDelta, RowReader, Second};
use crate::grammar::native::ReportForm;
use crate::pool::requests::RequestRow;
use crate::report::definition::{Defaults, Definition};
use crate::report::histogram::BucketLayout;
use crate::report::row_key::key_texts;
use crate::report::totals::Totals;
use crate::report::{OTHER_ID, Watched};
use crate::state::StateError;
use crate::state::annotations::Annotation;
use crate::state::document::{Document, VERSION};
use crate::state::folder::KeptFolder;

/// The report that is counted from.
pub const REPORT: &str = "report_by_release";

/// The report over this request tag.
pub(crate) fn definition(tag: &str, defaults: &Defaults) -> Option<Definition> {
    let form = serde_json::json!({
        "name": REPORT, "level": "request", "keys": [format!("+{tag}"), "script_name", "status"],
        "percentiles": [50, 95, 99], "history": false,
    });
    serde_json::from_value::<ReportForm>(form).ok()?.definition(defaults).ok()
}

/// Handle to the releases of a daemon; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Releases(Arc<Mutex<Tracker>>);

/// Contents of `releases.json`: the tracker as bytes in base 64, since it has a hundred thousand
/// numbers.
#[derive(Debug, Serialize, Deserialize)]
struct Contents {
    version: u64,
    releases: String,
    /// Name of the running release, and since when it is.
    #[serde(default)]
    running: Option<(String, u64)>,
    /// By release: requests without CPU times and memory.
    #[serde(default)]
    unmeasured: BTreeMap<String, u64>,
}

impl Releases {
    /// Creates an instance that judges releases after `after` seconds.
    pub(crate) fn new(after: u64, error_status: u32) -> Self {
        let releases = Self::default();
        releases.0.lock().begin(after, error_status);
        releases
    }

    /// Restores what is kept in a folder, if it was counted by one of these tags.
    ///
    /// # Errors
    /// If the file exists but cannot be read.
    pub(crate) fn open(
        &self,
        folder: &KeptFolder,
        tags: &[String],
        unix_secs: u32,
    ) -> Result<Document, StateError> {
        let (document, read) =
            Document::open::<Contents>(folder, "releases", "the releases", unix_secs)?;
        if let Some(Contents { releases, running, mut unmeasured, .. }) = read {
            match postcard::from_bytes::<Tracker>(&STANDARD.decode(releases).unwrap_or_default()) {
                Ok(mut kept) if kept.form == FORM && tags.contains(&kept.tag) => {
                    let mut tracker = self.0.lock();
                    kept.running.now = running;
                    for it in &mut kept.releases {
                        it.unmeasured = unmeasured.remove(&it.name).unwrap_or_default();
                    }
                    kept.begin(tracker.after, tracker.error_status);
                    *tracker = kept;
                }
                Ok(_) => {}
                Err(error) => {
                    warn!(%error, "Releases start empty: releases.json has another version.");
                }
            }
        }
        Ok(document)
    }

    /// Returns the request tag in use; `None` while none was seen.
    pub(crate) fn tag(&self) -> Option<String> {
        Some(self.0.lock().tag.clone()).filter(|tag| !tag.is_empty())
    }

    /// Counts by this request tag from now on. Seconds that end meanwhile are counted once the
    /// result is dropped: first it takes earlier requests.
    pub fn watch(&self, tag: &str) -> MutexGuard<'_, Tracker> {
        let mut tracker = self.0.lock();
        tag.clone_into(&mut tracker.tag);
        tracker
    }

    /// Takes a second, whose rows are supplied by `read`. Runs on the series thread.
    pub fn take_rows(&self, second: &Second, read: impl FnOnce(&mut dyn RowReader)) {
        let mut tracker = self.0.lock();
        if !tracker.tag.is_empty() {
            tracker.begin_second(second.unix_secs, second.secs);
        }
        read(&mut *tracker);
    }

    /// Returns the releases, newest first.
    pub(crate) fn all(&self) -> Vec<Release> {
        let tracker = self.0.lock();
        let shown = tracker.releases.iter().filter(|it| it.is_shown());
        shown.rev().map(|it| it.shown(&tracker.running)).collect()
    }

    /// Judges the releases that are due. Returns annotations of those that began to run.
    pub fn judge_due(&self) -> Vec<Annotation> {
        self.0.lock().judge_due()
    }

    /// Writes the state if it changed, or in any case if `is_last`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn save(&self, file: &Document, is_last: bool) -> Result<(), StateError> {
        let mut tracker = self.0.lock();
        let is_changed = std::mem::take(&mut tracker.is_changed);
        let is_wanted = is_changed || is_last && !tracker.tag.is_empty();
        let Some(Ok(bytes)) = is_wanted.then(|| postcard::to_stdvec(&*tracker)) else {
            return Ok(());
        };
        let running = tracker.running.now.clone();
        let unmeasured =
            tracker.releases.iter().map(|it| (it.name.clone(), it.unmeasured)).collect();
        drop(tracker);
        let releases = STANDARD.encode(bytes);
        file.write(&Contents { version: VERSION, releases, running, unmeasured })
    }
}

impl Tracker {
    /// Takes a request of a release, a script and a status from before the first counted second,
    /// oldest first.
    pub fn add_request(&mut self, release: &str, script: &str, status: u32, row: &RequestRow) {
        let totals = Totals::of_request(row, status >= self.error_status);
        let times = iter::once((BucketLayout::LogLinear.bucket(totals.time as u64), 1));
        self.begin_second(row.timestamp.into(), 0);
        self.add([release, script, &status.to_string()], &totals, times);
    }
}

/// Counts the rows of [`REPORT`].
impl RowReader for Tracker {
    fn begin(&mut self, report: &Watched) {
        self.is_read = report.definition.name == REPORT && !self.tag.is_empty();
    }

    fn row(&mut self, row: &RowDelta<'_>) {
        if !self.is_read || row.id == OTHER_ID {
            return;
        }
        let key = row.key.bytes();
        let mut texts = key_texts(&key);
        let texts = [(); 3].map(|()| texts.next().unwrap_or_default());
        self.add(texts, &row.totals, row.times.clone().into_iter().flatten());
    }
}
