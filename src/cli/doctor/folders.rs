//! Folders: whether data is kept, whether it can be written, and for how long there is room.

use std::path::Path;

use super::{Finding, HISTORY_DIR, STATE_DIR, used};
use crate::config::Config;
use crate::config::data_folder::USUAL;
use crate::config::units::rounded_bytes;
use crate::daemon::disk_plan;
use crate::history::inspect;
use crate::state::{self, Folder, StateError, folder};

/// Reports whether any data is persisted.
pub(super) fn kept(config: &Config) -> Option<Finding> {
    let is_kept = config.state.dir.is_some() || config.history.dir.is_some();
    let why = config.folder_refused.iter();
    let why: String = why.map(|why| format!("; {why}")).collect();
    let found = format!("everything is kept in memory: a restart loses it{why}");
    let change = format!(
        "--data DIR, or data.dir in the configuration\n\
         or make the folder where it is by default: mkdir -p {USUAL} && chown USER {USUAL}"
    );
    (!is_kept).then(|| Finding::better("data.dir", found, change))
}

/// Checks whether `state.dir` can be written or created, and has room for the next snapshot, also
/// when the pools are full.
pub(super) fn state_dir(config: &Config, serving: Option<&str>) -> Option<Finding> {
    let dir = config.state.dir.as_deref()?;
    let found = state::check(dir);
    let free = found.as_ref().map_or(u64::MAX, |(_, free)| *free);
    let finding = folder_found(STATE_DIR, dir, found, serving);
    let full = disk_plan::snapshot_bytes(config);
    if free >= full {
        return Some(finding);
    }
    let found = format!(
        "{}, but a snapshot of full pools takes about {} (pool.request_pool_size, pool.timer_pool_size)",
        finding.found,
        rounded_bytes(full)
    );
    Some(Finding::better(STATE_DIR, found, folder::MAKE_ROOM))
}

/// Checks `history.dir` likewise, and says how long its space lasts.
pub(super) fn history_dir(config: &Config, serving: Option<&str>) -> Vec<Finding> {
    let Some(dir) = config.history.dir.as_deref() else { return Vec::new() };
    let min = config.history.free_min as u64;
    let found = folder::check(folder::HISTORY, dir, min);
    let unreadable = found.is_ok().then(|| unreadable_history(config, dir));
    let found = match unreadable.flatten() {
        None => folder_found(HISTORY_DIR, dir, found, serving),
        Some(why) => Finding::wrong(HISTORY_DIR, why, MANIFEST),
    };
    let estimates = disk_plan::estimated_retention(config).join("\n");
    let estimates = format!("{}:\n{estimates}", disk_plan::assumption());
    vec![found, Finding::right("history.size_max", estimates)]
}

/// What to do about a manifest that cannot be read.
const MANIFEST: &str = "bring back the manifest from a backup, or name another folder: history.dir";

/// Why history would be off although its folder can be written: the manifest.
pub(in crate::cli) fn unreadable_history(config: &Config, dir: &Path) -> Option<String> {
    let is_history = config.history.dir.as_deref() == Some(dir);
    let error = is_history.then(|| inspect::check(dir).err()).flatten()?;
    Some(format!("{error}; history is off with it"))
}

fn folder_found(
    what: &'static str,
    dir: &Path,
    found: Result<(Folder, u64), StateError>,
    serving: Option<&str>,
) -> Finding {
    let shown = dir.display();
    if let (Err(StateError::InUse { .. }), Some(url)) = (&found, serving) {
        return used(what, shown, url);
    }
    match found {
        Ok((folder, free)) => {
            let found = match folder {
                Folder::Present => "can be written",
                Folder::Missing { .. } => "will be created",
            };
            Finding::right(what, format!("{shown} {found}; {} free", rounded_bytes(free)))
        }
        Err(error) => {
            let found = error.to_string();
            let found = found.split_once(": ").map_or(&*found, |(_, found)| found);
            Finding::wrong(what, found.to_owned(), error.advice(dir))
        }
    }
}
