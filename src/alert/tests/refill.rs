//! Objectives that read their past while seconds come.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Alerts, Gain, Rule, config, rules};
use crate::alert::objective::{Count, Objective};
use crate::alert::refill::{Counts, Past};
use crate::alert::thread::Evaluation;
use crate::clock::{Clock as _, ManualClock};

/// A multiple of all steps.
const START: u64 = 1_699_920_000;

/// A stream of seconds with two requests, each of which comes into history and the queue at once.
#[derive(Debug)]
struct Site {
    alerts: Arc<Alerts>,
    clock: ManualClock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By second.
    history: BTreeMap<u64, Count>,
    is_off: bool,
    /// Whether the report is one that history does not keep.
    is_unkept: bool,
    /// Until then it keeps whole hours only.
    hours_until: u64,
    /// Seconds that come during each read of history, and just before it is seen.
    come_meanwhile: u64,
    come_before: u64,
}

impl Site {
    fn new(text: &str, history: Range<u64>) -> Arc<Self> {
        let site = Self {
            alerts: Arc::new(Alerts::new(&config(""), rules(text))),
            clock: ManualClock::new(history.end * 1_000),
            state: Mutex::default(),
        };
        site.state.lock().history = history.map(|second| (second, counted())).collect();
        Arc::new(site)
    }

    fn evaluation(self: &Arc<Self>) -> Evaluation {
        let past = Arc::new(Of(Arc::clone(self)));
        Evaluation::open(Arc::clone(&self.alerts), 1 << 20, None, &self.clock, past).unwrap()
    }

    fn second_comes(&self, rules: &[Arc<Rule>]) {
        let unix = self.clock.unix_ms() / 1_000;
        self.clock.advance_ms(1_000);
        self.state.lock().history.insert(unix, counted());
        let counts = Objective::each(rules).into_iter().map(|it| (Arc::clone(it), counted()));
        let counts = counts.collect();
        let gain = Gain { unix, secs: 1, covered_secs: 1, counts, ..Gain::default() };
        self.alerts.push(gain);
    }

    fn seconds_come(&self, secs: u64) {
        (0..secs).for_each(|_| self.second_comes(&self.alerts.rules()));
    }

    fn total(&self, at: usize) -> u64 {
        self.alerts.view().objectives[at].count.total
    }
}

#[derive(Debug)]
struct Of(Arc<Site>);

impl Past for Of {
    fn of(&self, _: &Arc<Objective>) -> Option<Option<Counts>> {
        let site = Arc::clone(&self.0);
        if site.state.lock().is_off {
            return None;
        }
        if site.state.lock().is_unkept {
            return Some(None);
        }
        let before = std::mem::take(&mut site.state.lock().come_before);
        site.seconds_come(before);
        let (seen, hours_until) = {
            let state = site.state.lock();
            (state.history.clone(), state.hours_until)
        };
        Some(Some(Box::new(move |span| {
            let meanwhile = site.state.lock().come_meanwhile;
            site.seconds_come(meanwhile);
            let has_minutes = |at: u64| at >= hours_until || at.is_multiple_of(3_600);
            let end =
                if has_minutes(span.end) { span.end } else { span.end.next_multiple_of(3_600) };
            let mut count = Count::default();
            if has_minutes(span.start) {
                seen.range(span.start..end).for_each(|(_, it)| count += it);
            }
            (count, end)
        })))
    }
}

fn counted() -> Count {
    Count { covered_secs: 1, total: 2, ..Count::default() }
}

fn slo(name: &str) -> String {
    format!(
        "[[slo]]\nname = \"{name}\"\nreport = \"report_by_script_name\"\nobjective = 99\nperiod = \"1d\"\n"
    )
}

/// At a start and after a reload, no second is counted twice and none is missed, whenever it comes.
#[test]
fn what_history_has_is_not_counted_live_too() {
    // In the middle of a minute.
    let begin = START - 86_400 + 7_200;
    let site = Site::new(&slo("a"), begin..START + 17);
    let expected = || 2 * (site.clock.unix_ms() / 1_000 - begin);
    let mut evaluation = site.evaluation();
    // Seconds that came since the start are in history already.
    site.seconds_come(5);
    site.state.lock().come_before = 1;
    evaluation.turn(&site.clock);
    // While it is read, further ones come and are evaluated.
    site.state.lock().come_meanwhile = 1;
    evaluation.turn(&site.clock);
    assert!(site.alerts.queue.lock().len() < 10);
    for _ in 0..600 {
        evaluation.turn(&site.clock);
    }
    site.state.lock().come_meanwhile = 0;
    evaluation.turn(&site.clock);
    assert_eq!(site.total(0), expected());

    // A reload, and seconds that the series thread read by the rules before.
    let old = site.alerts.rules();
    site.seconds_come(1);
    site.alerts.replace_rules(rules(&(slo("a") + &slo("b"))));
    site.second_comes(&old);
    site.state.lock().is_off = true;
    evaluation.turn(&site.clock);
    site.second_comes(&old);
    site.state.lock().is_off = false;
    for _ in 0..3 {
        site.seconds_come(1);
        evaluation.turn(&site.clock);
    }
    evaluation.turn(&site.clock);
    evaluation.turn(&site.clock);
    let view = site.alerts.view();
    assert_eq!(view.objectives[0].count, view.objectives[1].count);
    assert_eq!((site.total(0), site.total(1)), (expected(), expected()));
}

/// Objectives get their past when history is on again.
#[test]
fn a_past_that_cannot_be_read_at_the_start_is_read_later() {
    let site = Site::new(&slo("a"), START - 300_000..START);
    site.state.lock().is_off = true;
    let mut evaluation = site.evaluation();
    site.seconds_come(90);
    evaluation.turn(&site.clock);
    assert_eq!(site.total(0), 180, "what is counted live");
    site.state.lock().is_off = false;
    site.seconds_come(1);
    evaluation.turn(&site.clock);
    let view = site.alerts.view();
    let objective = &view.objectives[0];
    // Up to a day, which begins on an hour.
    assert_eq!(objective.count.total, 2 * (82_800 + 91));
    assert_eq!(objective.count.covered_secs, 82_800 + 91);
    // The window of three days is longer than the period.
    assert!(objective.burns.iter().all(|it| it.holds.is_some()), "{:?}", objective.burns);
}

/// The period begins on an hour, as live; so do the steps of reading where only hours are kept.
#[test]
fn a_past_of_hours_is_read_whole() {
    const DAY: u64 = 86_400;
    let now = START + 4 * 3_600 + 1_036;
    for hours_until in [0, START - 3 * DAY, START - DAY, START] {
        let site = Site::new(&slo("a").replace("1d", "4d"), now - 5 * DAY..now);
        site.state.lock().hours_until = hours_until;
        let mut evaluation = site.evaluation();
        site.seconds_come(1);
        evaluation.turn(&site.clock);
        assert_eq!(site.total(0), 2 * (4 * DAY - 3_600 + 1_037), "hours until {hours_until}");
    }
}

/// What was counted live is all there is of a report that history does not keep.
#[test]
fn without_a_past_what_was_counted_stays() {
    let site = Site::new(&slo("a"), START..START);
    site.state.lock().is_off = true;
    site.state.lock().is_unkept = true;
    let mut evaluation = site.evaluation();
    site.seconds_come(60);
    evaluation.turn(&site.clock);
    site.state.lock().is_off = false;
    for _ in 0..2 {
        site.seconds_come(1);
        evaluation.turn(&site.clock);
    }
    assert_eq!(site.total(0), 2 * 62);
}
