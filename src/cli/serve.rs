//! `pinbad serve` and `pinbad demo`: run the daemon until SIGTERM or SIGINT. SIGHUP reloads the
//! configuration.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::{Failure, load, signals};

use tracing::subscriber::{NoSubscriber, with_default};
use tracing_subscriber::filter::LevelFilter;

use crate::clock::SystemClock;
use crate::config::data_folder::TemporaryFolder;
use crate::config::location::Location;
use crate::config::units::rounded_bytes;
use crate::config::{Config, ConfigErrors, ConfigFlags};
use crate::daemon::memory_limit::{self, Scaled};
use crate::daemon::socket_activation::ActivatedSockets;
use crate::daemon::{self, Daemon, StartError, supervisor};
use crate::shutdown::Shutdown;
use crate::state::files::{self, Opened};
use crate::telemetry::log::{self, LogControl};

/// Runs the daemon; with a demo rate, also sends traffic to its first address.
///
/// # Errors
/// Fails if the configuration is invalid, the daemon cannot start, or the last snapshot cannot be
/// written.
pub fn execute(flags: &ConfigFlags, demo_rate: Option<u32>) -> Result<(), Failure> {
    // First: one that arrives during the start means the configuration, which is read anyway.
    let mut caught = signals::hangup()?;
    // Outlives the daemon.
    let folder = demo_rate.and_then(|_| TemporaryFolder::new().ok());
    let removed = folder.as_ref().map_or(&[][..], |it| &it.removed);
    let folder = folder.as_ref().map(TemporaryFolder::path);
    let load = || {
        let config = match demo_rate {
            Some(_) => demo_config(flags, folder),
            None => Config::from_environment(flags),
        };
        let mut config = config.map_err(Failure::of_configuration)?;
        let scaled = memory_limit::fit(&mut config).map_err(Failure::usage)?;
        Ok((config, scaled))
    };
    let (mut config, scaled) = load()?;
    let log = log::init(config.log.format, config.log.level).map_err(Failure::failed)?;
    for dir in removed {
        tracing::info!(dir = %dir.display(), "Removed the folder of a demo that was killed.");
    }
    if let Some(Scaled { limit, settings }) = scaled {
        tracing::warn!(
            settings = settings.join(" "),
            "The control group has a memory limit of {}: settings left at their defaults were reduced so that the plan fits. \
             `pinbad check` names the limit that holds them all.",
            rounded_bytes(limit)
        );
    }
    // Before any thread starts, since it removes its variables from the environment.
    let activated = ActivatedSockets::from_environment(&config).map_err(Failure::failed)?;
    // One that arrives during startup must not kill the daemon half way.
    signals::add_others(&caught)?;
    let daemon = Daemon::start_with(&config, Arc::new(SystemClock::new()), activated);
    let daemon = daemon.map_err(|error| whole(&config, error))?;
    let shutdown = Shutdown::new();
    let traffic = demo_rate.and_then(|rate| start_demo(&daemon, rate, &shutdown));
    let catalog = Arc::clone(daemon.catalog());
    supervisor::watch(&shutdown, move || catalog.merger_runs());
    supervisor::ready();
    let signal = loop {
        match signals::wait(&mut caught) {
            "SIGHUP" => {
                supervisor::reloading();
                let loaded = readable_again(flags).and_then(|()| load());
                reload(&daemon, loaded, &mut config, &log);
                supervisor::ready();
            }
            stop => break stop,
        }
    };
    tracing::info!(signal, "Stopping.");
    supervisor::stopping();
    shutdown.request();
    if let Some(traffic) = traffic
        && traffic.join().is_err()
    {
        tracing::warn!("The demo's traffic ended in a panic.");
    }
    let saved = daemon.stop();
    tracing::info!("Stopped.");
    // The error was logged.
    saved.map_err(|_| Failure::reported())
}

/// The alerts of a demo: they watch the search, which is slow for half a minute out of three.
const DEMO_ALERTS: &str = include_str!("load/demo/alerts.toml");

/// The configuration of a demo. Its history lies in `folder` unless the flags name another; nothing
/// survives.
fn demo_config(flags: &ConfigFlags, folder: Option<&Path>) -> Result<Config, ConfigErrors> {
    let usual = folder.map(|folder| Ok(folder.to_owned()));
    let mut config = Config::load_beside(flags, std::env::vars_os(), usual)?;
    if config.alerts.is_empty() && config.slos.is_empty() {
        let demo = Config::from_toml("demo", DEMO_ALERTS)?;
        (config.alerts, config.slos) = (demo.alerts, demo.slos);
    }
    if config.releases == Config::default().releases {
        config.releases.after = load::demo::RELEASE_AFTER;
    }
    if folder.is_some() && config.data.dir.as_deref() == folder {
        config.state.dir =
            config.state.dir.filter(|dir| folder.is_none_or(|folder| !dir.starts_with(folder)));
    }
    Ok(config)
}

/// All that is wrong with a configuration of which one error has ended the start.
fn whole(config: &Config, error: StartError) -> Failure {
    // What it warns of was logged by the start.
    match with_default(NoSubscriber::new(), || daemon::check(config)) {
        Err(errors) if error.is_configuration() => Failure::misconfigured(&errors),
        _ => error.into(),
    }
}

/// Fails if the configuration came through a pipe, as in `--config <(...)`: to read that again
/// would be to wait for somebody to write to it.
fn readable_again(flags: &ConfigFlags) -> Result<(), Failure> {
    let variables: Vec<_> = std::env::vars_os().collect();
    let Some((named_by, path)) = Config::file(flags, &variables) else { return Ok(()) };
    match files::open(&path) {
        Ok(Opened::Other(reason)) => {
            let place = Location::whole(named_by, "");
            Err(Failure::usage(format!("{place}: cannot read {} again: {reason}", path.display())))
        }
        // What else is wrong, reading finds.
        _ => Ok(()),
    }
}

/// Applies the current configuration file. An invalid one changes nothing, and neither does one
/// with which the next start would fail.
fn reload(
    daemon: &Daemon,
    loaded: Result<(Config, Option<Scaled>), Failure>,
    config: &mut Config,
    log: &LogControl,
) {
    let reloaded = loaded.and_then(|(new, _)| {
        // What it warns of, the reload itself logs.
        let checked = with_default(NoSubscriber::new(), || daemon::check(&new));
        checked.map_err(|errors| Failure::misconfigured(&errors))?;
        daemon.reload(config, &new).map_err(Failure::failed)?;
        // The log lives as long as the program.
        let _set = log.reload(LevelFilter::from_level(new.log.level));
        Ok(())
    });
    let problems = reloaded.err().map_or_else(Vec::new, |failure| failure.problems);
    daemon.has_reloaded(problems.first().map(ToString::to_string));
    for error in problems {
        tracing::error!(%error, "Cannot reload the configuration: the old one stays.");
    }
}

/// Sends the daemon the traffic of a small shop, on a thread of its own.
fn start_demo(daemon: &Daemon, rate: u32, shutdown: &Shutdown) -> Option<JoinHandle<()>> {
    let target = daemon::local(*daemon.udp_addresses().first()?);
    let shutdown = shutdown.clone();
    let send = move || match load::demo::run(target, f64::from(rate), &shutdown) {
        Ok((sent, refused)) => tracing::info!(sent, refused, "The demo's traffic ended."),
        Err(error) => tracing::error!(%error, %target, "Cannot send the demo's traffic."),
    };
    if let Some(http) = daemon.http_address() {
        tracing::info!(rate, "A small shop sends requests. Look at http://{http}/");
    }
    std::thread::Builder::new().name("demo".to_owned()).spawn(send).ok()
}
