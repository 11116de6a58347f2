//! The flags of `pinbad load`, with their units, limits and defaults.
//!
//! Two structs: [`TrafficOptions`] describes the packets (tests and benches create it directly);
//! [`LoadOptions`] adds target, rate and duration. Read once by `main`; every number is limited
//! here, so that no later stage can be asked for more memory than the machine has.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::{Args, Command, FromArgMatches as _, ValueEnum};

use crate::config::units;

/// How keys are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Distribution {
    /// A few scripts and servers get most of the requests, as on any real site.
    Zipf,
    /// All alike.
    Uniform,
    /// Every combination of host, server and script in turn: an exact number of distinct keys.
    Each,
}

/// How the totals are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SummaryFormat {
    /// For reading.
    Text,
    /// One JSON object.
    Json,
}

/// Contents of the packets.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What is sent")]
pub struct TrafficOptions {
    /// Seed: the same seed and options give the same packets, byte for byte
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Timers in each request
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = up_to(0, 2_000))]
    pub timers: u32,
    /// Tags of each timer: group, server, operation, then more
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = up_to(1, 64))]
    pub tags: u32,
    /// Different values of the server tag and of each further timer tag
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = up_to(1, 1_000_000))]
    pub tag_values: u32,
    /// Request tags: env, release, then more
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = up_to(0, 256))]
    pub request_tags: u32,
    /// Different host names
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = up_to(1, 1_000_000))]
    pub hosts: u32,
    /// Different server names
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = up_to(1, 1_000_000))]
    pub servers: u32,
    /// Different script names
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = up_to(1, 1_000_000))]
    pub scripts: u32,
    /// Different HTTP statuses; 200 is by far the most frequent
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = up_to(1, 400))]
    pub statuses: u32,
    /// Different schemas: https, http, then more; 0 leaves the schema out, as PHP does by default
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = up_to(0, 1_000))]
    pub schemas: u32,
    /// How hosts, servers and scripts are drawn
    #[arg(long, value_enum, default_value_t = Distribution::Zipf)]
    pub distribution: Distribution,
    /// Further requests nested in each packet
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = up_to(0, 1_500))]
    pub nested: u32,
    /// Pad packets that are shorter to this many bytes (with dictionary words that nothing refers
    /// to)
    #[arg(long, value_name = "BYTES", value_parser = up_to(64, 65_507))]
    pub size: Option<u32>,
}

impl Default for TrafficOptions {
    /// The defaults of the command line.
    fn default() -> Self {
        LoadOptions::default().traffic
    }
}

/// Where the packets go, how fast, how long, and what is said about it.
#[derive(Debug, Clone, Args)]
pub struct LoadOptions {
    /// Where to send to, HOST:PORT; loopback only, unless --allow-remote
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:30002", value_parser = parse_target)]
    pub target: SocketAddr,
    /// Packets a second, all senders together; 0: as fast as they can
    #[arg(long, value_name = "PACKETS/S", default_value_t = 1000.0, value_parser = parse_rate)]
    pub rate: f64,
    /// Stop after this time, for example 500ms, 10s, 2m [default: 10s without --count]
    #[arg(long, value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Stop after this many packets
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Sending threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = up_to(1, 64))]
    pub senders: u32,
    /// Sockets of each sender, used in turn: a daemon with several receivers spreads packets by
    /// their source port
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = up_to(1, 256))]
    pub sockets: u32,
    /// Packets of equal length that the kernel may take in one piece and cut up itself
    /// (UDP_SEGMENT): a sender then costs a fifth. 1: each packet goes through the kernel alone, as
    /// from as many clients
    #[arg(long, value_name = "PACKETS", default_value_t = 1, value_parser = up_to(1, 64))]
    pub gso: u32,
    /// Different packets to prepare; they are sent over and over
    #[arg(long, value_name = "PACKETS", default_value_t = 32_768, value_parser = up_to(1, 4_000_000))]
    pub corpus: u32,
    /// Send to an address that is not loopback
    #[arg(long)]
    pub allow_remote: bool,
    /// Print a line a second
    #[arg(long)]
    pub progress: bool,
    /// How to print the totals
    #[arg(long, value_enum, default_value_t = SummaryFormat::Text)]
    pub format: SummaryFormat,
    /// Contents of the packets.
    #[command(flatten)]
    pub traffic: TrafficOptions,
}

/// Duration of a run with neither a time nor a count.
const DURATION: Duration = Duration::from_secs(10);

impl LoadOptions {
    /// Parses flags separated by spaces.
    ///
    /// # Errors
    /// The error of the command line parser.
    pub fn parse(flags: &str) -> Result<Self, clap::Error> {
        let load = Self::augment_args(Command::new("load").no_binary_name(true));
        Self::from_arg_matches(&load.try_get_matches_from(flags.split_whitespace())?)
    }

    /// Duration of the run, if the clock ends it.
    pub(super) fn time_planned(&self) -> Option<Duration> {
        let default = || self.count.is_none().then_some(DURATION);
        self.duration.or_else(default)
    }

    /// Number of packets, if limited: the count, or as many as the rate gives in the time; at full
    /// speed only the clock ends the run.
    pub(super) fn packets_planned(&self) -> Option<u64> {
        let time = self.time_planned().filter(|_| self.rate > 0.0);
        let by_rate = time.map(|time| ((time.as_secs_f64() * self.rate).round() as u64).max(1));
        self.count.into_iter().chain(by_rate).min()
    }
}

impl Default for LoadOptions {
    /// The defaults of the command line.
    fn default() -> Self {
        Self::parse("").expect("every flag has a default")
    }
}

/// A number from `low` to `high`.
fn up_to(low: u32, high: u32) -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(low)..=i64::from(high))
}

/// Parses `HOST:PORT`; a name with both kinds of address means the IPv4 one, since that is what the
/// daemon listens on by default.
fn parse_target(text: &str) -> Result<SocketAddr, String> {
    let found: Vec<SocketAddr> =
        text.to_socket_addrs().map_err(|error| format!("{error}; expected HOST:PORT"))?.collect();
    let v4 = found.iter().find(|address| address.is_ipv4());
    v4.or(found.first()).copied().ok_or_else(|| "no address found for that name".to_owned())
}

/// Parses packets a second, zero or more.
fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.0..=1e9).contains(&rate) => Ok(rate),
        _ => Err("expected a number of packets a second from 0 to 1000000000".to_owned()),
    }
}

/// Parses a duration as in the configuration, except zero.
fn parse_duration(text: &str) -> Result<Duration, String> {
    match units::parse_duration(text)? {
        Duration::ZERO => Err("expected a time above zero".to_owned()),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_numbers_are_refused() {
        for bad in "--rate=-1 --rate=nan --hosts=0 --count=0 --tags=0 --duration=0s \
             --duration=soon --size=65508 --senders=0 --target=nowhere"
            .split(' ')
        {
            assert!(LoadOptions::parse(bad).is_err(), "{bad} was taken");
        }
        let line = LoadOptions::parse("--target [::1]:7 --rate 0").unwrap();
        assert_eq!((line.target.to_string().as_str(), line.rate), ("[::1]:7", 0.0));
    }
}
