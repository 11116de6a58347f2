//! The program: arguments, configuration, then serve until SIGTERM or SIGINT, then an exit code.
//!
//! The only file that prints and the only one that knows exit codes: 0 ok, 1 failure, 2 wrong usage or configuration
//! (clap's own usage errors are 2 as well). Answers go to stdout, errors and the log to stderr. The main thread only
//! waits for signals; the daemon's threads are its own.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use pinbad::clock::SystemClock;
use pinbad::config::args::{Args, Command, ConfigFlags};
use pinbad::config::{Config, ConfigErrors, MemoryPlan};
use pinbad::daemon::Daemon;
use pinbad::telemetry::log;
use tokio::signal::unix::{Signal, SignalKind, signal};

const FAILURE: u8 = 1;
const BAD_CONFIGURATION: u8 = 2;

fn main() -> ExitCode {
    match Args::parse().into_command() {
        Command::Serve(flags) => configured(&flags, serve),
        Command::Check(flags) => configured(&flags, check),
    }
}

/// Runs `command` with the configuration, or says what is wrong with that.
fn configured(flags: &ConfigFlags, command: fn(&Config) -> ExitCode) -> ExitCode {
    match Config::load(flags, std::env::vars_os()) {
        Ok(config) => command(&config),
        Err(errors) => refuse(&errors),
    }
}

fn refuse(errors: &ConfigErrors) -> ExitCode {
    for error in &errors.0 {
        complain(error);
    }
    ExitCode::from(BAD_CONFIGURATION)
}

/// `pinbad check`: what would listen where, and the memory plan.
fn check(config: &Config) -> ExitCode {
    let shown = |front: Option<std::net::SocketAddr>| {
        front.map_or_else(|| "off".to_owned(), |address| address.to_string())
    };
    let udp: Vec<String> = config
        .ingest
        .listen
        .iter()
        .map(ToString::to_string)
        .collect();
    say(&format!(
        "The configuration is right.\n  UDP    {}; sockets per address: {}\n  \
         HTTP   {}\n  MySQL  {} (not served yet)\n\n{}",
        udp.join(", "),
        config.ingest.receivers,
        shown(config.http.listen),
        shown(config.mysql.listen),
        MemoryPlan::of(config)
    ))
}

/// `pinbad serve`: everything, until a signal says stop.
fn serve(config: &Config) -> ExitCode {
    if let Err(error) = log::init(config.log.format, config.log.level.as_str()) {
        return fail(error);
    }
    // Signals first: one that arrives while the daemon is still starting must not kill it half way.
    let stop = match StopSignals::listen() {
        Ok(stop) => stop,
        Err(error) => return fail(format!("cannot wait for signals: {error}")),
    };
    let daemon = match Daemon::start(config, Arc::new(SystemClock::new())) {
        Ok(daemon) => daemon,
        Err(error) => return fail(error),
    };
    let signal = stop.wait();
    tracing::info!(signal, "Stopping.");
    daemon.stop();
    tracing::info!("Stopped.");
    ExitCode::SUCCESS
}

/// SIGTERM and SIGINT, caught from the moment this exists.
struct StopSignals {
    runtime: tokio::runtime::Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn listen() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let entered = runtime.enter();
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        drop(entered);
        Ok(Self {
            runtime,
            terminate,
            interrupt,
        })
    }

    /// Waits for either and says which it was.
    fn wait(mut self) -> &'static str {
        self.runtime.block_on(async {
            tokio::select! {
                _ = self.terminate.recv() => "SIGTERM",
                _ = self.interrupt.recv() => "SIGINT",
            }
        })
    }
}

/// An answer on stdout. A reader that goes away (`| head`) is no failure of ours.
fn say(answer: &str) -> ExitCode {
    match writeln!(std::io::stdout(), "{answer}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(format!("cannot write: {error}")),
    }
}

fn fail(problem: impl std::fmt::Display) -> ExitCode {
    complain(problem);
    ExitCode::from(FAILURE)
}

#[expect(
    clippy::print_stderr,
    reason = "errors of the command line have no other way out"
)]
fn complain(problem: impl std::fmt::Display) {
    eprintln!("pinbad: {problem}");
}
