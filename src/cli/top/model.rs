//! The state of the screen, and how keys change it.
//!
//! The tab, the views opened from it (a stack), the tables of each view with sort, filter and
//! selection, the daemon's [`Stats`], and the connection. Keys change the former, updates from the
//! poller the latter two; [`Model::query`] is the next poll. Pure: no terminal, no thread, no
//! clock. At most `OPENED_MAX` views are open.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::location::{Location, TABS};
use super::poll::{Page, Query, Update};
use super::stats::Stats;
use super::table::Table;
use crate::cli::format::visible;

/// Most views open on top of a tab.
const OPENED_MAX: usize = 16;
/// Longest filter, in characters.
const FILTER_MAX: usize = 100;
/// Shortest and longest time between two polls.
pub const INTERVALS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(3600));

/// A tab or an opened view, with its tables.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The content to show.
    pub location: Location,
    /// Lines above the tables.
    pub about: Vec<(&'static str, String)>,
    /// The tables.
    pub tables: Vec<Table>,
    /// The table in focus.
    pub focus: usize,
    /// Why it cannot be shown.
    pub refused: Option<String>,
    /// Whether an update has arrived.
    pub loaded: bool,
    serial: u64,
    /// The column to sort by, as given at the start.
    sort: Option<String>,
    /// The tag that timers are grouped by.
    tag: Option<String>,
}

impl View {
    fn new(location: Location, serial: u64) -> Self {
        Self { location, serial, ..Self::default() }
    }

    /// The table in focus.
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

/// The whole state.
#[derive(Debug, Default)]
pub struct Model {
    /// The URL of the daemon.
    pub url: String,
    /// Why the daemon does not answer, if so.
    pub lost: Option<String>,
    /// The current tab.
    pub tab: usize,
    /// Whether the keys are shown.
    pub help: bool,
    /// Whether a filter is being typed.
    pub typing: bool,
    /// What is shown while updates are held back.
    pub paused: Option<Stats>,
    /// Time between two polls.
    pub interval: Duration,
    /// Rows of the table drawn last.
    pub page_rows: usize,
    stats: Stats,
    tabs: Vec<View>,
    opened: Vec<View>,
    serial: u64,
}

impl Model {
    /// Starts at the first tab, or at a report; sorted by this column.
    pub fn new(url: &str, report: Option<&str>, sort: Option<&str>, interval: Duration) -> Self {
        let view = |(location, serial): (&Location, u64)| View::new(location.clone(), serial);
        let mut model = Self {
            url: url.to_owned(),
            interval,
            page_rows: 10,
            tabs: TABS.iter().zip(0..).map(view).collect(),
            serial: TABS.len() as u64,
            ..Self::default()
        };
        if let Some(report) = report {
            model.tab = TABS.len() - 1;
            model.open(Location::Report(report.to_owned()));
        }
        model.view_mut().sort = sort.map(str::to_owned);
        model
    }

    /// The current view.
    pub fn view(&self) -> &View {
        self.opened.last().unwrap_or(&self.tabs[self.tab])
    }

    /// The current view, mutable.
    pub fn view_mut(&mut self) -> &mut View {
        self.opened.last_mut().unwrap_or(&mut self.tabs[self.tab])
    }

    /// The daemon's counters and rates, as shown.
    pub fn stats(&self) -> &Stats {
        self.paused.as_ref().unwrap_or(&self.stats)
    }

    /// The names of the open views, starting with the tab.
    pub fn path(&self) -> Vec<String> {
        let tab = std::iter::once(&self.tabs[self.tab]);
        tab.chain(&self.opened).map(|view| view.location.title()).collect()
    }

    /// The next poll.
    pub fn query(&self) -> Query {
        let view = self.view();
        let table = view.tables.first();
        Query {
            serial: view.serial,
            location: view.location.clone(),
            sort: table.and_then(Table::known_sort),
            all: table.is_some_and(|table| table.sorts_locally() || !table.filter.is_empty()),
            tag: view.tag.clone(),
            interval: self.interval,
        }
    }

    /// Applies an update from the poller.
    pub fn take(&mut self, updates: Update) {
        self.lost = None;
        let paused = self.paused.is_some();
        match updates {
            Update::Lost(error) => self.lost = Some(visible(&error.to_string()).into_owned()),
            // In a pause too: rates are between two polls.
            Update::Sample(sample, since) => self.stats.take(sample, since),
            Update::Page(serial, page) => match (self.of(serial), page) {
                (Some(view), Ok(page)) if !(paused && view.loaded) => view.take(page),
                (Some(view), Err(why)) => view.refused = Some(why),
                _ => {}
            },
        }
    }

    fn of(&mut self, serial: u64) -> Option<&mut View> {
        let mut all = self.tabs.iter_mut().chain(&mut self.opened);
        all.find(|view| view.serial == serial)
    }

    /// Handles a key; returns false to quit.
    pub fn press(&mut self, key: KeyEvent) -> bool {
        if key.kind == KeyEventKind::Release {
            return true;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return false,
            KeyCode::Char('h') if control => self.erase(),
            _ if control => {}
            KeyCode::Up => self.in_table(|table| table.move_selection(-1)),
            KeyCode::Down => self.in_table(|table| table.move_selection(1)),
            KeyCode::PageUp => self.turn_page(-1),
            KeyCode::PageDown => self.turn_page(1),
            KeyCode::Home => self.in_table(|table| table.move_selection(isize::MIN)),
            KeyCode::End => self.in_table(|table| table.move_selection(isize::MAX)),
            KeyCode::Enter => self.open_selected(),
            KeyCode::Esc => self.back(),
            KeyCode::Char(c) if self.typing => self.edit_filter(|filter| {
                if !c.is_control() && filter.chars().count() < FILTER_MAX {
                    filter.push(c);
                }
            }),
            KeyCode::Backspace if self.typing => self.erase(),
            _ if self.typing => {}
            KeyCode::Backspace => self.back(),
            KeyCode::Tab => self.other_table(),
            KeyCode::Left | KeyCode::BackTab => self.turn(-1),
            KeyCode::Right => self.turn(1),
            KeyCode::Char('q' | 'Q') => return false,
            KeyCode::Char(c) => self.press_letter(c),
            _ => {}
        }
        true
    }

    fn press_letter(&mut self, c: char) {
        match c {
            '?' | 'h' => self.help = !self.help,
            '1'..='9' => self.turn_to(c as usize - '1' as usize),
            'k' => self.in_table(|table| table.move_selection(-1)),
            'j' => self.in_table(|table| table.move_selection(1)),
            'g' => self.in_table(|table| table.move_selection(isize::MIN)),
            'G' => self.in_table(|table| table.move_selection(isize::MAX)),
            '<' | ',' => self.in_table(|table| table.move_sort(-1)),
            '>' | '.' => self.in_table(|table| table.move_sort(1)),
            'r' => self.in_table(Table::reverse),
            '/' => self.typing = self.view().table().is_some(),
            't' => self.group(),
            'p' | ' ' => self.paused = self.paused.is_none().then(|| self.stats.clone()),
            '+' | '=' => self.poll_every(self.interval / 2),
            '-' | '_' => self.poll_every(self.interval * 2),
            _ => {}
        }
    }

    fn poll_every(&mut self, interval: Duration) {
        self.interval = interval.clamp(INTERVALS.0, INTERVALS.1);
    }

    /// Changes the table in focus, if there is one.
    fn in_table(&mut self, change: impl FnOnce(&mut Table)) {
        let view = self.view_mut();
        if let Some(table) = view.tables.get_mut(view.focus) {
            change(table);
        }
    }

    fn edit_filter(&mut self, edit: impl FnOnce(&mut String)) {
        if self.typing {
            self.in_table(|table| {
                let mut filter = table.filter.clone();
                edit(&mut filter);
                table.set_filter(filter);
            });
        }
    }

    fn erase(&mut self) {
        self.edit_filter(|filter| {
            filter.pop();
        });
    }

    fn turn_page(&mut self, by: isize) {
        let rows = self.page_rows.max(1).cast_signed();
        self.in_table(|table| table.move_selection(by.saturating_mul(rows)));
    }

    /// Moves this many tabs to the right, wrapping.
    fn turn(&mut self, by: isize) {
        let count = self.tabs.len().cast_signed();
        let to = (self.tab.cast_signed() + by).rem_euclid(count);
        self.turn_to(to.cast_unsigned());
    }

    fn turn_to(&mut self, at: usize) {
        if at < self.tabs.len() {
            self.tab = at;
            self.opened.clear();
            self.typing = false;
            self.help = false;
        }
    }

    /// Moves to the other table; to the next tab if there is none, unless a row is open, whose
    /// tables may be on their way.
    fn other_table(&mut self) {
        let view = self.view_mut();
        if view.tables.len() > 1 {
            view.focus = (view.focus + 1) % view.tables.len();
        } else if self.opened.is_empty() {
            self.turn(1);
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
            && !table.filter.is_empty()
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

    /// Cycles through grouping by all tags together, then by each tag.
    fn group(&mut self) {
        let view = self.view_mut();
        let mut choices = view.tables.iter().map(|table| &table.content.choices[..]);
        let choices = choices.find(|choices| !choices.is_empty()).unwrap_or_default();
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
