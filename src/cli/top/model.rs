//! The state of the screen, and what keys do to it.
//!
//! The tab, the views opened from it (a stack), the tables of each view with their sort, filter and selection, the daemon's
//! [`Stats`], and the connection. Keys change the first of these, updates from the poller the others; [`Model::query`] is what
//! to poll next. Pure: no terminal, no thread, no clock. At most `OPENED_MAX` views are open.

use std::time::Duration;

use super::location::{Location, Tab};
use super::poll::{Page, Query, Update};
use super::stats::Stats;
use super::table::Table;
use crate::cli::format::visible;

/// Most views that are open on top of a tab.
const OPENED_MAX: usize = 16;
/// Longest filter, characters.
const FILTER_MAX: usize = 100;
/// Shortest and longest time between two polls.
pub const INTERVALS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(3600));

/// What a key means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// End the program.
    Quit,
    /// Show or hide the keys.
    Help,
    /// Another tab, by its number.
    Tab(usize),
    /// So many tabs to the right, wrapping.
    Turn(isize),
    /// Move the selection by so many rows.
    Move(isize),
    /// Move the selection by so many screens.
    Page(isize),
    /// Sort by the column so many places further right.
    Sort(isize),
    /// Reverse the order.
    Reverse,
    /// Begin to type a filter.
    Filter,
    /// Open the selected row.
    Open,
    /// Close the opened view.
    Back,
    /// The other table, or the next tab where there is only one.
    Other,
    /// Group timers by the next tag.
    Group,
    /// Pause, or go on.
    Pause,
    /// Poll half, or twice, as often.
    Slower(bool),
    /// A character of a filter.
    Type(char),
    /// Delete the last character.
    Erase,
}

/// A tab or an opened view, with its tables.
#[derive(Debug, Clone)]
pub struct View {
    /// What it shows.
    pub location: Location,
    /// Lines above the tables.
    pub about: Vec<(String, String)>,
    /// The tables.
    pub tables: Vec<Table>,
    /// The table that keys move in.
    pub focus: usize,
    /// Why it cannot be shown.
    pub refused: Option<String>,
    /// Whether an update has come.
    pub loaded: bool,
    serial: u64,
    /// The column to sort by, as given at the start.
    sort: Option<String>,
    /// The tag that timers are grouped by.
    tag: Option<String>,
}

impl View {
    fn new(location: Location, serial: u64) -> Self {
        Self {
            location,
            about: Vec::new(),
            tables: Vec::new(),
            focus: 0,
            refused: None,
            loaded: false,
            serial,
            sort: None,
            tag: None,
        }
    }

    /// The table that keys move in.
    pub fn table(&self) -> Option<&Table> {
        self.tables.get(self.focus)
    }

    fn take(&mut self, page: Page) {
        self.loaded = true;
        self.refused = None;
        self.about = page.about;
        self.tables.truncate(page.tables.len());
        for (at, content) in page.tables.into_iter().enumerate() {
            if at == self.tables.len() {
                let sort = self.sort.as_deref().filter(|_| at == 0);
                self.tables.push(Table::sorted_by(sort));
            }
            self.tables[at].take(content);
        }
        self.focus = self.focus.min(self.tables.len().saturating_sub(1));
    }
}

/// Whether the daemon is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connection {
    /// Nobody has answered yet.
    Waiting,
    /// It is.
    There,
    /// It is not, for this reason.
    Lost(String),
}

/// The whole state.
#[derive(Debug)]
pub struct Model {
    /// Where the daemon is.
    pub url: String,
    /// Its counters and rates.
    pub stats: Stats,
    /// Whether it is there.
    pub connection: Connection,
    /// Which tab.
    pub tab: usize,
    /// Whether the keys are shown.
    pub help: bool,
    /// Whether a filter is being typed.
    pub typing: bool,
    /// Whether updates are held back.
    pub paused: bool,
    /// Time between two polls.
    pub interval: Duration,
    /// Rows of the table that were drawn last.
    pub page_rows: usize,
    tabs: Vec<View>,
    opened: Vec<View>,
    serial: u64,
}

impl Model {
    /// At the first tab, or at a report; sorted by this column.
    pub fn new(url: &str, report: Option<&str>, sort: Option<&str>, interval: Duration) -> Self {
        let view = |(at, tab): (usize, &Tab)| View::new(Location::Tab(*tab), at as u64);
        let mut model = Self {
            url: url.to_owned(),
            stats: Stats::default(),
            connection: Connection::Waiting,
            tab: 0,
            help: false,
            typing: false,
            paused: false,
            interval,
            page_rows: 10,
            tabs: Tab::ALL.iter().enumerate().map(view).collect(),
            opened: Vec::new(),
            serial: Tab::ALL.len() as u64,
        };
        if let Some(report) = report {
            model.tab = Tab::ALL.len() - 1;
            model.open(Location::Report(report.to_owned()));
        }
        model.view_mut().sort = sort.map(str::to_owned);
        model
    }

    /// The current view.
    pub fn view(&self) -> &View {
        self.opened.last().unwrap_or(&self.tabs[self.tab])
    }

    /// The current view, to be changed.
    pub fn view_mut(&mut self) -> &mut View {
        self.opened.last_mut().unwrap_or(&mut self.tabs[self.tab])
    }

    /// The names of what was opened, from the tab on.
    pub fn path(&self) -> Vec<String> {
        let tab = std::iter::once(&self.tabs[self.tab]);
        tab.chain(&self.opened)
            .map(|view| view.location.name())
            .collect()
    }

    /// What to poll next.
    pub fn query(&self) -> Query {
        let view = self.view();
        let table = view.tables.first();
        Query {
            serial: view.serial,
            location: view.location.clone(),
            sort: table.and_then(Table::known_sort),
            all: table.is_some_and(|table| table.sorts_locally() || !table.filter().is_empty()),
            tag: view.tag.clone(),
            interval: self.interval,
        }
    }

    /// An update from the poller.
    pub fn take(&mut self, updates: Update) {
        match updates {
            Update::Past(requests, latency) => self.stats.prepend(requests, latency),
            Update::Lost(error) => {
                self.connection = Connection::Lost(visible(&error.to_string()).into_owned());
                self.stats.add_gap();
            }
            Update::Sample(sample, since) => {
                self.connection = Connection::There;
                if !self.paused {
                    self.stats.take(sample, since);
                }
            }
            Update::Page(serial, page) => {
                self.connection = Connection::There;
                let paused = self.paused;
                if let Some(view) = self.of(serial)
                    && !(paused && view.loaded)
                {
                    view.take(page);
                }
            }
            Update::Refused(serial, detail) => {
                self.connection = Connection::There;
                if let Some(view) = self.of(serial) {
                    view.refused = Some(detail);
                }
            }
        }
    }

    fn of(&mut self, serial: u64) -> Option<&mut View> {
        let mut all = self.tabs.iter_mut().chain(&mut self.opened);
        all.find(|view| view.serial == serial)
    }

    /// Carries out an action; false: quit.
    pub fn act(&mut self, action: Action) -> bool {
        match action {
            Action::Quit => return false,
            Action::Help => self.help = !self.help,
            Action::Tab(at) => self.turn_to(at),
            Action::Turn(by) => {
                let count = self.tabs.len() as isize;
                self.turn_to((self.tab as isize + by).rem_euclid(count) as usize);
            }
            Action::Pause => self.paused = !self.paused,
            Action::Slower(slower) => {
                let interval = if slower {
                    self.interval * 2
                } else {
                    self.interval / 2
                };
                self.interval = interval.clamp(INTERVALS.0, INTERVALS.1);
            }
            Action::Back => self.back(),
            Action::Open => self.open_selected(),
            Action::Other => {
                let view = self.view_mut();
                if view.tables.len() > 1 {
                    view.focus = (view.focus + 1) % view.tables.len();
                } else {
                    return self.act(Action::Turn(1));
                }
            }
            Action::Group => self.group(),
            Action::Filter => self.typing = self.view().table().is_some(),
            in_table => self.act_in_table(in_table),
        }
        true
    }

    fn act_in_table(&mut self, action: Action) {
        let rows = isize::try_from(self.page_rows.max(1)).unwrap_or(1);
        let view = self.view_mut();
        let Some(table) = view.tables.get_mut(view.focus) else {
            return;
        };
        match action {
            Action::Move(by) => table.move_selection(by),
            Action::Page(by) => table.move_selection(by.saturating_mul(rows)),
            Action::Sort(by) => table.move_sort(by),
            Action::Reverse => table.reverse(),
            Action::Type(c) if table.filter().chars().count() < FILTER_MAX => {
                table.set_filter(format!("{}{c}", table.filter()));
            }
            Action::Erase => {
                let mut filter = table.filter().to_owned();
                filter.pop();
                table.set_filter(filter);
            }
            _ => {}
        }
    }

    fn turn_to(&mut self, at: usize) {
        if at < self.tabs.len() {
            self.tab = at;
            self.opened.clear();
            self.typing = false;
            self.help = false;
        }
    }

    /// Closes the help, then clears the filter, then closes the view.
    fn back(&mut self) {
        let typing = std::mem::take(&mut self.typing);
        if std::mem::take(&mut self.help) {
            return;
        }
        let view = self.view_mut();
        if let Some(table) = view.tables.get_mut(view.focus)
            && !table.filter().is_empty()
        {
            table.set_filter(String::new());
        } else if !typing {
            self.opened.pop();
        }
    }

    fn open_selected(&mut self) {
        if std::mem::take(&mut self.typing) || std::mem::take(&mut self.help) {
            return;
        }
        let row = self.view().table().and_then(Table::selected_row);
        if let Some(location) = row.and_then(|row| row.target.clone()) {
            self.open(location);
        }
    }

    fn open(&mut self, location: Location) {
        if self.opened.len() < OPENED_MAX {
            self.opened.push(View::new(location, self.serial));
            self.serial += 1;
        }
    }

    /// All tags together, then by one after the other.
    fn group(&mut self) {
        let view = self.view_mut();
        let with_choices = view.tables.iter().find(|table| !table.choices().is_empty());
        let choices = with_choices.map_or(&[][..], Table::choices);
        let next = match &view.tag {
            None => choices.first(),
            Some(tag) => {
                let at = choices.iter().position(|choice| choice == tag);
                at.and_then(|at| choices.get(at + 1))
            }
        };
        view.tag = next.cloned();
    }
}

#[cfg(test)]
mod tests;
