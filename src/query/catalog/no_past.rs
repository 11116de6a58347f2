//! The past in a build without support for it: every answer says so.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value as Json;

use self::refill::Refill;
use super::Catalog;
use crate::alert::objective::Objective;
use crate::alert::refill::{Counts, Past};
use crate::alert::rule::Rule;
use crate::query::answer::{Distribution, PastLines, ReportAnswer, RequestDetail, RequestPage};
use crate::query::error::QueryError;
use crate::query::question::{LineQuestion, ReportQuestion, RequestQuestion, Spans, Whose};
use crate::query::timer_groups::{TimerGroups, TimerSearch};
use crate::report::Entry;
use crate::report::definition::Definition;
use crate::report::read::ReadLock;
use crate::report::read::reading::{Reading, Want};
use crate::series::Spreads;
use crate::state::last_end::Lost;

macro_rules! nothing_kept {
    ($($name:ident($($argument:ty),*) -> $answer:ty;)*) => {
        impl Catalog { $(
            pub(crate) fn $name(&self, $(_: $argument),*) -> Result<$answer, QueryError> {
                Err(QueryError::no_history())
            }
        )* }
    };
}

nothing_kept! {
    past_report(&str, &Spans, &ReportQuestion) -> ReportAnswer;
    past_keys(&str) -> Vec<String>;
    kept_from(&str) -> Option<u64>;
    past_lines(&str, &LineQuestion) -> PastLines;
    past_spreads(&str, &LineQuestion) -> Spreads;
    past_distribution(&str, &[(String, String)], &Range<u64>, &Whose) -> Option<Distribution>;
    past_requests(&Range<u64>, &RequestQuestion) -> RequestPage;
    past_request(u64, u64) -> RequestDetail;
    past_timer_groups(&Range<u64>, &TimerSearch) -> TimerGroups;
    import_log(&[u8], Option<String>, Option<u64>) -> Json;
}

impl Catalog {
    pub(crate) fn replay_alerts(
        &self,
        _: &[Arc<Rule>],
        _: &Range<u64>,
        _: impl Fn() -> bool,
    ) -> Result<Json, QueryError> {
        Err(QueryError::no_history())
    }

    pub(crate) fn widened_spans(&self, _: &str, spans: &Spans, _: &Whose) -> Spans {
        spans.clone()
    }

    pub(crate) fn fleet_members(&self) -> Option<Vec<(String, String)>> {
        None
    }

    pub(crate) fn missing_spans(&self) -> Vec<Lost> {
        Vec::new()
    }

    pub(crate) fn why_lacking(&self) -> Option<String> {
        None
    }

    pub(super) fn refill(&self) -> Option<Arc<Refill>> {
        None
    }

    pub(super) fn read_refilled(
        _: &mut impl ReadLock,
        refill: &Refill,
        _: &[Entry],
        _: &[(&Entry, Want)],
        _: u64,
    ) -> Option<Vec<Reading>> {
        match *refill {}
    }
}

pub(crate) mod refill {
    //! Rows that replace lost counts come from history.

    use std::ops::Range;

    pub(crate) const BYTES_MAX: usize = 0;

    #[derive(Debug)]
    pub enum Refill {}

    impl Refill {
        pub fn filled(&self) -> Option<Range<u64>> {
            match *self {}
        }

        pub fn lost_until(&self) -> u64 {
            match *self {}
        }

        pub fn in_report(&self, _: &crate::report::definition::Definition) -> [Range<u64>; 2] {
            match *self {}
        }

        pub fn why_lacking(&self) -> Option<String> {
            match *self {}
        }
    }
}

impl Past for Catalog {
    fn of(&self, _: &Arc<Objective>) -> Option<Option<Counts>> {
        Some(None)
    }
}
