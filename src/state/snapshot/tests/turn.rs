//! Cuts at the turn of a minute.

use super::*;

/// A cut at the turn of a minute has everything that was counted in seconds before it and nothing
/// that is counted later, however late it is written; and says so.
#[test]
fn a_cut_at_the_turn_of_a_minute_ends_with_the_second_before() {
    let mut process = Process::start(PLAN);
    let turn = |process: &Process, unix_ms| {
        let now_ms = process.now_ms;
        process.live.write().advance_second(now_ms, unix_ms);
    };
    let (sender, cuts) = std::sync::mpsc::channel();
    turn(&process, 119_000);
    process.send_names(0, 30);
    process.live.read().on_turn(Turn::Minute, move |live, minute| {
        let after = Some(HistoryFrom::Time(minute));
        let cut = Cut::of(live, (&Counters::new(1), &[]), after);
        sender.send(cut).unwrap();
    });
    turn(&process, 119_900);
    assert!(cuts.try_recv().is_err());
    let (sums, next_id) = (process.sums(), process.live.read().pool.requests.next_id());
    turn(&process, 120_200);
    process.send_names(0, 20);
    turn(&process, 181_000);
    let cut = cuts.recv().unwrap();
    assert_eq!(cut.next_id, next_id);
    assert!(cuts.recv().is_err(), "once");
    let bytes = process.write_cut(cut);
    let after = inspect(&bytes[..]).unwrap().history_from;
    assert_eq!(after, Some(HistoryFrom::Time(120)));
    let (restored, _) = process.next(&bytes, PLAN, 0).unwrap();
    assert_eq!(restored.sums(), sums);
}

/// A wall clock that was set back passes minutes in which something was counted already.
#[test]
fn there_is_no_cut_at_the_turn_of_a_minute_that_repeats() {
    let process = Process::start(PLAN);
    let (sender, turns) = std::sync::mpsc::channel();
    let turn = |unix_secs: u64| {
        let mut live = process.live.write();
        live.advance_second(process.now_ms, unix_secs * 1000);
    };
    [1_000, 1_200].into_iter().for_each(turn);
    process.live.read().on_turn(Turn::Minute, move |_, minute| {
        sender.send(minute).unwrap();
    });
    [1_050, 1_080, 1_140, 1_259].into_iter().for_each(turn);
    assert_eq!(turns.try_iter().count(), 0);
    [1_261, 1_320].into_iter().for_each(turn);
    assert_eq!(turns.iter().collect::<Vec<_>>(), [1_260]);
}
