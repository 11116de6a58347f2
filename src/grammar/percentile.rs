//! Percentiles in definitions and parameters: lists of ranks, `95,99.9`, and the names of their
//! columns, `p99_9`.

use crate::report::definition::PERCENTILES_MAX;

/// Parses percentiles separated by commas: `95,99.9`.
///
/// # Errors
/// The problem with the first that is invalid, repeated or one too many.
pub fn percentiles(text: &str) -> Result<Vec<f64>, String> {
    let mut list = Vec::new();
    for percent in text.split(',') {
        parse_percentile_into(&mut list, percent)?;
    }
    Ok(list)
}

/// The names of percentiles that are accepted, for errors.
pub const PERCENTILES_ACCEPTED: &str =
    "a percentile is above 0 and at most 100, as p95 or p99_9, with six decimals at most";

/// The rank of a percentile by the name of its column, `p99_9` (`p99.9` too), in percent.
pub fn percentile_of_name(name: &str) -> Option<f64> {
    let rank = name.strip_prefix('p')?.replacen('_', ".", 1);
    let (whole, decimals) = rank.split_once('.').unwrap_or((&rank, "0"));
    let is_usual = (1..=3).contains(&whole.len()) && !decimals.is_empty();
    percentiles(&rank).ok().filter(|_| is_usual)?.pop()
}

/// [`PERCENTILES_ACCEPTED`] behind a semicolon, if a name looks like one of these and is not.
pub fn percentile_hint(name: &str) -> String {
    let digit = name.strip_prefix('p').and_then(|rank| rank.chars().next());
    let is_like_one = digit.is_some_and(|it| it.is_ascii_digit());
    match is_like_one && percentile_of_name(name).is_none() {
        true => format!("; {PERCENTILES_ACCEPTED}"),
        false => String::new(),
    }
}

/// Adds a percentile rank to a list.
///
/// # Errors
/// Fails if it is not in (0, 100], has too many decimals for a rank, is in the list already, or is
/// one too many.
pub(super) fn add_percentile(list: &mut Vec<f64>, percent: f64) -> Result<(), String> {
    // False for NaN as well.
    if !(percent > 0.0 && percent <= 100.0) {
        return Err("a percentile must be greater than 0 and at most 100".to_owned());
    }
    let kept = (percent * 1e6).round() / 1e6;
    if kept.to_bits() != percent.to_bits() || kept == 0.0 {
        return Err("a percentile may have at most six decimals".to_owned());
    }
    if list.contains(&percent) {
        return Err(format!("the percentile {percent} is given twice"));
    }
    if list.len() == PERCENTILES_MAX {
        return Err(format!("there may be at most {PERCENTILES_MAX} percentiles"));
    }
    list.push(percent);
    Ok(())
}

/// A percentile as text: decimal, like seconds.
///
/// # Errors
/// As for [`add_percentile`], and if it is not a number.
pub(super) fn parse_percentile_into(list: &mut Vec<f64>, text: &str) -> Result<(), String> {
    let decimal = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let percent = text.parse().ok().filter(|_| decimal).ok_or(
        "a percentile is a number greater than 0 and at most 100, such as 95 or 99.9".to_owned(),
    )?;
    add_percentile(list, percent)
}
