//! The conditions of a COMMENT: what `min_time`, `max_time` and filters have in common in both grammars.

use super::error::CommentError;
use super::number::Seconds;
use super::piece::Piece;
use crate::report::definition::{FILTERS_MAX, Filter};

/// Reads the conditions of a section, those on time first. `other` reads one that is not on time, from the whole of it, its
/// name and its value (`None`: it is no filter); `below` gives the first microsecond past an upper bound. A bound of 0 is off.
pub(super) fn read<'a>(
    section: Piece<'a>,
    accepted: &str,
    mut other: impl FnMut([Piece<'a>; 3]) -> Result<Option<Filter>, CommentError>,
    below: impl Fn(Seconds) -> u64,
) -> Result<Vec<Filter>, CommentError> {
    let (mut min, mut max) = (None, None);
    let mut others = Vec::new();
    for piece in section.split(',') {
        let Some((name, value)) = piece.split_once('=') else {
            return Err(piece.error(accepted));
        };
        match name.text {
            "min_time" => once(&mut min, name, value.seconds()?)?,
            "max_time" => once(&mut max, name, value.seconds()?)?,
            _ => others.extend(other([piece, name, value])?),
        }
    }
    let is_on = |bound: &Seconds| bound.us_ceil > 0;
    let (min, max) = (min.filter(is_on), max.filter(is_on));
    if min
        .zip(max)
        .is_some_and(|(min, max)| min.us_ceil > max.us_ceil)
    {
        return Err(section.error("min_time is greater than max_time"));
    }
    let min = min.map(|min| Filter::MinTime(min.us_ceil));
    let max = max.map(|max| Filter::TimeBelow(below(max)));
    let all: Vec<Filter> = min.into_iter().chain(max).chain(others).collect();
    if all.len() > FILTERS_MAX {
        return Err(section.error(format!("there may be at most {FILTERS_MAX} conditions")));
    }
    Ok(all)
}

/// Takes a value that may be given once.
pub(super) fn once<T>(
    place: &mut Option<T>,
    name: Piece<'_>,
    value: T,
) -> Result<(), CommentError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(name.error("this condition is given twice")),
    }
}
