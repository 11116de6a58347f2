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
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use pinbad::clock::{Clock, SystemClock};
use pinbad::history::inspect;
use pinbad::input::pinba::model;
use prost::Message as _;

use super::requests::{int, publish_at, rows};
use super::{START_MS, of_history};
use crate::harness::{Dice, Here, Over, Program, Site, Traffic, await_condition, clean, pinbad};
use crate::restart::number;

/// Seconds of the fast clock in one.
const PACE: u64 = 3_600;

/// Its wall clock; time goes on as it does.
#[derive(Debug)]
struct FastClock {
    machine: SystemClock,
    begin_ms: u64,
}

impl FastClock {
    fn new(begin_ms: u64) -> Self {
        Self {
            machine: SystemClock::new(),
            begin_ms,
        }
    }
}

impl Clock for FastClock {
    fn mono_ms(&self) -> u64 {
        self.machine.mono_ms()
    }

    fn unix_ms(&self) -> u64 {
        self.begin_ms + self.machine.mono_ms() * PACE
    }
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

/// Request number `n`, which its document size tells in bytes.
fn packet(n: u64) -> Vec<u8> {
    let mut sent = model::Request::named("web", "shop", format!("/{}", n % 29));
    sent.document_size = Some(u32::try_from(n).unwrap());
    sent.request_time = Some((n % 1_000) as f32 / 1000.0);
    sent.add_timer(1, 0.001, &[("group", ["db", "http"][n as usize % 2])]);
    sent.encode_to_vec()
}

/// A daemon that can be killed.
trait Daemon {
    fn site(&self) -> &Site;
    fn kill(&mut self);
}

impl Daemon for Program {
    fn site(&self) -> &Site {
        &self.site
    }

    fn kill(&mut self) {
        self.signal("KILL");
        self.wait();
    }
}

/// One in a process of this test's binary, with the fast clock.
struct Fast {
    site: Site,
    child: Child,
}

const DIR: &str = "PINBAD_TEST_FAST_DIR";
const BEGIN_MS: &str = "PINBAD_TEST_FAST_BEGIN_MS";

fn fast(dir: &Path, begin_ms: u64) -> Command {
    let mut command = clean(Command::new(std::env::current_exe().unwrap()));
    let test = "history::killed::the_daemon_with_the_fast_clock";
    command.args([test, "--exact", "--ignored", "--nocapture"]);
    command
        .env(DIR, dir)
        .env(BEGIN_MS, begin_ms.to_string())
        .env("RUST_LOG", "off");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
#[ignore = "a child of a test"]
fn the_daemon_with_the_fast_clock() {
    let (Ok(dir), Ok(begin_ms)) = (std::env::var(DIR), std::env::var(BEGIN_MS)) else {
        return;
    };
    let dir = PathBuf::from(dir);
    let settings = settings(&dir);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let clock = Arc::new(FastClock::new(begin_ms.parse().unwrap()));
    let here = Here::with_clock(&settings, clock);
    let addresses = format!("{} {}", here.site.udp[0], here.site.http);
    let file = ports(&dir);
    fs::write(file.with_extension("new"), addresses).unwrap();
    fs::rename(file.with_extension("new"), file).unwrap();
    // Until it is killed, and at most for as long as any test takes.
    std::thread::sleep(Duration::from_mins(10));
    here.stop();
}

/// Where it says that it listens.
fn ports(dir: &Path) -> PathBuf {
    dir.with_extension("ports")
}

impl Fast {
    fn start(dir: &Path, begin_ms: u64) -> Self {
        let _of_the_one_before = fs::remove_file(ports(dir));
        let child = fast(dir, begin_ms).spawn().unwrap();
        let text = await_condition("it listens", || fs::read_to_string(ports(dir)));
        let (udp, http) = text.split_once(' ').unwrap();
        let site = Site::new(vec![udp.parse().unwrap()], http.parse().unwrap());
        Self { site, child }
    }
}

impl Daemon for Fast {
    fn site(&self) -> &Site {
        &self.site
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Fast {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
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

/// Kills daemons in one folder; `start` also makes a command for one that is killed while it
/// starts.
fn kill_and_kill<D: Daemon>(
    dir: &Path,
    kills: u64,
    start: impl Fn() -> D,
    starting: impl Fn() -> Command,
) {
    let rate = number("PINBAD_KILL_RATE", 500);
    let mut dice = Dice(number("PINBAD_KILL_SEED", 20_090_902));
    let traffic = Traffic::default();
    // Of all that were sent: what must be there, and what is.
    let (mut must, mut lost) = (0, 0);
    let (mut lost_most, mut flushed, mut torn) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| traffic.run(rate, packet));
        let _over = Over(&traffic);
        for kill in 0..=kills {
            if dice.below(4) == 0 {
                let mut child = starting().spawn().unwrap();
                std::thread::sleep(Duration::from_millis(dice.below(300)));
                child.kill().unwrap();
                child.wait().unwrap();
                look(dir, traffic.turn(None));
            }
            let mut daemon = start();
            let site = daemon.site().clone();
            // Nothing is sent yet: what there is, is on disk.
            let found = known(&site);
            let sent = traffic.turn(None);
            assert!(
                must <= found && found <= sent,
                "kill {kill}: {found} of {sent} are there, and {must} were"
            );
            lost_most = lost_most.max((sent - found).saturating_sub(lost));
            lost = sent - found;
            if kill == kills {
                break;
            }
            traffic.turn(Some(site.udp[0]));
            let begun = Instant::now();
            let life = Duration::from_millis(dice.below(3_500));
            let mut seen: Vec<(u64, u64)> = Vec::new();
            while begun.elapsed() < life {
                let known = known(&site);
                let flushes = flushes(&site);
                seen.push((flushes, known));
                // Begun after it was known, and ended.
                let flushed = seen.iter().filter(|it| it.0 + 2 <= flushes);
                must = flushed.map(|it| it.1).chain([must]).max().unwrap_or(must);
            }
            daemon.kill();
            let sent = traffic.turn(None);
            flushed += seen.last().map_or(0, |it| it.0);
            let verified = inspect::verify(dir).unwrap();
            torn += u64::from(verified.is_torn) + verified.uncounted.len() as u64;
            look(dir, sent);
        }
    });
    println!(
        "{kills} kills, {} packets at {rate}/s, {flushed} flushes; {torn} files and commits were not finished; by one kill at most \
         {lost_most} packets ({:.2} s)",
        traffic.turn(None),
        lost_most as f64 / rate as f64
    );
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
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
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
        || Fast::start(&dir, now_ms()),
        || fast(&dir, now_ms()),
    );
    // However little was published between kills, what is left of them goes on.
    let last = Fast::start(&dir, now_ms());
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
    let place = tempfile::tempdir().unwrap();
    let at = place.path().to_str().unwrap();
    if !crate::restart::mount(&["-t", "tmpfs", "-o", "size=2m", "tmpfs", at]) {
        println!("left out: only root may mount a small file system, and not everywhere");
        return;
    }
    let _unmounted = crate::restart::Unmount(at);
    let dir = place.path().join("history");
    let mut settings = settings(&dir);
    settings.push("history.free_min=1MB".to_owned());
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let here = Here::with_clock(&settings, Arc::new(FastClock::new(START_MS)));
    let traffic = Traffic::default();
    std::thread::scope(|scope| {
        scope.spawn(|| traffic.run(500, packet));
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
    assert!(
        verified.problems.is_empty() && verified.uncounted.is_empty(),
        "{verified:?}"
    );
}
