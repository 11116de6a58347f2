//! A merger that stands still: for two seconds at a time nothing leaves the temporary pool while
//! packets keep coming, and none is lost.
//!
//! The gathering period is set to two seconds, which is the same as a merger that is not given a
//! core for so long. In a release build 100,000 packets a second arrive, as many as the default
//! temporary pool is planned for; a debug build decodes too slowly for that and gets a tenth.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pinbad::cli::load::{LoadOptions, Packets};
use pinbad::clock::SystemClock;
use pinbad::config::{Config, ConfigFlags};
use pinbad::daemon::Daemon;
use pinbad::shutdown::Shutdown;

const RATE: f64 = if cfg!(debug_assertions) { 10_000.0 } else { 100_000.0 };
const STANDSTILL: Duration = Duration::from_secs(2);
/// Two runs of the merger fall into this time, so one whole standstill does.
const SENDING: Duration = Duration::from_secs(5);

fn count(daemon: &Daemon, name: &str) -> u64 {
    daemon.catalog().status()[name].as_u64().unwrap()
}

/// A run: `Ok` if nothing was lost, what it showed if the machine was too busy to show anything, or
/// to keep up.
fn run() -> Result<(), String> {
    let flags = ConfigFlags {
        set: [
            "ingest.listen=127.0.0.1:0",
            "ingest.receivers=1",
            "ingest.stats_gathering_period=2s",
            "http.listen=",
            "mysql.listen=",
        ]
        .map(str::to_owned)
        .to_vec(),
        ..ConfigFlags::default()
    };
    let config = Config::load(&flags, []).unwrap();
    assert_eq!(config.ingest.stats_gathering_period, STANDSTILL);
    let daemon = Daemon::start(&config, Arc::new(SystemClock::new())).unwrap();
    let options = LoadOptions {
        target: daemon.udp_addresses()[0],
        rate: RATE,
        duration: Some(SENDING),
        ..LoadOptions::default()
    };
    let packets = Packets::prepare(&options).unwrap();
    let (sent, deepest) = thread::scope(|scope| {
        let sending = scope.spawn(|| packets.send(&options, &Shutdown::new(), &mut io::sink()));
        let mut deepest = 0;
        while !sending.is_finished() {
            deepest = deepest.max(count(&daemon, "ring_depth"));
            thread::sleep(Duration::from_millis(10));
        }
        (sending.join().unwrap().unwrap(), deepest)
    });
    assert!(sent.ended_by.is_none(), "{sent:?}");
    let deadline = Instant::now() + Duration::from_secs(60);
    while count(&daemon, "requests_merged") < sent.packets && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
    }
    let status = daemon.catalog().status();
    daemon.stop().unwrap();
    // A machine that is too busy to send as fast as that has shown less, but enough.
    let rate = sent.packets as f64 / sent.seconds;
    if sent.packets as f64 <= RATE * SENDING.as_secs_f64() / 2.0 {
        return Err(format!("too little was sent: {sent:?}"));
    }
    if deepest as f64 <= rate * STANDSTILL.as_secs_f64() * 0.7 {
        return Err(format!(
            "the merger did not stand still: {deepest} waited at most, at {rate:.0} packets/s"
        ));
    }
    for (name, expected) in [
        ("requests_overwritten", 0),
        ("lost_tmp_records", 0),
        ("kernel_drops", 0),
        ("datagrams_received", sent.packets),
        ("requests_merged", sent.packets),
    ] {
        if status[name].as_u64() != Some(expected) {
            return Err(format!("{name} is not {expected}: {status:#?}"));
        }
    }
    Ok(())
}

/// Of ten runs one has to show it: with other tests on both processors a receiver may stand still,
/// too, and longer than the socket's buffer lasts.
#[test]
fn nothing_is_lost_while_the_merger_stands_still_for_two_seconds() {
    let mut seen = Vec::new();
    for _ in 0..10 {
        match run() {
            Ok(()) => return,
            Err(shown) => seen.push(shown),
        }
    }
    panic!("{seen:#?}");
}
