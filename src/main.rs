//! The program: arguments, one command, its exit code.
//!
//! Exit codes are 0 ok, 1 failure, 2 wrong usage or configuration (clap's own usage errors are 2 as
//! well). The main thread of `serve` only waits for signals; the daemon's threads are its own.

use std::io::{ErrorKind, IsTerminal, stderr, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use pinbad::cli::args::{Args, Command};
use pinbad::cli::signals::until_signal;
use pinbad::cli::stat::StatCommand;
use pinbad::cli::{
    Failure, alert, check, complain, doctor, import, import_log, import_stat, load, man, query,
    serve, stat, tables, tail, top,
};
use pinbad::config::{Config, ConfigFlags};
use pinbad::daemon::malloc;

fn main() -> ExitCode {
    malloc::set_up();
    let done = match Args::try_parse() {
        Ok(args) => run(args.into_command()),
        // Wrong usage, or help, which was asked for.
        Err(text) => text.print().map_err(Failure::write).and_then(|()| match text.exit_code() {
            0 => Ok(()),
            _ => Err(Failure { code: 2, problems: Vec::new() }),
        }),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.problems.iter().for_each(complain);
            ExitCode::from(failure.code)
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(flags) => serve::execute(&flags, None),
        Command::Demo(flags) => serve::execute(&flags.config, Some(flags.rate)),
        Command::Check(flags) => check::execute(&flags),
        Command::Doctor(flags) => doctor::execute(&flags),
        Command::Tables(flags) => tables::execute(&flags),
        #[cfg(feature = "sql")]
        Command::History(command) => pinbad::cli::history::execute(&command),
        Command::Alert(command) => alert::execute(&command),
        Command::Man { dir } => man::man(dir.as_deref()),
        Command::Completions { shell } => man::completions(shell),
        Command::Load(options) => until_signal(|shutdown| {
            let done = load::execute(&options, shutdown, &mut stdout(), &mut stderr());
            done.map_err(|error| match error.kind() {
                ErrorKind::BrokenPipe => Failure::write(error),
                _ => Failure::failed(error),
            })
        }),
        Command::ImportLog(flags) => {
            let config = configured(flags.config.as_ref())?;
            import_log::execute(&flags, &config, stdin(), &mut stdout(), &mut stderr())
        }
        Command::ImportStat(flags) => {
            let config = configured(flags.config.as_ref())?;
            import_stat::execute(&flags, &config, stdin(), &mut stdout())
        }
        Command::Stat(StatCommand::Set(flags)) => {
            let config = configured(flags.config.as_ref())?;
            stat::execute(&flags, &config, stdin().lock(), &mut stdout())
        }
        Command::Import(flags) => {
            let config = configured(flags.config.as_ref())?;
            match import::execute(&flags, &config, stdin(), &mut stdout(), &mut stderr()) {
                Ok(true) => Ok(()),
                Ok(false) => Err(Failure::reported()),
                Err(failure) => Err(failure),
            }
        }
        Command::Query(flags) => query::execute(&flags, stdout().is_terminal(), stdin(), stdout()),
        Command::Top(flags) => {
            until_signal(|shutdown| top::execute(&flags, colours_wanted(), shutdown))
        }
        Command::Tail(flags) => until_signal(|shutdown| {
            let colour = stdout().is_terminal() && colours_wanted();
            tail::execute(&flags, colour, shutdown, stdout(), stderr())
        }),
    }
}

/// The configuration of a daemon, from its file and the environment.
fn configured(file: Option<&PathBuf>) -> Result<Config, Failure> {
    let flags = ConfigFlags { config: file.cloned(), ..ConfigFlags::default() };
    Ok(Config::from_environment(&flags)?)
}

/// Whether output may be coloured, according to <https://no-color.org>.
fn colours_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
