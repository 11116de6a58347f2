//! The conditions of a COMMENT: what `min_time`, `max_time` and filters have in common in both grammars.

use super::error::CommentError;
use super::number::Seconds;
use super::piece::Piece;
use crate::report::definition::{FILTERS_MAX, Filter};

/// Conditions read so far.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    min: Option<Seconds>,
    max: Option<Seconds>,
    /// All others.
    pub(super) filters: Vec<Filter>,
}

impl Conditions {
    /// Takes a bound on the request time; false when `name` is another condition.
    pub(super) fn take_time(
        &mut self,
        name: Piece<'_>,
        value: Piece<'_>,
    ) -> Result<bool, CommentError> {
        let bound = match name.text {
            "min_time" => &mut self.min,
            "max_time" => &mut self.max,
            _ => return Ok(false),
        };
        match bound.replace(value.seconds()?) {
            None => Ok(true),
            Some(_) => Err(name.error("this condition is given twice")),
        }
    }

    /// The filters, those on time first. `below` gives the first microsecond past an upper bound; a bound of 0 is off.
    pub(super) fn finish(
        self,
        section: Piece<'_>,
        below: impl Fn(Seconds) -> u64,
    ) -> Result<Vec<Filter>, CommentError> {
        let is_on = |bound: &Seconds| bound.us_ceil > 0;
        let (min, max) = (self.min.filter(is_on), self.max.filter(is_on));
        if min
            .zip(max)
            .is_some_and(|(min, max)| min.us_ceil > max.us_ceil)
        {
            return Err(section.error("min_time is greater than max_time"));
        }
        let min = min.map(|min| Filter::MinTime(min.us_ceil));
        let max = max.map(|max| Filter::TimeBelow(below(max)));
        let all: Vec<Filter> = min.into_iter().chain(max).chain(self.filters).collect();
        if all.len() > FILTERS_MAX {
            return Err(section.error(format!("there may be at most {FILTERS_MAX} conditions")));
        }
        Ok(all)
    }
}
