//! A daemon in a process of this test's binary, which can be killed and has a clock of the test's.

use std::path::{Path, PathBuf};
use std::process::{Child as Process, Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use pinbad::clock::{Clock, SystemClock};

use super::{Here, Mortal, Site, await_condition, clean};

/// The clocks of the machine, so many times as fast.
#[derive(Debug)]
pub(crate) struct PacedClock {
    machine: SystemClock,
    begin_ms: u64,
    wall_pace: u64,
    mono_pace: u64,
}

impl PacedClock {
    pub(crate) fn new(begin_ms: u64, wall_pace: u64, mono_pace: u64) -> Self {
        let machine = SystemClock::new();
        Self { machine, begin_ms, wall_pace, mono_pace }
    }
}

impl Clock for PacedClock {
    fn mono_ms(&self) -> u64 {
        self.machine.mono_ms() * self.mono_pace
    }

    fn unix_ms(&self) -> u64 {
        self.begin_ms + self.machine.mono_ms() * self.wall_pace
    }
}

/// A daemon in a process of this test's binary.
pub(crate) struct Child {
    pub(crate) site: Site,
    process: Process,
}

const DIR: &str = "PINBAD_TEST_CHILD_DIR";
const NUMBERS: &str = "PINBAD_TEST_CHILD_NUMBERS";

impl Child {
    /// A command for `test`, an ignored one that calls [`be_child`]; it gets a folder and numbers.
    pub(crate) fn command(test: &str, dir: &Path, numbers: &[u64]) -> Command {
        let mut command = clean(Command::new(env::current_exe().unwrap()));
        let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
        command
            .args([test, "--exact", "--ignored", "--nocapture"])
            .envs([("RUST_LOG", "off"), (NUMBERS, &numbers.join(" "))])
            .env(DIR, dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    pub(crate) fn start(test: &str, dir: &Path, numbers: &[u64]) -> Self {
        let _of_the_one_before = fs::remove_file(ports(dir));
        let process = Self::command(test, dir, numbers).spawn().unwrap();
        let text = await_condition("it listens", || fs::read_to_string(ports(dir)));
        let (udp, http) = text.split_once(' ').unwrap();
        let site = Site::new(vec![udp.parse().unwrap()], http.parse().unwrap());
        Self { site, process }
    }
}

impl Mortal for Child {
    fn site(&self) -> &Site {
        &self.site
    }

    fn kill(&mut self) {
        // It has ended, or it shall: nothing to do about an error here.
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Where it says that it listens.
fn ports(dir: &Path) -> PathBuf {
    dir.with_extension("ports")
}

/// Serves in a process that [`Child`] has started, until it is killed; does nothing in any other.
pub(crate) fn be_child(start: impl FnOnce(&Path, &[u64]) -> Here) {
    let (Some(dir), Ok(numbers)) = (env::var_os(DIR).map(PathBuf::from), env::var(NUMBERS)) else {
        return;
    };
    let numbers: Vec<u64> = numbers.split(' ').map(|it| it.parse().unwrap()).collect();
    let here = start(&dir, &numbers);
    let addresses = format!("{} {}", here.site.udp[0], here.site.http);
    let file = ports(&dir);
    fs::write(file.with_extension("new"), addresses).unwrap();
    fs::rename(file.with_extension("new"), file).unwrap();
    thread::sleep(Duration::from_hours(1));
    here.stop();
}
