//! `pinbad stat set`: changes settings of a running stat extension of PHP.
//!
//! A setting is a frame of 16 bytes: its id and its value. The extension sends no reply and blocks
//! on clients that stay connected, so the connection is opened, written to and closed. Ids other
//! than the four known ones kill PHP, so the command offers no other.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use clap::{Args as FlagGroup, Subcommand, ValueEnum};

use super::Failure;
use crate::config::{Config, StatAddress};
use crate::input::stat::client;
use crate::shutdown::Shutdown;

/// The commands of `pinbad stat`.
#[derive(Debug, Clone, Subcommand)]
pub enum StatCommand {
    /// Change a setting of a running extension.
    #[command(after_help = include_str!("help/stat_set.txt"))]
    Set(StatSetFlags),
}

/// The flags of `stat set`.
#[derive(Debug, Clone, FlagGroup)]
pub struct StatSetFlags {
    /// What to set.
    pub setting: Setting,
    /// interval: microseconds, 10 or more; auto, arginfo: on or off.
    pub value: String,
    /// Configuration file of the daemon, for the control socket of each `[[stat]]` [default: the
    /// defaults].
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The extension's stat.control, in place of those of the configuration.
    #[arg(long, value_name = "ADDRESS")]
    pub control: Option<String>,
}

/// The settings of the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Setting {
    /// How often a sample is taken, in microseconds.
    Interval,
    /// Whether new requests are sampled.
    Auto,
    /// Whether samples have arguments. Can crash PHP 8.2.
    Arginfo,
    /// Refused: it does not work in the extension.
    Samplers,
}

/// Shortest interval that the extension takes, in microseconds.
const INTERVAL_MIN: i64 = 10;

/// The processes that a setting reaches.
const REACHES: &str = "It reaches the process that owns the socket, and what that forks from now on. Workers that were \
                       forked before keep their settings until PHP-FPM is reloaded.";

/// Encodes a setting.
///
/// # Errors
/// The reason why it is not sent.
fn frame(setting: Setting, value: &str) -> Result<[u8; 16], String> {
    let switch = || match value {
        "on" | "1" => Ok(1),
        "off" | "0" => Ok(0),
        _ => Err(format!("'{value}' is neither on nor off")),
    };
    let (id, value) = match setting {
        Setting::Auto => (2, switch()?),
        Setting::Interval => match value.parse::<i64>() {
            Ok(interval) if interval >= INTERVAL_MIN => (8, interval),
            Ok(_) => {
                return Err(format!(
                    "an interval below {INTERVAL_MIN} us is ignored by the extension"
                ));
            }
            Err(_) => return Err(format!("'{value}' is not a number of microseconds")),
        },
        Setting::Arginfo => (16, switch()?),
        Setting::Samplers => {
            let why = "samplers has no effect: the extension confuses limit and count";
            return Err(why.to_owned());
        }
    };
    let mut frame = [0; 16];
    let (first, second) = frame.split_at_mut(8);
    first.copy_from_slice(&i64::to_ne_bytes(id));
    second.copy_from_slice(&i64::to_ne_bytes(value));
    Ok(frame)
}

/// Sends a setting. `input` answers questions.
///
/// # Errors
/// Fails if the setting is refused, nobody confirms, or a socket cannot be written to.
pub fn execute(
    flags: &StatSetFlags,
    config: &Config,
    mut input: impl BufRead,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let frame = frame(flags.setting, &flags.value).map_err(Failure::usage)?;
    let addresses: Vec<StatAddress> = match &flags.control {
        Some(given) => {
            let wrong = |problem| Failure::usage(format!("--control {given}: {problem}"));
            vec![StatAddress::parse(given).map_err(wrong)?]
        }
        None => config.stats.iter().filter_map(|it| it.control.clone()).collect(),
    };
    if addresses.is_empty() {
        return Err(Failure::usage(
            "the configuration has no [[stat]] with control, so there is nowhere to send to; give --control",
        ));
    }
    if flags.setting == Setting::Arginfo && frame[8..] != [0; 8] {
        for question in [
            "Arguments can crash PHP 8.2 while it serves requests. Switch them on? (yes/no) ",
            "Every process that is forked from now on is at risk. Are you sure? (yes/no) ",
        ] {
            write!(out, "{question}").and_then(|()| out.flush()).map_err(Failure::write)?;
            let mut answer = String::new();
            if input.read_line(&mut answer).is_err() || answer.trim() != "yes" {
                return Err(Failure::failed("nothing was sent"));
            }
        }
    }
    let mut failed = Vec::new();
    for address in &addresses {
        match send(address, &frame) {
            Ok(()) => writeln!(out, "{address}: sent.").map_err(Failure::write)?,
            Err(error) => failed.push(format!("{address}: {error}")),
        }
    }
    if !failed.is_empty() {
        return Err(Failure::failed(format!("cannot send to {}", failed.join("; "))));
    }
    writeln!(out, "{REACHES}").map_err(Failure::write)
}

fn send(address: &StatAddress, frame: &[u8; 16]) -> io::Result<()> {
    client::connect(address, &Shutdown::new())?.write_all(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_frame_has_an_id_that_kills() {
        for (setting, value, id, param) in [
            (Setting::Auto, "on", 2, 1),
            (Setting::Auto, "off", 2, 0),
            (Setting::Interval, "10", 8, 10),
            (Setting::Interval, "1000", 8, 1000),
            (Setting::Arginfo, "off", 16, 0),
        ] {
            let frame = frame(setting, value).unwrap();
            assert_eq!(frame[..8], i64::to_ne_bytes(id));
            assert_eq!(frame[8..], i64::to_ne_bytes(param));
        }
        for (setting, value) in [
            (Setting::Interval, "9"),
            (Setting::Interval, "-1"),
            (Setting::Interval, "fast"),
            (Setting::Auto, "2"),
            (Setting::Samplers, "4"),
        ] {
            assert!(frame(setting, value).is_err(), "{setting:?} {value}");
        }
    }
}
