//! Search conditions for raw requests as parameters, shared by the API, the stream and the pages.
//!
//! All bounds are inclusive.

use crate::config::rewrite::TEXT_FIELDS;
use crate::http::error::Problem;
use crate::http::params::{Params, Rounding};
use crate::http::time_range::take_moment;
use crate::profile::definition::SampleKey;
use crate::query::question::{NumberField, RequestSearch};
use crate::report::definition::Pattern;

/// The parameter `timers`: whether rows come with their timers.
pub(in crate::http) fn with_timers(params: &mut Params) -> Result<bool, Problem> {
    Ok(params.word("timers", &["0", "1"])? == "1")
}

/// Parses the range of requests: before an id, between two times. `now_ms` is the wall clock.
pub(in crate::http) fn range(params: &mut Params, now_ms: u64) -> Result<RequestSearch, Problem> {
    let before_id = params.number("before_id")?;
    let since = take_moment(params, "since", now_ms, Rounding::Up)?;
    let until = take_moment(params, "until", now_ms, Rounding::Down)?;
    if until.is_some_and(|until| since > Some(until)) {
        return Err(Problem::parameter("since", "is later than until"));
    }
    Ok(RequestSearch { before_id, since, until, ..RequestSearch::default() })
}

/// Parses the conditions on requests.
pub(in crate::http) fn conditions(
    params: &mut Params,
    search: &mut RequestSearch,
) -> Result<(), Problem> {
    search.min_time_us = params.micros("min_time", Rounding::Up)?;
    search.max_time_us = params.micros("max_time", Rounding::Down)?;
    if search.max_time_us.is_some_and(|most| search.min_time_us > Some(most)) {
        return Err(Problem::parameter("min_time", "is greater than max_time"));
    }
    for (name, field) in TEXT_FIELDS {
        let text = params.text(name);
        search.texts.extend(text.map(|text| (field, text)));
    }
    for field in NumberField::ALL {
        let number = params.number(field.name())?;
        search.numbers.extend(number.map(|number| (field, number)));
    }
    search.tags = params.prefixed("tag.NAME");
    Ok(())
}

/// Parses the conditions on samples.
pub(in crate::http) fn sample_conditions(params: &mut Params) -> Vec<(SampleKey, Pattern)> {
    let mut condition = |key: SampleKey| Some((key, Pattern::Equals(params.text(key.name())?)));
    SampleKey::ALL.into_iter().filter_map(&mut condition).collect()
}
