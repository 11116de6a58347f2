//! Conditions of a COMMENT: the common part of `min_time`, `max_time` and filters in both grammars.

use super::error::{Wrong, checked, wrong};
use crate::grammar::number::Seconds;
use crate::report::definition::{FILTERS_MAX, Filter};

/// Parses the conditions of a section, those on time first. `other` parses one that is not on time,
/// from its text, its name and its value (`None`: it is not a filter); `below` returns the first
/// microsecond past an upper bound. A bound of 0 is off.
pub(super) fn parse<'a>(
    section: &'a str,
    accepted: &str,
    mut other: impl FnMut([&'a str; 3]) -> Result<Option<Filter>, Wrong<'a>>,
    below: impl Fn(Seconds) -> u64,
) -> Result<Vec<Filter>, Wrong<'a>> {
    let (mut min, mut max) = (None, None);
    let mut others = Vec::new();
    for part in section.split(',') {
        let Some((name, value)) = part.split_once('=') else { return wrong(part, accepted) };
        match name {
            "min_time" => once(&mut min, name, checked(value, Seconds::parse(value))?)?,
            "max_time" => once(&mut max, name, checked(value, Seconds::parse(value))?)?,
            _ => others.extend(other([part, name, value])?),
        }
    }
    let is_on = |bound: &Seconds| bound.us_ceil > 0;
    let (min, max) = (min.filter(is_on), max.filter(is_on));
    if min.zip(max).is_some_and(|(min, max)| min.us_ceil > max.us_ceil) {
        return wrong(section, "min_time is greater than max_time");
    }
    let min = min.map(|min| Filter::MinTime(min.us_ceil));
    let max = max.map(|max| Filter::TimeBelow(below(max)));
    let all: Vec<Filter> = min.into_iter().chain(max).chain(others).collect();
    if all.len() > FILTERS_MAX {
        return wrong(section, format!("there may be at most {FILTERS_MAX} conditions"));
    }
    Ok(all)
}

/// Sets a value that may be given once.
pub(super) fn once<'a, T>(place: &mut Option<T>, name: &'a str, value: T) -> Result<(), Wrong<'a>> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => wrong(name, "this condition is given twice"),
    }
}
