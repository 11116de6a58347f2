//! The thread `releases`: looks whether the request tag is sent, or one that is preferred to that
//! in use, annotates new releases, has them judged when they are due and saves what is known of
//! them.

use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use super::error::StartError;
use super::threads::Worker;
use crate::clock::Clock;
use crate::config::Config;
use crate::query::catalog::Catalog;
use crate::release::Releases;
use crate::shutdown::Shutdown;
use crate::state::document::Document;
use crate::state::folder::KeptFolder;

/// Interval between two turns.
const PERIOD: Duration = Duration::from_millis(100);
/// Turns between two looks for the tag.
const LOOK: u64 = 10;

/// The releases of a configuration, with what is kept of them in the folder for state.
pub(super) fn open(
    config: &Config,
    folder: Option<&KeptFolder>,
    clock: &dyn Clock,
) -> Result<(Releases, Option<Document>), StartError> {
    let (settings, error_status) = (&config.releases, config.reports.error_status);
    let releases = Releases::new(settings.after.as_secs(), error_status);
    let folder = folder.filter(|_| !settings.tag.is_empty());
    let file = folder.map(|it| releases.open(it, &settings.tag, clock.unix_secs()));
    let file = file.transpose()?;
    Ok((releases, file))
}

/// Starts the thread, if there is a tag to look for.
pub(super) fn start(
    config: &Config,
    file: Option<Document>,
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

fn run(catalog: &Catalog, tags: &[String], file: Option<&Document>, stop: &Shutdown) {
    let mut looked_for = preferred(tags, catalog.releases.tag().as_deref());
    for turn in 1_u64.. {
        if !looked_for.is_empty()
            && turn.is_multiple_of(LOOK)
            && let Some(tag) = catalog.release_tag(looked_for)
        {
            looked_for = found(catalog, tags, tag);
        }
        let is_last = stop.requested();
        take_turn(catalog, file, is_last);
        if is_last {
            return;
        }
        std::thread::sleep(PERIOD);
    }
}

/// The tags that would be in use in place of this one if they had been sent before; all of them
/// while none is in use.
fn preferred<'a>(tags: &'a [String], in_use: Option<&str>) -> &'a [String] {
    let place = tags.iter().position(|tag| Some(tag.as_str()) == in_use);
    &tags[..place.unwrap_or(tags.len())]
}

/// Counts by a tag that is sent; or says that it is sent while another one is in use. Returns those
/// to look for from then on.
fn found<'a>(catalog: &Catalog, tags: &'a [String], tag: &str) -> &'a [String] {
    if let Some(in_use) = catalog.releases.tag() {
        warn!(
            tag,
            in_use,
            "A request tag is sent that releases.tag names before the one in use, by which releases are counted. To use it \
             instead, list it alone and restart."
        );
        return &[];
    }
    match catalog.count_releases(tag) {
        Ok(()) => {
            info!(tag, "Releases are counted by this request tag.");
            preferred(tags, Some(tag))
        }
        Err(error) => {
            warn!(%error, "Releases cannot be counted.");
            &[]
        }
    }
}

fn take_turn(catalog: &Catalog, file: Option<&Document>, is_last: bool) {
    for began in catalog.releases.judge_due() {
        let text = began.text.clone();
        info!(text, "A release is running.");
        if let Err(error) = catalog.annotations.add(began) {
            warn!(%error, text, "Cannot annotate a release.");
        }
    }
    let saved = file.map(|file| catalog.releases.save(file, is_last));
    if let Some(Err(error)) = saved {
        warn!(%error, "Cannot save the state of releases; will retry after the next change.");
    }
}
