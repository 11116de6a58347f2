//! The program: arguments, configuration, then serve until SIGTERM or SIGINT, then an exit code.
//!
//! The only file that prints and the only one that knows exit codes: 0 ok, 1 failure, 2 wrong usage or configuration
//! (clap's own usage errors are 2 as well). Answers go to stdout, errors and the log to stderr. The main thread only
//! waits for signals; the daemon's threads are its own.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;

use clap::{CommandFactory as _, Parser};
use pinbad::args::{self, Args, Command, TablesFlags};
use pinbad::ask;
use pinbad::bench::{self, BenchOptions};
use pinbad::client::{ClientError, shown};
use pinbad::clock::SystemClock;
use pinbad::config::{Config, ConfigErrors, ConfigFlags};
use pinbad::daemon::{self, Daemon};
use pinbad::doctor::{self, Verdict};
use pinbad::handed::Handed;
use pinbad::heap;
use pinbad::import::{self, ImportError, ImportFlags};
use pinbad::load::{self, LoadOptions};
use pinbad::plan::MemoryPlan;
use pinbad::query::definitions::Definitions;
use pinbad::shutdown::Shutdown;
use pinbad::state;
use pinbad::supervisor;
use pinbad::tail::{self, TailError, TailFlags};
use pinbad::telemetry::log::{self, LogControl};
use pinbad::top::{self, Terminal, TopError, TopFlags};
use tokio::signal::unix::{Signal, SignalKind, signal};

const FAILURE: u8 = 1;
const BAD_CONFIGURATION: u8 = 2;

fn main() -> ExitCode {
    heap::share_arenas();
    match Args::parse().into_command() {
        Command::Serve(flags) => configured(&flags, |config| serve(&flags, config, None)),
        Command::Check(flags) => configured(&flags, check),
        Command::Load(options) => send_load(&options),
        Command::Demo(flags) => configured(&flags.config, |config| {
            serve(&flags.config, config, Some(flags.rate))
        }),
        Command::Tables(flags) => configured(&flags.config, |config| tables(config, &flags)),
        Command::Import(flags) => {
            let found = ConfigFlags {
                config: flags.config.clone(),
                ..ConfigFlags::default()
            };
            configured(&found, |config| import_dump(&flags, config))
        }
        Command::Top(flags) => show_top(&flags),
        Command::Query(flags) => {
            let stdout = std::io::stdout();
            let terminal = stdout.is_terminal();
            match ask::execute(&flags, terminal, std::io::stdin(), stdout) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) if error.is_usage() => {
                    complain(error);
                    ExitCode::from(BAD_CONFIGURATION)
                }
                Err(error) => fail(error),
            }
        }
        Command::Tail(flags) => tail_requests(&flags),
        Command::Doctor(flags) => configured(&flags, examine),
        Command::Man { dir } => man(dir.as_deref()),
        Command::Completions { shell } => say(args::completions(shell).trim_end()),
        Command::Bench(options) => measure(&options),
        Command::BenchPart(part) => match bench::run_part(part) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(error),
        },
    }
}

/// Runs `command` with the configuration, or says what is wrong with that.
fn configured(flags: &ConfigFlags, command: impl FnOnce(&Config) -> ExitCode) -> ExitCode {
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
    if let Err(errors) = daemon::check(config) {
        for error in errors {
            complain(error);
        }
        return ExitCode::from(BAD_CONFIGURATION);
    }
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
         HTTP   {}\n  MySQL  {}\n\n{}",
        udp.join(", "),
        config.ingest.receivers,
        shown(config.http.listen),
        shown(config.mysql.listen),
        MemoryPlan::of(config)
    ))
}

/// `pinbad doctor`: what this machine should have otherwise.
fn examine(config: &Config) -> ExitCode {
    let findings = doctor::examine(config);
    let text: Vec<String> = findings.iter().map(ToString::to_string).collect();
    let said = say(&text.join("\n"));
    let wrong = findings
        .iter()
        .any(|finding| finding.verdict == Verdict::Wrong);
    if wrong { ExitCode::from(FAILURE) } else { said }
}

/// `pinbad man`: the page on stdout, or all pages into a folder.
fn man(dir: Option<&std::path::Path>) -> ExitCode {
    if let Some(dir) = dir {
        return match clap_mangen::generate_to(Args::command(), dir) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(format!("cannot write to {}: {error}", dir.display())),
        };
    }
    let mut page = Vec::new();
    match clap_mangen::Man::new(Args::command()).render(&mut page) {
        Ok(()) => say(String::from_utf8_lossy(&page).trim_end()),
        Err(error) => fail(error),
    }
}

/// `pinbad tables`: a CREATE TABLE statement for everything that a daemon of this configuration would have.
fn tables(config: &Config, flags: &TablesFlags) -> ExitCode {
    let defaults = daemon::defaults(config);
    let mut definitions = match Definitions::new(&config.configured_reports, &defaults) {
        Ok(definitions) => definitions,
        Err(error) => {
            complain(error);
            return ExitCode::from(BAD_CONFIGURATION);
        }
    };
    if let Some(dir) = flags.state_dir.as_ref().or(config.state_dir.as_ref()) {
        let kept = match state::peek(dir) {
            Ok(kept) => kept,
            Err(problem) => return fail(problem),
        };
        for left_out in definitions.add_kept(&kept, &defaults) {
            complain(format!("left out {}: {}", left_out.name, left_out.reason));
        }
    }
    let statements = match flags.federated.as_deref() {
        None => definitions.statements(&defaults),
        Some(server) => match federated_server(server, config) {
            Ok(server) => definitions.federated_statements(&defaults, &server),
            Err(problem) => {
                complain(problem);
                return ExitCode::from(BAD_CONFIGURATION);
            }
        },
    };
    say(statements.trim_end())
}

/// Where a MariaDB in front finds the daemon, from what `--federated` was given: `mysql://user[:password]@host:port`, the
/// database left out; "" for the address of the configuration.
fn federated_server(given: &str, config: &Config) -> Result<String, String> {
    if given.is_empty() {
        let listen = config.mysql.listen.ok_or(
            "--federated: mysql.listen is off; accepted: a server, --federated=mysql://user:password@host:port",
        )?;
        return Ok(format!("mysql://pinba@{}/pinba", daemon::local(listen)));
    }
    let server = given.trim_end_matches('/');
    let server = server.strip_suffix("/pinba").unwrap_or(server);
    match server
        .strip_prefix("mysql://")
        .and_then(|rest| rest.rsplit_once('@'))
    {
        Some((user, host)) if !user.is_empty() && !host.is_empty() && !host.contains('/') => {
            Ok(format!("{server}/pinba"))
        }
        _ => Err(format!(
            "--federated={given}: not a server; accepted: mysql://user:password@host:port (the password may be left out)"
        )),
    }
}

/// `pinbad import`: the reports of an old database.
fn import_dump(flags: &ImportFlags, config: &Config) -> ExitCode {
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    match import::execute(flags, config, std::io::stdin(), &mut out, &mut err) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILURE),
        Err(ImportError::Remote(error @ ClientError::Usage(_))) => {
            complain(error);
            ExitCode::from(BAD_CONFIGURATION)
        }
        Err(error) => fail(error),
    }
}

/// `pinbad serve`: everything, until a signal says stop. With a demo rate, `pinbad demo`: the same, and traffic of its
/// own, sent to its first address. SIGHUP reads the configuration anew.
fn serve(flags: &ConfigFlags, config: &Config, demo_rate: Option<u32>) -> ExitCode {
    let log = match log::init(config.log.format, config.log.level.as_str()) {
        Ok(log) => log,
        Err(error) => return fail(error),
    };
    // Before any thread: it takes its variables out of the environment.
    let handed = match Handed::from_environment(config) {
        Ok(handed) => handed,
        Err(error) => return fail(error),
    };
    // Signals first: one that arrives while the daemon is still starting must not kill it half way.
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return fail(format!("cannot wait for signals: {error}")),
    };
    let started = Daemon::start_with(config, Arc::new(SystemClock::new()), handed);
    let daemon = match started {
        Ok(daemon) => daemon,
        Err(error) if error.is_configuration() => {
            complain(error);
            return ExitCode::from(BAD_CONFIGURATION);
        }
        Err(error) => return fail(error),
    };
    let shutdown = Shutdown::new();
    let traffic = demo_rate.and_then(|rate| start_demo(&daemon, rate, &shutdown));
    let catalog = Arc::clone(daemon.catalog());
    supervisor::watch(&shutdown, move || catalog.merger_runs());
    supervisor::ready();
    let mut in_force = config.clone();
    let signal = loop {
        match signals.wait() {
            "SIGHUP" => {
                supervisor::reloading();
                reload(&daemon, flags, &mut in_force, &log);
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
    match saved {
        Ok(()) => ExitCode::SUCCESS,
        // What went wrong is in the log.
        Err(_) => ExitCode::from(FAILURE),
    }
}

/// Reads the configuration anew, as at start. A bad one changes nothing.
fn reload(daemon: &Daemon, flags: &ConfigFlags, in_force: &mut Config, log: &LogControl) {
    let new = match Config::load(flags, std::env::vars_os()) {
        Ok(new) => new,
        Err(errors) => {
            for error in &errors.0 {
                tracing::error!(%error, "Cannot reload the configuration: the old one stays.");
            }
            return;
        }
    };
    match daemon.reload(in_force, &new) {
        Ok(reloaded) => {
            if let Err(error) = log.set(new.log.level.as_str()) {
                tracing::error!(%error, "Cannot change what is logged.");
            }
            reloaded.log();
        }
        Err(error) => {
            tracing::error!(%error, "Cannot reload the configuration: the old one stays.");
        }
    }
}

/// Sends the daemon what a small shop would, on a thread of its own.
fn start_demo(daemon: &Daemon, rate: u32, shutdown: &Shutdown) -> Option<JoinHandle<()>> {
    let target = daemon::local(*daemon.udp_addresses().first()?);
    let shutdown = shutdown.clone();
    let send = move || match load::demo::run(target, f64::from(rate), &shutdown) {
        Ok(counts) => tracing::info!(counts.sent, counts.refused, "The demo's traffic ended."),
        Err(error) => tracing::error!(%error, %target, "Cannot send the demo's traffic."),
    };
    if let Some(http) = daemon.http_address() {
        tracing::info!(rate, "A small shop sends requests. Look at http://{http}/");
    }
    std::thread::Builder::new()
        .name("demo".to_owned())
        .spawn(send)
        .ok()
}

/// `pinbad load`: packets to a daemon; ends early, with its totals, on a signal.
fn send_load(options: &LoadOptions) -> ExitCode {
    until_signal(|shutdown| {
        load::execute(
            options,
            shutdown,
            &mut std::io::stdout(),
            &mut std::io::stderr(),
        )
    })
}

/// `pinbad top`: a screen, or plain text; ends on a key or a signal, which is no failure.
fn show_top(flags: &TopFlags) -> ExitCode {
    let output = std::io::stdout().is_terminal();
    let interactive = output && std::io::stdin().is_terminal();
    let terminal = Terminal::of(interactive, output, colours_wanted());
    client_command(TopError::is_usage, |shutdown| {
        top::execute(flags, terminal, shutdown, &mut std::io::stdout())
    })
}

/// `pinbad tail`: requests as they pass; ends on a signal, which is no failure.
fn tail_requests(flags: &TailFlags) -> ExitCode {
    let stdout = std::io::stdout();
    let colour = stdout.is_terminal() && colours_wanted();
    client_command(TailError::is_usage, |shutdown| {
        tail::execute(flags, colour, shutdown, stdout, std::io::stderr())
    })
}

/// Runs a command until it ends or a signal comes, and tells a wrong command line from a failure.
fn client_command<E: std::fmt::Display>(
    is_usage: impl Fn(&E) -> bool,
    command: impl FnOnce(&Shutdown) -> Result<(), E>,
) -> ExitCode {
    let usage = std::cell::Cell::new(false);
    let ended =
        until_signal(|shutdown| command(shutdown).inspect_err(|error| usage.set(is_usage(error))));
    if usage.get() {
        ExitCode::from(BAD_CONFIGURATION)
    } else {
        ended
    }
}

/// What <https://no-color.org> says.
fn colours_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// `pinbad bench`: starts what it compares, and stops it again, also on a signal.
fn measure(options: &BenchOptions) -> ExitCode {
    until_signal(|shutdown| {
        bench::execute(
            options,
            shutdown,
            &mut std::io::stdout(),
            &mut std::io::stderr(),
        )
    })
}

/// Runs a command that ends by itself, or soon after a signal.
fn until_signal<E: std::fmt::Display>(
    command: impl FnOnce(&Shutdown) -> Result<(), E>,
) -> ExitCode {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return fail(format!("cannot wait for signals: {error}")),
    };
    let shutdown = Shutdown::new();
    let asked = shutdown.clone();
    // Not joined: it waits for a signal that may never come, and ends with the process.
    let waiting = std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            signals.wait();
            asked.request();
        });
    if let Err(error) = waiting {
        return fail(format!("cannot wait for signals: {error}"));
    }
    match command(&shutdown) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error),
    }
}

/// SIGTERM, SIGINT and SIGHUP, caught from the moment this exists.
struct Signals {
    runtime: tokio::runtime::Runtime,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let entered = runtime.enter();
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        let hangup = signal(SignalKind::hangup())?;
        drop(entered);
        Ok(Self {
            runtime,
            terminate,
            interrupt,
            hangup,
        })
    }

    /// Waits for any of them and says which it was.
    fn wait(&mut self) -> &'static str {
        self.runtime.block_on(async {
            tokio::select! {
                _ = self.terminate.recv() => "SIGTERM",
                _ = self.interrupt.recv() => "SIGINT",
                _ = self.hangup.recv() => "SIGHUP",
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
    // Refusals of a daemon quote names that came in packets.
    let problem = problem.to_string();
    let lines: Vec<_> = problem.lines().map(shown::visible).collect();
    eprintln!("pinbad: {}", lines.join("\n"));
}
