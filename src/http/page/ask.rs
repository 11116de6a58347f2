//! Parameters of pages, and addresses that keep them.
//!
//! As strict as the API: a parameter that a page does not know is refused, by a page that says what is accepted. Forms send
//! what was left empty, so an empty value counts as not given here.

use super::show::link;
use crate::http::error::Problem;
use crate::http::params::{self, Params};

/// Rows on one page of a table when nothing is said.
pub(super) const LIMIT_DEFAULT: usize = 50;
/// Rows on one page of a table at most: what keeps a page below a hundred kilobytes.
pub(super) const LIMIT_MAX: usize = 100;

/// The parameters of one page as they were given, empty ones left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Given(Vec<(String, String)>);

impl Given {
    /// Reads the part of an address behind the `?`.
    pub(super) fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let (pairs, _) = Params::parse(query)?.into_rest();
        Ok(Self(
            pairs
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .collect(),
        ))
    }

    /// All of them, in the order given.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// One of them.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find_map(|(given, value)| (given == name).then_some(value))
    }

    /// One that is a number of rows, between 1 and `max`.
    pub(super) fn rows(&self, name: &str, default: usize, max: usize) -> Result<usize, Problem> {
        let Some(text) = self.get(name) else {
            return Ok(default);
        };
        let rows = params::number(name, text)? as usize;
        if (1..=max).contains(&rows) {
            return Ok(rows);
        }
        Err(Problem::parameter(
            name,
            format!("{rows} is not accepted; a number from 1 to {max} is"),
        ))
    }

    /// One that is a whole number; 0 when it is not given.
    pub(super) fn number(&self, name: &str) -> Result<u64, Problem> {
        self.get(name)
            .map_or(Ok(0), |text| params::number(name, text))
    }

    /// One out of a few words; the first of them when it is not given.
    pub(super) fn one_of<'a>(&self, name: &str, words: &[&'a str]) -> Result<&'a str, Problem> {
        let Some(text) = self.get(name) else {
            return Ok(words[0]);
        };
        let found = words.iter().find(|word| **word == text);
        found.copied().ok_or_else(|| {
            Problem::parameter(name, format!("{text:?} is not accepted"))
                .accepting(words.iter().copied())
        })
    }

    /// Refuses what is not among `known` and does not begin with one of `prefixes`.
    pub(super) fn only(&self, known: &[&str], prefixes: &[&str]) -> Result<(), Problem> {
        let is_known = |name: &str| {
            known.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix))
        };
        match self.iter().find(|(name, _)| !is_known(name)) {
            None => Ok(()),
            Some((name, _)) => Err(params::unknown(name, known.iter().copied())),
        }
    }

    /// The address of the same page with some parameters changed: `None` leaves one out. What is changed stands last; the place
    /// in the list (`offset`, `before_id`) is forgotten, since it means nothing in another list.
    pub(super) fn with(&self, path: &str, changes: &[(&str, Option<&str>)]) -> String {
        let changed = |name: &str| changes.iter().any(|(other, _)| *other == name);
        let kept = self
            .iter()
            .filter(|(name, _)| !changed(name) && !matches!(*name, "offset" | "before_id"));
        let set = changes
            .iter()
            .filter_map(|(name, value)| value.map(|value| (*name, value)));
        link(path, kept.chain(set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_keep_what_was_given() {
        let given = Given::parse(Some("sort=-p95&q=&a%20b=%3C&offset=50")).unwrap();
        assert_eq!(given.get("q"), None);
        assert_eq!(given.with("/x", &[]), "/x?sort=-p95&a%20b=%3C");
        assert_eq!(
            given.with("/x", &[("sort", None), ("offset", Some("100"))]),
            "/x?a%20b=%3C&offset=100"
        );
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is() {
        let given = Given::parse(Some("limit=7&sot=1&tag.x=1")).unwrap();
        assert_eq!(given.rows("limit", 50, 100), Ok(7));
        let refused = given.only(&["limit", "sort"], &["tag."]).unwrap_err();
        assert!(
            refused
                .detail()
                .contains("sot: unknown parameter; accepted: limit, sort")
        );
        assert!(
            Given::parse(Some("limit=0"))
                .unwrap()
                .rows("limit", 50, 100)
                .is_err()
        );
        assert!(
            Given::parse(Some("limit=101"))
                .unwrap()
                .rows("limit", 50, 100)
                .is_err()
        );
        let view = Given::parse(Some("view=x")).unwrap();
        assert!(
            view.one_of("view", &["main", "own"])
                .unwrap_err()
                .detail()
                .contains("main, own")
        );
    }
}
