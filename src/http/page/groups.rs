//! A small table of timer groups: on the overview those of all requests, on a row's page those of its own.
//!
//! The newest raw requests in memory are looked through, as many as a page that is made every second can afford; the heading
//! leads to the page that looks further, with the same conditions. Timers are told apart by the tag `group`, or by the
//! first that there is.

use maud::{Markup, html};

use super::ranking::{against_largest, bar};
use super::requests;
use super::show::{self, Name, link, visible};
use super::timers;
use crate::http::error::Problem;
use crate::query::error::QueryError;
use crate::query::source::{RequestSearch, Source, TimerGroups, TimerSearch};
use crate::report::definition::KeySource;

/// Groups that are shown.
const ROWS: usize = 8;
/// Raw rows looked at for them.
const LOOKED_MAX: usize = 100_000;
/// Groups told apart.
const GROUPS_MAX: usize = 1_000;

/// Groups of timers.
#[derive(Debug)]
pub(super) struct Groups {
    found: TimerGroups,
    tag: String,
}

impl Groups {
    /// Those of the requests that are searched for; `None`: raw rows are not kept.
    pub(super) fn ask(source: &dyn Source, of: &RequestSearch) -> Result<Option<Self>, Problem> {
        let ask = |tag: &str| {
            source.timer_groups(&TimerSearch {
                requests: of.clone(),
                by: vec![KeySource::TimerTag(tag.to_owned())],
                looked_max: LOOKED_MAX,
                groups_max: GROUPS_MAX,
                ..TimerSearch::default()
            })
        };
        let mut tag = "group".to_owned();
        let mut found = match ask(&tag) {
            Ok(found) => found,
            Err(QueryError::RawDataOff) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let others = |found: &TimerGroups| !found.tag_names.contains(&tag);
        if let Some(first) = found.tag_names.first().filter(|_| others(&found)) {
            tag.clone_from(first);
            found = ask(&tag)?;
        }
        Ok(Some(Self { found, tag }))
    }

    /// The table, the largest in `column` first; `conditions` are those of the search, as parameters.
    pub(super) fn table(&mut self, column: &str, conditions: &[(String, String)]) -> Markup {
        timers::sorted(&mut self.found, column, true);
        let Self { found, tag } = self;
        let all_us: u64 = found.rows.iter().map(|row| row.value_us).sum();
        let rows = &found.rows[..found.rows.len().min(ROWS)];
        let number = |row| timers::number(row, column);
        let weights = against_largest(rows.iter().map(number).collect());
        let sort = format!("-{column}");
        let to = |more: [(&str, &str); 2]| {
            let conditions = conditions.iter().map(|(a, b)| (a.as_str(), b.as_str()));
            link("/timers", more.into_iter().chain(conditions))
        };
        let narrowed = format!("t.{tag}");
        html! {
            div.wide tabindex="0" role="region" aria-label="Timers, rows" {
                table {
                    caption {
                        a href=(to([("by", tag), ("sort", &sort)])) { "Timers by " (visible(tag)) }
                        " " small { "in " (requests::looked(&found.looked)) }
                    }
                    thead { tr {
                        th.key scope="col" { span.hidden { "Value" } } th scope="col" { "Total time" } th scope="col" { "Share" }
                        th scope="col" { "p50" } th scope="col" { "p95" } th scope="col" { "Hits" }
                    } }
                    tbody {
                        @for (row, weight) in rows.iter().zip(&weights) {
                            tr {
                                th.key scope="row" {
                                    (bar(*weight))
                                    @match row.keys.first().and_then(Option::as_ref) {
                                        Some(value) => a href=(to([("by", tag), (&narrowed, value)])) { (Name(value)) },
                                        None => span.none { "without" },
                                    }
                                }
                                td { (show::micros(row.value_us)) }
                                td { (show::percent(100.0 * row.value_us as f64 / all_us.max(1) as f64)) }
                                td { (show::secs(row.quantiles[0])) }
                                td { (show::secs(row.quantiles[1])) }
                                td { (show::count(row.hits)) }
                            }
                        }
                        @if rows.is_empty() { tr { td.none colspan="6" { "No timers." } } }
                    }
                }
            }
        }
    }
}
