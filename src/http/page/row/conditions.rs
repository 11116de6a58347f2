//! Converts the keys of a row to a search for raw requests and raw timers.
//!
//! The report's definition, in the native form, says what each key column counts by, in order.
//! Conditions that a search lacks (an empty key that is not a text of the request, the overflow
//! row, a filter with `!=` or a prefix) are left out, and the page says so.

use maud::{Markup, html};
use serde_json::Value as Json;

use crate::config::rewrite::TEXT_FIELDS;
use crate::http::answer::json::bare;
use crate::http::api::search;
use crate::http::error::Problem;
use crate::http::page::formatting::{or_empty, read_empty, visible};
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
        let is_text = TEXT_FIELDS.iter().any(|(name, _)| *name == source);
        let place = if value.is_empty() && !is_text || value == OTHER {
            None
        } else if FIELDS.contains(&source) {
            Some((&mut self.requests, source.to_owned()))
        } else if let Some(tag) = source.strip_prefix('+') {
            Some((&mut self.requests, format!("tag.{tag}")))
        } else {
            source.strip_prefix('@').map(|tag| (&mut self.timers, tag.to_owned()))
        };
        let value = or_empty(value);
        // A search takes each name once; a report may filter by one of its keys.
        let given = |(list, name): &(&mut Vec<(String, String)>, String)| {
            list.iter().find(|(known, _)| known == name).map(|(_, given)| *given == value)
        };
        match place.map(|place| (given(&place), place)) {
            Some((None, (list, name))) => list.push((name, value.into_owned())),
            Some((Some(true), _)) => {}
            Some((Some(false), _)) | None => self.left_out.push(shown.to_owned()),
        }
    }

    /// The search for requests.
    pub(in crate::http::page) fn search(&self) -> Result<RequestSearch, Problem> {
        let mut params = Params::from_pairs(self.requests.clone());
        let mut search = RequestSearch::default();
        read_conditions(&mut params, &mut search)?;
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

/// Parses the conditions of a page, on which `(empty)` is the empty text.
pub(in crate::http::page) fn read_conditions(
    params: &mut Params,
    search: &mut RequestSearch,
) -> Result<(), Problem> {
    search::conditions(params, search)?;
    let texts = search.texts.iter_mut().map(|(_, text)| text);
    texts.chain(search.tags.iter_mut().map(|(_, text)| text)).for_each(read_empty);
    Ok(())
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

    #[test]
    fn a_name_is_given_once() {
        let definition =
            json!({"keys": ["+env", "@op"], "filters": ["+env=p", "@op=get", "+env=q"]});
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let conditions =
            Conditions::of(&definition, &[pair("tag_env", "p"), pair("timer_op", "get")]);
        assert_eq!(conditions.requests, [pair("tag.env", "p")]);
        assert_eq!(conditions.timers, [pair("op", "get")]);
        assert_eq!(conditions.left_out, ["+env=q"]);
    }

    #[test]
    fn an_empty_text_is_a_condition() {
        let definition = json!({"keys": ["schema", "+env", "hostname"]});
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let keys = [pair("schema", ""), pair("tag_env", ""), pair("hostname", OTHER)];
        let conditions = Conditions::of(&definition, &keys);
        assert_eq!(conditions.requests, [pair("schema", "(empty)")]);
        assert_eq!(conditions.left_out, ["tag_env", "hostname"]);
        let search = conditions.search().unwrap();
        assert_eq!(search.texts.iter().map(|it| it.1.as_str()).collect::<Vec<_>>(), [""]);
        // So is one that is really called like that.
        let conditions = Conditions::of(&definition, &[pair("schema", "(empty)")]);
        assert_eq!(conditions.search().unwrap().texts[0].1, "(empty)");
    }
}
