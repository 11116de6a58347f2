//! The traffic of `pinbad demo`: a small shop's day, compressed to ten minutes.
//!
//! Three sites on seven hosts, some forty scripts of different shapes, each waiting for its own mix
//! of databases, caches and other services. Visitors come and go in a daily wave. Events for a
//! newcomer to find:
//!
//! | event | where it shows |
//! |---|---|
//! | a search that is slow for half a minute out of three | one script; its timers name one database server |
//! | a host that is slower than the others | hosts by p95; the time is outside of timers |
//! | a host that fails for a while | errors by host; half of them wait for a service |
//! | an outage of the payment service | errors by script; the timers wait for one service |
//! | a release, host by host, that makes a script slow | `/releases`; marks in the charts; timers by the tag `release` |
//!
//! Packets go over UDP to the daemon's own socket, so that the demo takes the real path. [`run`] is
//! the loop of one thread and holds one request at a time. Packets sent while nobody listens (the
//! daemon is starting or ending) are lost and counted. [`Shop`] makes the requests from a time that
//! is passed in, so a test can run a whole day at once.

use std::f64::consts::TAU;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use prost::Message;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, Exp1, LogNormal, Poisson};

use crate::input::pinba::model::Request;
use crate::shutdown::Shutdown;

use super::connect;
use super::packet::{self, share, whole_micros};

mod scripts;

use scripts::{CAST, Cast, Script, Site};

/// Average requests a second by default.
pub const RATE_DEFAULT: f64 = 200.0;

/// How long a release runs until it is compared: sixteen times that fit before the first.
pub const RELEASE_AFTER: Duration = Duration::from_secs(6);

/// A day, from one morning to the next.
const DAY: Duration = Duration::from_secs(600);
/// The seed of the demo: it plays the same day each time.
pub(crate) const SEED: u64 = 30_002;
/// Bounds of a sleep: short enough to notice a stop soon, long enough not to wake for each request
/// at a high rate.
const SLEEP: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// Sends the shop's requests to `target`, on average `rate` a second, until `shutdown` is
/// requested. Blocks: give it a thread. Sends nothing if `rate` is not above zero. Returns how many
/// packets the kernel took, and how many it refused, most likely because nobody listened.
///
/// # Errors
/// Fails if no socket can be opened towards `target`.
pub fn run(target: SocketAddr, rate: f64, shutdown: &Shutdown) -> io::Result<(u64, u64)> {
    let socket = connect(target)?;
    let mut shop = Shop::new(SEED, rate);
    let (start, mut sent, mut refused) = (Instant::now(), 0, 0);
    while !shutdown.requested() {
        let now = start.elapsed();
        let wait = shop.next_at().saturating_sub(now);
        if !wait.is_zero() {
            thread::sleep(wait.clamp(SLEEP.0, SLEEP.1));
            continue;
        }
        match socket.send(&shop.next_request().encode_to_vec()) {
            Ok(_) => sent += 1,
            Err(_) => refused += 1,
        }
    }
    Ok((sent, refused))
}

/// The shop: generates the requests and their times.
#[derive(Debug)]
pub struct Shop {
    rng: StdRng,
    rate: f64,
    next_at: Duration,
    weight_total: f64,
}

impl Shop {
    /// A shop with `rate` requests a second on average. The same seed gives the same requests.
    pub fn new(seed: u64, rate: f64) -> Self {
        Self {
            rng: StdRng::seed_from_u64(seed),
            rate,
            next_at: if rate > 0.0 { Duration::ZERO } else { Duration::MAX },
            weight_total: CAST.scripts().map(|(_, script)| script.weight).sum(),
        }
    }

    /// Time of the next request, from the start of the demo.
    pub const fn next_at(&self) -> Duration {
        self.next_at
    }

    /// Takes the next request and schedules the one after it.
    pub fn next_request(&mut self) -> Request {
        let at = self.next_at;
        let gap: f64 = Exp1.sample(&mut self.rng);
        let gap = Duration::try_from_secs_f64(gap / (self.rate * wave(at)));
        self.next_at = at.saturating_add(gap.unwrap_or(Duration::MAX));
        let (site, script) = self.draw_script();
        self.request(site, script, at)
    }

    fn draw_script(&mut self) -> (&'static Site, &'static Script) {
        let mut left = self.rng.random_range(0.0..self.weight_total);
        let mut scripts = CAST.scripts();
        let found = scripts.find(|(_, script)| {
            left -= script.weight;
            left < 0.0
        });
        // Rounding may leave a remainder.
        found.or_else(|| CAST.scripts().next()).expect("the cast has scripts")
    }

    fn request(&mut self, site: &Site, script: &Script, at: Duration) -> Request {
        let Cast { backends, calls, .. } = &*CAST;
        let rng = &mut self.rng;
        let host = site.hosts[rng.random_range(0..site.hosts.len())].as_str();
        let staging = site.server == "api.example.com" && rng.random_bool(0.04);
        let replica = rng.random_range(0..REPLICAS);
        let slowed =
            script.path == SLOW_SCRIPT && replica == SLOW_REPLICA && in_phase(at, REGRESSION);
        let failing = host == BROKEN_HOST && in_phase(at, ERRORS) && rng.random_bool(0.4);
        let unpaid = script.calls == "payment" && in_phase(at, OUTAGE);
        let release = release_of(host, at);
        let careless = script.path == CARELESS_SCRIPT && release == CARELESS_RELEASE;

        let spread =
            LogNormal::new(0.0, script.spread).expect("a spread that is finite and positive");
        let mut secs = script.median_ms / 1000.0 * spread.sample(rng);
        // Busy hours are slower for everyone.
        secs *= 0.85 + 0.25 * wave(at);
        let time = whole_micros(match failing || unpaid {
            true => 0.004,
            false => secs.clamp(0.0005, 30.0),
        });
        let status = match (failing, unpaid) {
            (true, _) if rng.random_bool(0.6) => 503,
            (true, _) => 500,
            (false, true) => 502,
            (false, false) => draw_status(rng, script),
        };
        let mut request = Request {
            document_size: Some((script.document_kb * 1024.0 * spread.sample(rng)).min(2e7) as u32),
            memory_peak: Some(script.memory_mb.div_ceil(2) * 2_097_152),
            status: Some(status),
            memory_footprint: Some(rng.random_range(512..3000) * 4096),
            schema: Some(["http", "https"][usize::from(rng.random_bool(0.97))].into()),
            ..Request::named(host, &*site.server, &*script.path)
        };
        let env = ["production", "staging"][usize::from(staging)];
        let mut tags = [("env", env), ("release", release)];
        packet::set_request_tags(&mut request, &mut tags);
        // Time in calls, waiting for an unresponsive service, and in PHP itself.
        let (mut called, mut waited, mut own) = (Duration::ZERO, Duration::ZERO, time);
        // Sign-in uses a service that does not answer: half of the requests fail at once, half
        // after waiting for it.
        let silent = match (failing, unpaid) {
            (true, _) => rng.random_bool(0.5).then_some(SIGN_IN),
            (false, true) => Some(PAYMENT),
            (false, false) => None,
        };
        if let Some((server, operation, timeout)) = silent {
            waited = timeout;
            let tags = ["http", server, operation];
            add_call(&mut request, tags, 1, (waited, Duration::ZERO));
        }
        let calls = if failing || unpaid { &[][..] } else { &calls[&script.calls][..] };
        let mut late = match slowed {
            true => time.mul_f64(rng.random_range(4.0..9.0)),
            false => Duration::ZERO,
        };
        for call in calls {
            let hits = Poisson::new(call.hits).expect("a mean above zero").sample(rng) as u32;
            let reads = call.backend == "replica";
            let late = if reads { std::mem::take(&mut late) } else { Duration::ZERO };
            if hits == 0 && late.is_zero() {
                continue;
            }
            // One query per row instead of one for all.
            let times = if reads && careless { CARELESS_TIMES } else { 1 };
            let backend = &backends[&call.backend];
            let server = match backend.servers.len() {
                _ if reads => replica,
                1 => 0,
                servers => rng.random_range(0..servers as u32),
            };
            let tags = [&*backend.group, &*backend.servers[server as usize], &*call.operation];
            let value = share(time, call.share * rng.random_range(0.6..1.15));
            own = own.saturating_sub(value);
            let value = value * times;
            let hits = hits.max(1) * times;
            add_call(&mut request, tags, hits, (value + late, value));
            called += value;
            waited += late;
        }
        // The work PHP did during timers is part of the request's.
        let cpu = |own: Duration, timers: &[f32]| own.as_secs_f32() + timers.iter().sum::<f32>();
        let [user, system] = [0.55..0.8, 0.04..0.08].map(|part| share(own, rng.random_range(part)));
        request.ru_utime = Some(cpu(user, &request.timer_ru_utime));
        request.ru_stime = Some(cpu(system, &request.timer_ru_stime));
        // Something else uses its processors half of the time.
        let stolen = own * (2 * u32::from(host == SLOW_HOST));
        request.request_time = Some((own + called + waited + stolen).as_secs_f32());
        request
    }
}

fn add_call(
    request: &mut Request,
    [group, server, operation]: [&str; 3],
    hits: u32,
    value: (Duration, Duration),
) {
    let mut tags = [("group", group), ("server", server), ("operation", operation)];
    packet::add_timer(request, hits, value, &mut tags);
}

/// Load at `at`, 1 on average: up to half more at noon, as much less at night. The demo starts in
/// mid-morning.
fn wave(at: Duration) -> f64 {
    1.0 + 0.5 * (TAU * at.as_secs_f64() / DAY.as_secs_f64()).sin()
}

/// A recurring event: its period, and when it happens within the period, in seconds.
type Phase = (u64, Range<u64>);

/// The search is slow for 35 s out of three minutes.
const REGRESSION: Phase = (180, 20..55);
const SLOW_SCRIPT: &str = "/catalog/search.php";
/// Replicas of the database, and the one that is slow.
const REPLICAS: u32 = 3;
const SLOW_REPLICA: u32 = 1;
/// One host answers with errors for 14 s out of four minutes.
const ERRORS: Phase = (240, 30..44);
const BROKEN_HOST: &str = "api-02";
/// The host with a neighbour that takes its processors.
const SLOW_HOST: &str = "web-03";
/// Payments fail for 40 s out of six minutes.
const OUTAGE: Phase = (360, 50..90);
/// A service that does not answer, an operation, and how long a request waits for it.
type Silent = (&'static str, &'static str, Duration);
const PAYMENT: Silent = ("payments.example", "POST", Duration::from_secs(3));
const SIGN_IN: Silent = ("auth.internal", "GET", Duration::from_secs(5));
/// The release that runs at first.
const FIRST_RELEASE: &str = "2024.48.3";
/// The release that queries the database for each row of a page. It stays, so that the newest
/// verdict is about it.
const CARELESS_RELEASE: &str = "2024.49.0";
const CARELESS_SCRIPT: &str = "/catalog/product.php";
const CARELESS_TIMES: u32 = 10;

fn in_phase(at: Duration, (period, seconds): Phase) -> bool {
    seconds.contains(&(at.as_secs() % period))
}

/// When the first host gets it. Nothing else happens in the seconds before.
const ROLLOUT: Duration = Duration::from_secs(120);

/// The release that `host` runs at `at`: each host gets the new one a tenth of a second after the
/// one before, so that a verdict is about the same hosts on both sides.
fn release_of(host: &str, at: Duration) -> &'static str {
    let place = CAST.hosts.iter().position(|known| known == host).unwrap_or(0);
    let is_first = at < ROLLOUT + Duration::from_millis(100) * place as u32;
    if is_first { FIRST_RELEASE } else { CARELESS_RELEASE }
}

fn draw_status(rng: &mut StdRng, script: &Script) -> u32 {
    match rng.random_range(0..1000) {
        0..2 => 500,
        2..12 => 404,
        12..16 => 403,
        // Forms answer with a redirect to their result.
        16..400 if script.redirects => 302,
        16..40 => 304,
        _ => 200,
    }
}

#[cfg(test)]
mod tests;
