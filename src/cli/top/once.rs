//! `pinbad top --once`: the same tables as plain text, for scripts, tickets and dumb terminals.
//!
//! Runs on the calling thread; the first request that fails ends it. Rates are those over the window of the reports, because a
//! single sample has no rate.

use std::io::{self, Write};
use std::time::Duration;

use super::layout::Layout;
use super::location::{Location, Tab};
use super::poll::{Poller, Query};
use super::table::{Content, Table};
use super::{TopError, TopFlags};
use crate::cli::client::{Client, ClientError};
use crate::cli::format::{bytes, clock, grouped, seconds};

/// Rows of the first table and of the others.
const ROWS: (usize, usize) = (20, 5);

/// Prints it.
///
/// # Errors
/// When the daemon does not answer, or nothing can be written.
pub fn print(
    client: Client,
    flags: &TopFlags,
    columns: usize,
    out: &mut impl Write,
) -> Result<(), TopError> {
    let info = client.get("/api/v1/info")?;
    let url = client.url().to_owned();
    let mut poller = Poller::new(client);
    let sample = poller.sample()?;
    let number = |name: &str| info[name].as_f64().unwrap_or_default();
    let (count, covered) = (number("req_count"), number("time_interval"));
    writeln!(out, "pinbad {url}  {} UTC", clock(sample.unix_secs))?;
    writeln!(
        out,
        "{} requests in {}: {}/s, median {}; lost {}, refused {}",
        grouped(count),
        seconds(covered),
        super::cell::short(if covered > 0.0 { count / covered } else { 0.0 }),
        info["req_time_median"]
            .as_f64()
            .map_or_else(|| "-".to_owned(), seconds),
        grouped(sample.counters.lost()),
        grouped(sample.counters.invalid),
    )?;
    writeln!(
        out,
        "in memory {} requests, {} timers, {} words; reports {} of {}",
        grouped(sample.request_rows),
        grouped(sample.timer_rows),
        grouped(sample.words),
        bytes(sample.report_bytes.0),
        bytes(sample.report_bytes.1),
    )?;
    let locations = match &flags.report {
        Some(name) => vec![Location::Report(name.clone())],
        None => vec![
            Location::Tab(Tab::Scripts),
            Location::Tab(Tab::Servers),
            Location::Tab(Tab::Hosts),
            Location::Tab(Tab::Statuses),
            Location::Tab(Tab::Timers),
        ],
    };
    for (at, location) in locations.into_iter().enumerate() {
        let raw = location == Location::Tab(Tab::Timers);
        let table = match table(&mut poller, location, flags, at == 0) {
            // Without raw data there are no timers to add up; the reports are there all the same.
            Err(ClientError::Refused { status: 404, .. }) if raw => continue,
            table => table?,
        };
        if let Some(name) = table.unknown_sort().filter(|_| at == 0) {
            return Err(unknown(name, &table));
        }
        let rows = match (flags.limit, at) {
            (Some(limit), _) => usize::from(limit),
            (None, 0) => ROWS.0,
            (None, _) => ROWS.1,
        };
        writeln!(out)?;
        write_table(out, &table, rows, columns)?;
    }
    Ok(())
}

/// A table, sorted as the flags say if it is the first.
fn table(
    poller: &mut Poller,
    location: Location,
    flags: &TopFlags,
    first: bool,
) -> Result<Table, ClientError> {
    let mut query = Query {
        serial: 0,
        location,
        sort: None,
        all: false,
        tag: None,
        interval: Duration::ZERO,
    };
    let mut ask = |query: &Query| -> Result<Content, ClientError> {
        let mut page = poller.page(query)?;
        Ok(page.tables.pop().unwrap_or_default())
    };
    let content = ask(&query)?;
    let mut table = Table::sorted_by(flags.sort.as_deref().filter(|_| first));
    table.take(content);
    // Asked for in another order, other rows may be the first.
    if first && flags.sort.is_some() && table.unknown_sort().is_none() {
        query.sort = table.known_sort();
        query.all = table.sorts_locally();
        table.take(ask(&query)?);
    }
    Ok(table)
}

fn unknown(name: &str, table: &Table) -> TopError {
    let columns = table.columns().iter();
    let names: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
    TopError::Sort {
        name: name.to_owned(),
        accepted: names.join(", "),
    }
}

fn write_table(out: &mut impl Write, table: &Table, rows: usize, columns: usize) -> io::Result<()> {
    writeln!(out, "{} ({})", table.title(), table.counted())?;
    let layout = Layout::new(table, columns);
    writeln!(out, "{}", layout.heading(table).concat().trim_end())?;
    for row in table.rows().take(rows) {
        writeln!(out, "{}", layout.row(table, row).concat().trim_end())?;
    }
    Ok(())
}
