//! The thread `releases`: looks whether the request tag is sent, and then annotates new releases,
//! has them judged when they are due and saves what is known of them.

use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use super::error::StartError;
use super::threads::Worker;
use crate::clock::Clock;
use crate::config::Config;
use crate::query::catalog::Catalog;
use crate::release::{Releases, ReleasesFile};
use crate::shutdown::Shutdown;
use crate::state::annotations::Annotation;

/// Interval between two turns.
const PERIOD: Duration = Duration::from_millis(100);
/// Turns between two looks for the tag.
const LOOK: u32 = 10;

/// The releases of a configuration, with what is kept of them in `state.dir`.
pub(super) fn open(
    config: &Config,
    clock: &dyn Clock,
) -> Result<(Releases, Option<ReleasesFile>), StartError> {
    let (settings, error_status) = (&config.releases, config.reports.error_status);
    let releases = Releases::new(settings.after.as_secs(), error_status);
    let dir = config
        .state
        .dir
        .as_ref()
        .filter(|_| !settings.tag.is_empty());
    let file = dir.map(|dir| releases.open(dir, &settings.tag, clock.unix_secs()));
    let file = file.transpose()?;
    Ok((releases, file))
}

/// Starts the thread, if there is a tag to look for.
pub(super) fn start(
    config: &Config,
    file: Option<ReleasesFile>,
    catalog: &Arc<Catalog>,
) -> Result<Option<Worker>, StartError> {
    let tags = config.releases.tag.clone();
    if tags.is_empty() {
        return Ok(None);
    }
    let catalog = Arc::clone(catalog);
    let run = move |stop: &Shutdown| run(&catalog, &tags, file.as_ref(), stop);
    Worker::start("releases", "the thread of releases", run).map(Some)
}

fn run(catalog: &Catalog, tags: &[String], file: Option<&ReleasesFile>, stop: &Shutdown) {
    let releases = catalog.releases();
    let (mut turn, mut is_failing, mut is_refused) = (0_u32, false, false);
    let mut has_tag = releases.tag().is_some();
    while !stop.requested() {
        std::thread::sleep(PERIOD);
        turn = turn.wrapping_add(1);
        if !has_tag
            && !is_refused
            && turn.is_multiple_of(LOOK)
            && let Some(tag) = catalog.release_tag(tags)
        {
            let counts = catalog.count_releases(tag);
            (has_tag, is_refused) = (counts.is_ok(), counts.is_err());
            match counts {
                Ok(()) => info!(tag, "Releases are counted by this request tag."),
                Err(error) => warn!(%error, "Releases cannot be counted."),
            }
        }
        if has_tag {
            note(catalog, releases.turn());
            let saved = file.map_or(Ok(()), |file| releases.save(file, false));
            if let Err(error) = &saved
                && !is_failing
            {
                warn!(%error, "What is known of releases cannot be kept; trying again.");
            }
            is_failing = saved.is_err();
        }
    }
    // What the last seconds brought.
    note(catalog, releases.turn());
    if let Some(Err(error)) = file.map(|file| releases.save(file, true)) {
        warn!(%error, "What is known of releases was not kept.");
    }
}

/// Makes the annotations of new releases.
fn note(catalog: &Catalog, news: Vec<(u64, String)>) {
    for (time, release) in news {
        let made = Annotation {
            id: 0,
            time,
            text: format!("Release {release}"),
            tags: "release".to_owned(),
            author: None,
        };
        info!(release, "A new release is running.");
        if let Err(error) = catalog.annotations().add(made) {
            warn!(%error, release, "Cannot annotate a release.");
        }
    }
}
