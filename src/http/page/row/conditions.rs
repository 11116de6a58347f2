//! Converts the keys of a row to a search for raw requests and raw timers.
//!
//! The report's definition, in the native form, says what each key column counts by, in order.
//! Conditions that a search lacks (an empty key, the overflow row, a filter with `!=` or a prefix)
//! are left out, and the page says so.

use maud::{Markup, html};
use serde_json::Value as Json;

use crate::http::answer::json::bare;
use crate::http::api::search;
use crate::http::error::Problem;
use crate::http::page::formatting::visible;
use crate::http::params::Params;
use crate::query::question::RequestSearch;
use crate::report::layout::OTHER;

/// Search conditions.
#[derive(Debug, Default)]
pub(in crate::http::page) struct Conditions {
    /// Parameters of a search for requests.
    pub(in crate::http::page) requests: Vec<(String, String)>,
    /// Timer tags.
    pub(in crate::http::page) timers: Vec<(String, String)>,
    /// Keys or filters that a search cannot have.
    left_out: Vec<String>,
}

/// Request fields and bounds that a search accepts by name.
const FIELDS: [&str; 7] =
    ["hostname", "server_name", "script_name", "schema", "status", "min_time", "max_time"];

impl Conditions {
    /// From a report's definition and the keys of a row, in column order.
    pub(in crate::http::page) fn of(definition: &Json, keys: &[(String, String)]) -> Self {
        let mut conditions = Self::default();
        let member = |name: &str| definition.get(name).and_then(Json::as_array);
        let sources = member("keys").into_iter().flatten().map(|key| match key {
            Json::String(text) => text.as_str(),
            other => other.get("key").and_then(Json::as_str).unwrap_or_default(),
        });
        for (source, (key, value)) in sources.zip(keys) {
            conditions.add(source, key, value);
        }
        for filter in member("filters").into_iter().flatten() {
            let text = bare(filter);
            match text.split_once('=') {
                Some((source, value)) if !value.ends_with('*') && !source.ends_with('!') => {
                    conditions.add(source, &text, value);
                }
                _ => conditions.left_out.push(text),
            }
        }
        conditions
    }

    /// Adds a condition in the terms of the native form; `shown` names it if it is left out.
    fn add(&mut self, source: &str, shown: &str, value: &str) {
        let pair = |name: &str| (name.to_owned(), value.to_owned());
        if value.is_empty() || value == OTHER {
            self.left_out.push(shown.to_owned());
        } else if FIELDS.contains(&source) {
            self.requests.push(pair(source));
        } else if let Some(tag) = source.strip_prefix('+') {
            self.requests.push(pair(&format!("tag.{tag}")));
        } else if let Some(tag) = source.strip_prefix('@') {
            self.timers.push(pair(tag));
        } else {
            self.left_out.push(shown.to_owned());
        }
    }

    /// The search for requests.
    pub(in crate::http::page) fn search(&self) -> Result<RequestSearch, Problem> {
        let mut params = Params::from_pairs(self.requests.clone());
        let mut search = RequestSearch::default();
        search::conditions(&mut params, &mut search)?;
        Ok(search)
    }

    /// The conditions that were left out, for the page.
    pub(in crate::http::page) fn note(&self) -> Markup {
        html! {
            @if !self.left_out.is_empty() {
                p.note { "Not part of this search: "
                    @for (at, left) in self.left_out.iter().enumerate() { @if at > 0 { ", " } code { (visible(left)) } } "."
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_and_filters_become_conditions() {
        let definition = json!({
            "keys": ["script_name", "+env", {"key": "@group", "missing": "empty"}, "status"],
            "filters": ["min_time=0.5", "server_name!=x", "hostname=web*", "+a=b", "max_time<2", {"key": "+a", "equals": "b*"}],
        });
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let keys = [
            pair("script_name", "/<x>"),
            pair("tag_env", "p"),
            pair("timer_group", "db"),
            pair("status", ""),
        ];
        let conditions = Conditions::of(&definition, &keys);
        assert_eq!(
            conditions.requests,
            [
                pair("script_name", "/<x>"),
                pair("tag.env", "p"),
                pair("min_time", "0.5"),
                pair("tag.a", "b")
            ]
        );
        assert_eq!(conditions.timers, [pair("group", "db")]);
        let left_out = [
            "status",
            "server_name!=x",
            "hostname=web*",
            "max_time<2",
            r#"{"key":"+a","equals":"b*"}"#,
        ];
        assert_eq!(conditions.left_out, left_out);
    }
}
