//! Daemons that are killed at random moments under load: [`Kills`] has the traffic and the chance.

use std::net::SocketAddr;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;
use std::{env, thread};

use pinbad::input::pinba::model::Request;
use prost::Message as _;

use super::{Over, Program, Site, Traffic};
use crate::dice::Dice;

/// A number from the environment, for tests at full size.
pub(crate) fn number(name: &str, otherwise: u64) -> u64 {
    let given = env::var(name).ok();
    given.map_or(otherwise, |given| given.parse().unwrap())
}

/// The packet of request number `n`, which its document size tells: in KiB, and exact in single
/// precision. It has one timer.
pub(crate) fn numbered(n: u64) -> Vec<u8> {
    let mut sent = Request::named("web", "shop", format!("/{}", n % 29));
    sent.document_size = Some(u32::try_from(n).unwrap());
    sent.request_time = Some((n % 1_000) as f32 / 1000.0);
    let group = ["db", "http"][n as usize % 2];
    sent.add_timer(1 + n as u32 % 3, 0.001, &[("group", group)]);
    sent.encode_to_vec()
}

/// A daemon that can be killed.
pub(crate) trait Mortal {
    fn site(&self) -> &Site;
    fn kill(&mut self);
}

impl Mortal for Program {
    fn site(&self) -> &Site {
        &self.site
    }

    fn kill(&mut self) {
        self.signal("KILL");
        self.wait();
    }
}

/// Lives under load, each of which ends by a kill.
#[derive(Debug)]
pub(crate) struct Kills {
    traffic: Arc<Traffic>,
    dice: Dice,
    /// Packets a second.
    pub(crate) rate: u64,
    /// Where packets go while a daemon starts.
    early: Option<SocketAddr>,
}

impl Kills {
    /// Runs `lives` while numbered packets are sent, `rate` a second unless `PINBAD_KILL_RATE` says
    /// otherwise; `PINBAD_KILL_SEED` changes the chance.
    pub(crate) fn run(
        seed: u64,
        rate: u64,
        early: Option<SocketAddr>,
        lives: impl FnOnce(&mut Self),
    ) {
        let mut kills = Self {
            traffic: Arc::default(),
            dice: Dice(number("PINBAD_KILL_SEED", seed)),
            rate: number("PINBAD_KILL_RATE", rate),
            early,
        };
        let (rate, traffic) = (kills.rate, Arc::clone(&kills.traffic));
        thread::scope(|scope| {
            scope.spawn(|| traffic.run(rate, numbered));
            let _over = Over(&traffic);
            lives(&mut kills);
        });
    }

    /// Packets that were sent; nobody gets more.
    pub(crate) fn sent(&self) -> u64 {
        self.traffic.turn(None)
    }

    /// In a fourth of all cases kills a daemon while it starts, and says so.
    pub(crate) fn one_that_starts(&mut self, spawn: impl FnOnce() -> Child) -> bool {
        if !self.dice.once_in(4) {
            return false;
        }
        self.traffic.turn(self.early);
        let mut process = spawn();
        thread::sleep(Duration::from_millis(self.dice.below(300)));
        process.kill().unwrap();
        process.wait().unwrap();
        self.traffic.turn(None);
        true
    }

    /// Starts a daemon; gives how many packets were sent, and none is until it lives.
    pub(crate) fn start<D>(&mut self, start: impl FnOnce() -> D) -> (D, u64) {
        self.traffic.turn(self.early);
        let daemon = start();
        (daemon, self.sent())
    }

    /// Sends to the daemon for a random time of at most `most_ms`, in which `live` does what it
    /// does, and kills it.
    pub(crate) fn end(
        &mut self,
        mut daemon: impl Mortal,
        most_ms: u64,
        live: impl FnOnce(Duration),
    ) {
        self.traffic.turn(Some(daemon.site().udp[0]));
        live(Duration::from_millis(self.dice.below(most_ms)));
        daemon.kill();
        self.sent();
    }
}
