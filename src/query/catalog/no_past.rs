//! The past in a program that was built without it: every answer says so.

use std::ops::Range;

use serde_json::Value as Json;

use super::Catalog;
use crate::query::error::QueryError;
use crate::query::past::{
    Fleet, LineQuestion, PastAnswer, PastLines, PastQuestion, PastRequestPage, PastRequests,
};
use crate::query::read_model::{Distribution, RequestDetail, TimerGroups, TimerSearch};

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
    past_report(&str, &PastQuestion) -> PastAnswer;
    past_keys(&str) -> Vec<String>;
    past_lines(&str, &LineQuestion) -> PastLines;
    past_distribution(&str, &[String], &Range<u64>, Option<&Fleet>) -> Option<Distribution>;
    past_requests(&PastRequests) -> PastRequestPage;
    past_request(u64, u64) -> RequestDetail;
    past_timer_groups(&Range<u64>, &TimerSearch) -> TimerGroups;
    import_log(&[u8], Option<String>, Option<u64>) -> Json;
}

impl Catalog {
    pub(crate) fn fleet_members(&self) -> Option<Vec<(String, String)>> {
        None
    }
}
