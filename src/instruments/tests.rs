//! Events and sums of threads that are read while they are written.

use std::sync::atomic::{AtomicBool, Ordering};

use super::event_history::{Span, events};
use super::registry::{CLASSES_SET, Kind, Settings, registry, start};
use super::summary::{self, Summary};
use super::sums;
use super::{Foreground, Instrument, digests};

static OUTER: Instrument = Instrument::new("stage/unit/outer");
static INNER: Instrument = Instrument::wait("wait/io/file/unit/inner", "write");
static TAKEN: Instrument = Instrument::wait("wait/io/file/unit/taken", "write");
static BUSY: Instrument = Instrument::new("stage/unit/busy");
static ASKED: Instrument = Instrument::new("statement/unit/asked");

/// Starts the registry of this process: tests share it, and each switches only its own instruments.
fn begin() {
    let settings = Settings { enabled: vec!["%".to_owned()], classes_max: [100; CLASSES_SET] };
    start(&settings, &[&OUTER, &INNER, &TAKEN, &BUSY, &ASKED]);
}

#[test]
fn events_nest_are_seen_while_they_go_on_and_end_in_the_histories() {
    begin();
    let at = |it: &Instrument| it.place();
    let of = |kind, span, it: &'static Instrument| {
        let all = events(kind, span).into_iter().map(|(event, _)| event);
        let own = all.filter(move |event| Some(event.place) == at(it));
        own.last()
    };
    let mut outer = OUTER.begin();
    outer.work(1, 4);
    let mut inner = INNER.begin();
    inner.bytes(7);
    let stage = of(Kind::Stages, Span::Current, &OUTER).unwrap();
    assert_eq!((stage.end_id, stage.end), (None, None));
    assert_eq!(stage.numbers, [Some(1), Some(4)]);
    assert!(stage.start.is_some());
    let wait = of(Kind::Waits, Span::Current, &INNER).unwrap();
    assert_eq!(wait.nesting, Some((stage.id, Kind::Stages)));
    assert_eq!(of(Kind::Waits, Span::History, &INNER), None);
    drop(inner);
    drop(outer);
    let wait = of(Kind::Waits, Span::History, &INNER).unwrap();
    assert_eq!(wait.numbers, [Some(7), None]);
    assert!(wait.end >= wait.start && wait.end.is_some());
    let stage = of(Kind::Stages, Span::History, &OUTER).unwrap();
    assert_eq!(stage.end_id, Some(wait.id));
    assert!(of(Kind::Stages, Span::HistoryLong, &OUTER).is_some());
    assert_eq!(of(Kind::Stages, Span::Current, &OUTER), Some(stage));
    // An untimed event is an event nevertheless.
    registry().unwrap().switch(OUTER.name, true, false);
    drop(OUTER.begin());
    let untimed = of(Kind::Stages, Span::History, &OUTER).unwrap();
    assert_eq!((untimed.start, untimed.end), (None, None));
    registry().unwrap().switch(OUTER.name, false, false);
    drop(OUTER.begin());
    assert_eq!(of(Kind::Stages, Span::History, &OUTER), Some(untimed));
}

#[test]
fn sums_of_threads_are_those_over_all_whatever_is_switched() {
    begin();
    let stop = AtomicBool::new(false);
    let sum = |summary: &Summary| {
        let mut all = sums::Totals::default();
        let own = summary.by_thread(Kind::Stages);
        let own = own.filter(|(_, it, _)| it.name == BUSY.name);
        own.for_each(|(.., totals)| all.add(&totals));
        all
    };
    let over_all = |summary: &Summary| {
        let mut all = summary.global(Kind::Stages);
        all.find(|(it, _)| it.name == BUSY.name).unwrap().1
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    drop(BUSY.begin());
                }
            });
        }
        let mut dice = 7_u64;
        for _ in 0..300 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            registry().unwrap().switch(BUSY.name, dice >> 40 & 3 != 0, dice >> 50 & 1 != 0);
            let summary = Summary::read();
            assert_eq!(sum(&summary), over_all(&summary));
            // No event is read while half written.
            for (event, _) in events(Kind::Stages, Span::HistoryLong) {
                assert!(event.end_id.is_some() && event.end >= event.start, "{event:?}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let summary = Summary::read();
    let totals = over_all(&summary);
    assert!(totals.count >= totals.timed && totals.sum >= totals.max && totals.max >= totals.min);
}

/// As metrics, sums only grow.
#[test]
fn what_truncate_takes_stays_in_the_sums_since_the_start() {
    begin();
    drop(TAKEN.begin());
    summary::truncate(Kind::Waits);
    let counts = || {
        let now = Summary::read();
        let now = now.global(Kind::Waits).find(|(it, _)| it.name == TAKEN.name);
        let ever = summary::since_start().into_iter().find(|(it, _)| it.name == TAKEN.name);
        [now, ever].map(|it| it.unwrap().1.count)
    };
    assert_eq!(counts(), [0, 1]);
    drop(TAKEN.begin());
    assert_eq!(counts(), [1, 2]);
}

#[test]
fn statements_have_their_digests() {
    begin();
    let connection = Foreground::attach("unit");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(connection.scope(async {
        let mut asked = ASKED.begin_in_task();
        asked.statement(|| digests::Statement::new("ask 7", "ask ?", Some("unit")));
        asked.outcome(|it| it.rows_sent = 3);
    }));
    assert!(!ASKED.begin_in_task().is_on(), "there is no task");
    let all = events(Kind::Statements, Span::History);
    let (_, statement) = all.iter().find(|(event, _)| Some(event.place) == ASKED.place()).unwrap();
    let statement = statement.as_ref().unwrap();
    assert_eq!((&*statement.text, statement.rows_sent), ("ask 7", 3));
    let sums = digests::all();
    let (digest, sums) = sums.iter().find(|(digest, _)| digest.text == "ask ?").unwrap();
    assert_eq!((digest.hash.len(), sums.totals.count, sums.totals.rows), (32, 1, 3));
}
