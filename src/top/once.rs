//! `pinbad top --once`: the same tables as plain text, for scripts, tickets and terminals that can nothing else.
//!
//! Asks on the calling thread, a few questions one after the other; the first that fails is the end. Rates are those over the
//! window of the reports, because one look has no rate.

use std::io::{self, Write};
use std::time::Duration;

use super::grid::{Content, Grid};
use super::layout::Layout;
use super::poll::{Place, Poller, Wish};
use super::views::{Tab, clock};
use super::{TopError, TopFlags};
use crate::client::shown::{bytes, grouped, seconds};
use crate::client::{Client, ClientError};

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
    let look = poller.look()?;
    let number = |name: &str| info[name].as_f64().unwrap_or_default();
    let (count, covered) = (number("req_count"), number("time_interval"));
    writeln!(out, "pinbad {url}  {} UTC", clock(look.unix_secs))?;
    writeln!(
        out,
        "{} requests in {}: {}/s, median {}; lost {}, refused {}",
        grouped(count),
        seconds(covered),
        super::cell::short(if covered > 0.0 { count / covered } else { 0.0 }),
        info["req_time_median"]
            .as_f64()
            .map_or_else(|| "-".to_owned(), seconds),
        grouped(look.totals.lost()),
        grouped(look.totals.invalid),
    )?;
    writeln!(
        out,
        "in memory {} requests, {} timers, {} words; reports {} of {}",
        grouped(look.request_rows),
        grouped(look.timer_rows),
        grouped(look.words),
        bytes(look.report_bytes.0),
        bytes(look.report_bytes.1),
    )?;
    let places = match &flags.report {
        Some(name) => vec![Place::Report(name.clone())],
        None => vec![
            Place::Tab(Tab::Scripts),
            Place::Tab(Tab::Servers),
            Place::Tab(Tab::Hosts),
            Place::Tab(Tab::Statuses),
            Place::Tab(Tab::Timers),
        ],
    };
    for (at, place) in places.into_iter().enumerate() {
        let raw = place == Place::Tab(Tab::Timers);
        let table = match table(&mut poller, place, flags, at == 0) {
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
    place: Place,
    flags: &TopFlags,
    first: bool,
) -> Result<Grid, ClientError> {
    let mut wish = Wish {
        serial: 0,
        place,
        sort: None,
        all: false,
        tag: None,
        interval: Duration::ZERO,
    };
    let mut ask = |wish: &Wish| -> Result<Content, ClientError> {
        let mut page = poller.page(wish)?;
        Ok(page.tables.pop().unwrap_or_default())
    };
    let content = ask(&wish)?;
    let mut grid = Grid::sorted_by(flags.sort.as_deref().filter(|_| first));
    grid.take(content);
    // Asked for in another order, other rows may be the first.
    if first && flags.sort.is_some() && grid.unknown_sort().is_none() {
        wish.sort = grid.known_sort();
        wish.all = grid.sorts_here();
        grid.take(ask(&wish)?);
    }
    Ok(grid)
}

fn unknown(name: &str, grid: &Grid) -> TopError {
    let columns = grid.columns().iter();
    let names: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
    TopError::Sort {
        name: name.to_owned(),
        accepted: names.join(", "),
    }
}

fn write_table(out: &mut impl Write, grid: &Grid, rows: usize, columns: usize) -> io::Result<()> {
    writeln!(out, "{} ({})", grid.title(), grid.counted())?;
    let layout = Layout::new(grid, columns);
    writeln!(out, "{}", layout.heading(grid).concat().trim_end())?;
    for row in grid.rows().take(rows) {
        writeln!(out, "{}", layout.row(grid, row).concat().trim_end())?;
    }
    Ok(())
}
