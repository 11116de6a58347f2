//! Killed at random moments under load, again and again: with the clock of the machine, and with
//! one on which an hour passes in a second, so that hours and days are published meanwhile.
//! Whatever the moment, all files are whole, nothing is counted twice, what was there before the
//! last flush is there, and the next one goes on.
#![expect(
    clippy::print_stdout,
    reason = "figures of the full size are for whoever runs the tests, and a child says where it listens"
)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use pinbad::clock::{Clock as _, SystemClock};
use pinbad::history::inspect;

use super::requests::{int, publish_at, rows};
use super::{START_MS, of_history};
use crate::harness::{
    Child, Here, Kills, Mortal, Over, PacedClock, Program, Site, Traffic, await_condition,
    be_child, number, numbered, pinbad,
};
use crate::restart::refs;

/// Seconds of the fast wall clock in one; intervals are as long as they are.
const PACE: u64 = 3_600;

/// The test that is the daemon with the fast clock.
const FAST: &str = "history::killed::the_daemon_with_the_fast_clock";

fn fast_clock(begin_ms: u64) -> Arc<PacedClock> {
    Arc::new(PacedClock::new(begin_ms, PACE, 1))
}

fn settings(dir: &Path) -> Vec<String> {
    let dir = format!("history.dir={}", dir.display());
    [
        &dir,
        "history.flush_period=1s",
        "history.requests=all",
        "history.free_min=0",
        "reports.memory=32MiB",
        "series.memory=8MiB",
        "ingest.recv_buffer=8MB",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[test]
#[ignore = "a child of a test"]
fn the_daemon_with_the_fast_clock() {
    be_child(|dir, numbers| Here::with_clock(&refs(&settings(dir)), fast_clock(numbers[0])));
}

/// Requests that history knows of, at all times.
pub(super) fn known(site: &Site) -> u64 {
    let info = site.json("/api/v1/info?from=0&to=4000000000");
    // None at all are unknown.
    info["req_count"].as_u64().unwrap_or(0)
}

fn flushes(site: &Site) -> u64 {
    of_history(site)["flushes"].as_u64().unwrap()
}

/// Sums `req_count` over the published files of a resolution, read as any Parquet reader does.
fn published(dir: &Path, resolution: &str) -> u64 {
    let folder = dir.join(format!("rollup/report=info/resolution={resolution}"));
    let mut sum = 0;
    for date in fs::read_dir(folder).into_iter().flatten() {
        for file in fs::read_dir(date.unwrap().path()).unwrap() {
            let file = File::open(file.unwrap().path()).unwrap();
            let reader = SerializedFileReader::new(file).unwrap();
            for row in reader.get_row_iter(None).unwrap() {
                sum += int(&row.unwrap(), "req_count").cast_unsigned();
            }
        }
    }
    sum
}

/// All that lies there is whole, also for others.
fn look(dir: &Path, sent: u64) {
    if dir.join("manifest").exists() {
        let verified = inspect::verify(dir).unwrap();
        assert!(verified.problems.is_empty(), "{verified:?}");
    }
    for resolution in ["minute", "hour", "day"] {
        let published = published(dir, resolution);
        assert!(published <= sent, "{resolution}: {published} of {sent}");
    }
}

/// Kills daemons in one folder; `starting` makes a command for one that is killed while it starts.
fn kill_and_kill<D: Mortal>(
    dir: &Path,
    lives: u64,
    start: impl Fn() -> D,
    starting: impl Fn() -> Command,
) {
    // Of all that were sent: what must be there, and what is.
    let (mut must, mut lost) = (0, 0);
    let (mut lost_most, mut flushed, mut torn) = (0, 0, 0);
    Kills::run(20_090_902, 500, None, |kills| {
        for kill in 0..=lives {
            if kills.one_that_starts(|| starting().spawn().unwrap()) {
                look(dir, kills.sent());
            }
            let (daemon, sent) = kills.start(&start);
            let site = daemon.site().clone();
            // Nothing is sent yet: what there is, is on disk.
            let found = known(&site);
            assert!(
                must <= found && found <= sent,
                "kill {kill}: {found} of {sent} are there, and {must} were"
            );
            lost_most = lost_most.max((sent - found).saturating_sub(lost));
            lost = sent - found;
            if kill == lives {
                break;
            }
            let mut seen: Vec<(u64, u64)> = Vec::new();
            kills.end(daemon, 3_500, |life| {
                let begun = Instant::now();
                while begun.elapsed() < life {
                    let known = known(&site);
                    let flushes = flushes(&site);
                    seen.push((flushes, known));
                    // Begun after it was known, and ended.
                    let flushed = seen.iter().filter(|it| it.0 + 2 <= flushes);
                    must = flushed.map(|it| it.1).chain([must]).max().unwrap_or(must);
                }
            });
            flushed += seen.last().map_or(0, |it| it.0);
            let verified = inspect::verify(dir).unwrap();
            torn += u64::from(verified.is_torn) + verified.uncounted.len() as u64;
            look(dir, kills.sent());
        }
        println!(
            "{lives} kills, {} packets at {rate}/s, {flushed} flushes; {torn} files and commits were not finished; by one kill at most \
             {lost_most} packets ({:.2} s)",
            kills.sent(),
            lost_most as f64 / kills.rate as f64,
            rate = kills.rate
        );
    });
}

/// Each request is on disk once, under a name of its own.
fn check_requests(dir: &Path) {
    let (mut numbers, mut names) = (BTreeSet::new(), BTreeSet::new());
    for row in rows(dir, "request") {
        assert!(numbers.insert(int(&row, "doc_size_bytes")), "{row}");
        assert!(names.insert((int(&row, "run"), int(&row, "id"))), "{row}");
    }
    assert!(!numbers.is_empty());
}

/// With `PINBAD_HISTORY_KILLS=100` and a release build in `PINBAD_TEST_PROGRAM` at full size.
#[test]
fn killed_at_any_moment_what_was_flushed_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("history");
    let settings = settings(&dir);
    let settings = refs(&settings);
    kill_and_kill(
        &dir,
        number("PINBAD_HISTORY_KILLS", 4),
        || Program::serve(&settings),
        || {
            let mut command = pinbad();
            command.args(["serve", "--set", "ingest.listen=127.0.0.1:0"]);
            command.args(["--set", "http.listen=127.0.0.1:0", "--set", "mysql.listen="]);
            for setting in &settings {
                command.args(["--set", setting]);
            }
            command.stderr(Stdio::null());
            command
        },
    );
    publish_at(folder.path(), SystemClock::new().unix_ms() + 10 * 3_600_000);
    check_requests(&dir);
}

#[test]
fn killed_while_hours_and_days_are_published_nothing_is_there_twice() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("history");
    let begun = Instant::now();
    let now_ms = || START_MS + begun.elapsed().as_millis() as u64 * PACE;
    kill_and_kill(
        &dir,
        number("PINBAD_HISTORY_KILLS", 6),
        || Child::start(FAST, &dir, &[now_ms()]),
        || Child::command(FAST, &dir, &[now_ms()]),
    );
    // However little was published between kills, what is left of them goes on.
    let last = Child::start(FAST, &dir, &[now_ms()]);
    await_condition("hours are published", || match published(&dir, "hour") {
        0 => Err(()),
        _ => Ok(()),
    });
    drop(last);
    look(&dir, u64::MAX);
    publish_at(folder.path(), now_ms() + 40 * 86_400_000);
    check_requests(&dir);
}

/// The oldest files go while more is written, and none of what was counted does: coarser rows have
/// it.
#[test]
fn under_load_old_files_make_room() {
    let Some(place) = crate::restart::SmallDisk::mount("2m") else {
        return;
    };
    let dir = place.path().join("history");
    let mut settings = settings(&dir);
    settings.push("history.free_min=1MB".to_owned());
    let here = Here::with_clock(&refs(&settings), fast_clock(START_MS));
    let traffic = Traffic::default();
    std::thread::scope(|scope| {
        scope.spawn(|| traffic.run(500, numbered));
        let _over = Over(&traffic);
        traffic.turn(Some(here.site.udp[0]));
        await_condition("files make room", || {
            let history = of_history(&here.site);
            match history["files_removed_by_free_space"].as_u64() {
                Some(30..) => Ok(()),
                _ => Err(history),
            }
        });
    });
    let sent = traffic.turn(None);
    here.site.at_rest(sent).assert_accounted();
    await_condition("history knows all", || match known(&here.site) {
        all if all == sent => Ok(()),
        some => Err((some, sent)),
    });
    here.stop();
    let verified = inspect::verify(&dir).unwrap();
    assert!(verified.problems.is_empty() && verified.uncounted.is_empty(), "{verified:?}");
}
