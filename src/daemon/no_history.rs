//! History in a build without the feature `sql`: there is none.

use std::sync::Arc;

use super::error::StartError;
use super::startup::TakeRows;
use super::threads::Worker;
use crate::clock::Clock;
use crate::config::Config;
use crate::input::rewrite::RuleCounters;
use crate::input::squid::Source;
use crate::merger::SharedLive;
use crate::profile::Profile;
use crate::query::catalog::Catalog;
use crate::query::catalog::past::refill::Refill;
use crate::query::status::Status;
use crate::state::folder::KeptFolder;
use crate::state::last_end::LastEnd;
use crate::state::snapshot_writer::{CutHistory, Snapshots};

pub(super) struct OpenHistory;

impl OpenHistory {
    pub(super) fn open(
        _: &Config,
        _: &Arc<dyn Clock>,
        _: &[Arc<Source>],
        _: Option<&KeptFolder>,
    ) -> Result<Self, StartError> {
        Ok(Self)
    }

    pub(super) fn written(&self) -> u64 {
        0
    }

    pub(super) fn keep_requests(&mut self, _: &Config, _: &SharedLive) {}

    pub(super) fn refill(
        &mut self,
        _: Option<&mut LastEnd>,
        _: &dyn Clock,
        _: &SharedLive,
        _: Option<&Snapshots>,
    ) -> (Option<Refill>, bool) {
        (None, false)
    }

    pub(super) fn attach_to(
        &mut self,
        catalog: Catalog,
        _: &Config,
        _: &Arc<RuleCounters>,
        _: Option<Refill>,
    ) -> Catalog {
        catalog
    }

    pub(super) fn add_to(&mut self, status: Status) -> Status {
        status
    }

    pub(super) fn minute_rows(&self, _: &Config, _: Option<Arc<Profile>>) -> Option<TakeRows> {
        None
    }

    pub(super) fn to_cut(&self) -> Option<Arc<dyn CutHistory>> {
        None
    }

    pub(super) fn start(self, _: &Arc<Catalog>) -> Result<Vec<Worker>, StartError> {
        Ok(Vec::new())
    }
}
