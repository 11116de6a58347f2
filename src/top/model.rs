//! What is on the screen, and what keys do to it.
//!
//! The five things to know: which tab, what was opened from it (a stack, the last on top), the tables of each with their sort,
//! filter and selection, how the daemon does ([`Pulse`]), and whether it is there. News change the second half, keys the first;
//! [`Model::wish`] says what to ask the daemon for. Pure: no terminal, no thread, no clock. What is opened is bounded by
//! `OPENED_MAX`.

use std::time::Duration;

use super::grid::{Grid, Target};
use super::poll::{News, Page, Place, Wish};
use super::pulse::Pulse;
use super::views::Tab;
use crate::client::shown::visible;

/// How deep one can go.
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
    /// Another view, by its place.
    Tab(usize),
    /// The view so many places further right, counted round.
    Turn(isize),
    /// Move the selection by so many rows.
    Move(isize),
    /// Move the selection by so many screens.
    Page(isize),
    /// Sort by the column so many places further right.
    Sort(isize),
    /// Turn the order round.
    Reverse,
    /// Begin to type a filter.
    Filter,
    /// Open the selected row.
    Open,
    /// Back to where one was.
    Back,
    /// The other table, or the next view where there is only one.
    Other,
    /// Add timers up by the next tag.
    Group,
    /// Stand still, or go on.
    Pause,
    /// Ask half, or twice, as often.
    Slower(bool),
    /// A character of a filter.
    Type(char),
    /// Take the last one away.
    Erase,
}

/// One place with its tables.
#[derive(Debug, Clone)]
pub struct Screen {
    /// What it shows.
    pub place: Place,
    /// The lines before the tables.
    pub about: Vec<(String, String)>,
    /// The tables.
    pub grids: Vec<Grid>,
    /// The table that keys move in.
    pub focus: usize,
    /// Why it cannot be shown.
    pub refused: Option<String>,
    /// Whether something has come.
    pub loaded: bool,
    serial: u64,
    /// The column to sort by, as it was asked for at the start.
    sort: Option<String>,
    /// The tag by which timers are added up.
    tag: Option<String>,
}

impl Screen {
    fn new(place: Place, serial: u64) -> Self {
        Self {
            place,
            about: Vec::new(),
            grids: Vec::new(),
            focus: 0,
            refused: None,
            loaded: false,
            serial,
            sort: None,
            tag: None,
        }
    }

    /// The table that keys move in.
    #[must_use]
    pub fn grid(&self) -> Option<&Grid> {
        self.grids.get(self.focus)
    }

    fn take(&mut self, page: Page) {
        self.loaded = true;
        self.refused = None;
        self.about = page.about;
        self.grids.truncate(page.tables.len());
        for (at, content) in page.tables.into_iter().enumerate() {
            if at == self.grids.len() {
                let sort = self.sort.as_deref().filter(|_| at == 0);
                self.grids.push(Grid::sorted_by(sort));
            }
            self.grids[at].take(content);
        }
        self.focus = self.focus.min(self.grids.len().saturating_sub(1));
    }

    /// What it is.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.place {
            Place::Tab(tab) => tab.title().to_owned(),
            Place::Report(name) => format!("report {}", visible(name)),
            Place::Requests(conditions) => {
                let pairs = conditions
                    .iter()
                    .map(|(name, value)| format!("{name} = {}", visible(value)));
                visible(&pairs.collect::<Vec<_>>().join(", ")).into_owned()
            }
            Place::Request(id) => format!("request {id}"),
        }
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

/// Everything.
#[derive(Debug)]
pub struct Model {
    /// Where the daemon is.
    pub url: String,
    /// How it does.
    pub pulse: Pulse,
    /// Whether it is there.
    pub connection: Connection,
    /// Which tab.
    pub tab: usize,
    /// Whether the keys are shown.
    pub help: bool,
    /// Whether a filter is being typed.
    pub typing: bool,
    /// Whether it stands still.
    pub paused: bool,
    /// Time between two polls.
    pub interval: Duration,
    /// Rows of the table that were drawn last.
    pub page_rows: usize,
    tabs: Vec<Screen>,
    opened: Vec<Screen>,
    serial: u64,
}

impl Model {
    /// At the first tab, or at a report; sorted by this column.
    #[must_use]
    pub fn new(url: &str, report: Option<&str>, sort: Option<&str>, interval: Duration) -> Self {
        let screen = |(at, tab): (usize, &Tab)| Screen::new(Place::Tab(*tab), at as u64);
        let mut model = Self {
            url: url.to_owned(),
            pulse: Pulse::default(),
            connection: Connection::Waiting,
            tab: 0,
            help: false,
            typing: false,
            paused: false,
            interval,
            page_rows: 10,
            tabs: Tab::ALL.iter().enumerate().map(screen).collect(),
            opened: Vec::new(),
            serial: Tab::ALL.len() as u64,
        };
        if let Some(report) = report {
            model.tab = Tab::ALL.len() - 1;
            model.open(Place::Report(report.to_owned()));
        }
        model.screen_mut().sort = sort.map(str::to_owned);
        model
    }

    /// What is shown.
    #[must_use]
    pub fn screen(&self) -> &Screen {
        self.opened.last().unwrap_or(&self.tabs[self.tab])
    }

    /// The same, to be changed.
    pub fn screen_mut(&mut self) -> &mut Screen {
        self.opened.last_mut().unwrap_or(&mut self.tabs[self.tab])
    }

    /// The names of what was opened, from the tab on.
    #[must_use]
    pub fn path(&self) -> Vec<String> {
        let tab = std::iter::once(&self.tabs[self.tab]);
        tab.chain(&self.opened).map(Screen::name).collect()
    }

    /// What to ask the daemon for.
    #[must_use]
    pub fn wish(&self) -> Wish {
        let screen = self.screen();
        let grid = screen.grids.first();
        Wish {
            serial: screen.serial,
            place: screen.place.clone(),
            sort: grid.and_then(Grid::known_sort),
            all: grid.is_some_and(|grid| grid.sorts_here() || !grid.filter().is_empty()),
            tag: screen.tag.clone(),
            interval: self.interval,
        }
    }

    /// What the daemon said.
    pub fn take(&mut self, news: News) {
        match news {
            News::Past(requests, latency) => self.pulse.begin(requests, latency),
            News::Lost(error) => {
                self.connection = Connection::Lost(visible(&error.to_string()).into_owned());
                self.pulse.miss();
            }
            News::Look(look, since) => {
                self.connection = Connection::There;
                if !self.paused {
                    self.pulse.take(look, since);
                }
            }
            News::Page(serial, page) => {
                self.connection = Connection::There;
                let paused = self.paused;
                if let Some(screen) = self.of(serial)
                    && !(paused && screen.loaded)
                {
                    screen.take(page);
                }
            }
            News::Refused(serial, detail) => {
                self.connection = Connection::There;
                if let Some(screen) = self.of(serial) {
                    screen.refused = Some(detail);
                }
            }
        }
    }

    fn of(&mut self, serial: u64) -> Option<&mut Screen> {
        let mut all = self.tabs.iter_mut().chain(&mut self.opened);
        all.find(|screen| screen.serial == serial)
    }

    /// Does what a key means; false: the end.
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
                let screen = self.screen_mut();
                if screen.grids.len() > 1 {
                    screen.focus = (screen.focus + 1) % screen.grids.len();
                } else {
                    return self.act(Action::Turn(1));
                }
            }
            Action::Group => self.group(),
            Action::Filter => self.typing = self.screen().grid().is_some(),
            in_table => self.act_in_table(in_table),
        }
        true
    }

    fn act_in_table(&mut self, action: Action) {
        let rows = isize::try_from(self.page_rows.max(1)).unwrap_or(1);
        let screen = self.screen_mut();
        let Some(grid) = screen.grids.get_mut(screen.focus) else {
            return;
        };
        match action {
            Action::Move(by) => grid.move_selection(by),
            Action::Page(by) => grid.move_selection(by.saturating_mul(rows)),
            Action::Sort(by) => grid.move_sort(by),
            Action::Reverse => grid.reverse(),
            Action::Type(c) if grid.filter().chars().count() < FILTER_MAX => {
                grid.set_filter(format!("{}{c}", grid.filter()));
            }
            Action::Erase => {
                let mut filter = grid.filter().to_owned();
                filter.pop();
                grid.set_filter(filter);
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

    /// Away with the help, then with the filter, then with what was opened.
    fn back(&mut self) {
        let typing = std::mem::take(&mut self.typing);
        if std::mem::take(&mut self.help) {
            return;
        }
        let screen = self.screen_mut();
        if let Some(grid) = screen.grids.get_mut(screen.focus)
            && !grid.filter().is_empty()
        {
            grid.set_filter(String::new());
        } else if !typing {
            self.opened.pop();
        }
    }

    fn open_selected(&mut self) {
        if std::mem::take(&mut self.typing) || std::mem::take(&mut self.help) {
            return;
        }
        let row = self.screen().grid().and_then(Grid::selected_row);
        let place = match row.map(|row| &row.target) {
            None | Some(Target::Nothing) => return,
            Some(Target::Requests(conditions)) => Place::Requests(conditions.clone()),
            Some(Target::Request(id)) => Place::Request(*id),
            Some(Target::Report(name)) => Place::Report(name.clone()),
        };
        self.open(place);
    }

    fn open(&mut self, place: Place) {
        if self.opened.len() < OPENED_MAX {
            self.opened.push(Screen::new(place, self.serial));
            self.serial += 1;
        }
    }

    /// All tags together, then by one after the other.
    fn group(&mut self) {
        let screen = self.screen_mut();
        let with_choices = screen.grids.iter().find(|grid| !grid.choices().is_empty());
        let choices = with_choices.map_or(&[][..], Grid::choices);
        let next = match &screen.tag {
            None => choices.first(),
            Some(tag) => {
                let at = choices.iter().position(|choice| choice == tag);
                at.and_then(|at| choices.get(at + 1))
            }
        };
        screen.tag = next.cloned();
    }
}

#[cfg(test)]
mod tests;
