//! `pinbad top --once`: the same tables as plain text, for scripts, tickets and dumb terminals.
//!
//! Runs on the calling thread; the first request that fails ends it. Rates are over the window of
//! the reports, because a single sample has no rate.

use super::TopFlags;
use super::draw::held;
use super::layout::Layout;
use super::location::{BY_KEY, Location, TABS};
use super::poll::{Poller, Query};
use super::table::Table;
use crate::cli::Failure;
use crate::cli::client::{Client, ClientError};
use crate::cli::format::{clock, grouped, number, secs, visible};
use crate::config::suggest;
use crate::value::text::{counted, joined, lasting};

/// Rows of the first table, and of each other table.
const ROWS: (usize, usize) = (20, 5);

/// Returns the text, for a terminal with that many columns.
///
/// # Errors
/// When the daemon does not answer, or has no such report or column.
pub fn text(client: Client, flags: &TopFlags, columns: usize) -> Result<String, Failure> {
    let url = client.url().to_owned();
    let mut poller = Poller::new(client.clone());
    let sample = poller.sample(flags.interval)?;
    // Right before the tables, so that both are of the same moment.
    let info = client.get("/api/v1/reports/info?percentiles=50")?;
    let of = |name: &str| info["rows"][0][name].as_f64();
    let count = of("req_count").unwrap_or_default();
    let covered = info["covered_seconds"].as_f64().unwrap_or_default();
    let median = of("p50").map_or_else(|| "-".to_owned(), secs);
    let [rows, words, reports] = held(&sample);
    let mut text = format!(
        "pinbad {url}  {} UTC\n{} in {}: {}/s, median {median}; lost {}, refused {}\nin memory {rows}, {words}; {reports}\n",
        clock(info["as_of"].as_f64().unwrap_or_default() as u64),
        counted(count as u64, "request"),
        lasting(covered as u64),
        number(if covered > 0.0 { count / covered } else { 0.0 }),
        grouped(sample.lost()),
        grouped(sample.refused()),
    );
    let locations = match &flags.report {
        Some(name) => vec![Location::Report(name.clone())],
        None => TABS[..=BY_KEY.len()].to_vec(),
    };
    for (at, location) in locations.into_iter().enumerate() {
        let sort = flags.sort.as_deref().filter(|_| at == 0);
        let raw = location == Location::Timers;
        let table = match table(&mut poller, location, sort) {
            // Without raw data there are no timers to add up; the reports exist nonetheless.
            Err(ClientError::Refused { status: 404, .. }) if raw => continue,
            table => table?,
        };
        if let Some(name) = table.unknown_sort() {
            let names = || table.content.columns.iter().map(|column| column.name.as_str());
            let question = suggest::question(name, names());
            let mark = if question.is_empty() { ";" } else { "" };
            return Err(Failure::usage(format!(
                "--sort: there is no column {}{question}{mark} accepted: {}",
                visible(name),
                joined(names(), ", ")
            )));
        }
        let rows = match (flags.limit, at) {
            (Some(limit), _) => usize::from(limit),
            (None, 0) => ROWS.0,
            (None, _) => ROWS.1,
        };
        let layout = Layout::new(&table, columns);
        let left_out = layout.left_out(&table);
        text += &format!("\n{}{left_out}\n", table.caption());
        let lines = table.rows().take(rows).map(|row| layout.row(&table, row));
        for line in std::iter::once(layout.heading(&table)).chain(lines) {
            text += line.trim_end();
            text.push('\n');
        }
    }
    Ok(text)
}

/// Fetches a table, sorted by this column.
fn table(
    poller: &mut Poller,
    location: Location,
    sort: Option<&str>,
) -> Result<Table, ClientError> {
    let mut query = Query { location, ..Query::default() };
    let mut table = Table::sorted_by(sort);
    for again in [sort.is_some(), false] {
        table.take(poller.page(&query)?.tables.pop().unwrap_or_default());
        if !again || table.unknown_sort().is_some() && !table.content.has_more {
            break;
        }
        // Another order may bring other rows to the top.
        query.sort = table.known_sort();
        query.all = table.sorts_locally();
    }
    Ok(table)
}
