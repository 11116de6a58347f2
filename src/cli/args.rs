//! The command line: the command, and the settings that flags override.
//!
//! clap parses, and answers `--help`, `--version` and usage errors (exit code 2) by itself.
//! Settings are passed on as text and checked with the rest of the configuration, so `--http` and
//! `http.listen` in a file get the same error. Only `main` uses this module. Only commands that
//! exist are listed.

use std::path::PathBuf;

use clap::{Args as FlagGroup, Parser, Subcommand};
use clap_complete::Shell;

use crate::cli::alert::AlertCommand;
use crate::cli::doctor::DoctorFlags;
#[cfg(feature = "sql")]
use crate::cli::history::HistoryCommand;
use crate::cli::import::ImportFlags;
use crate::cli::import_log::ImportLogFlags;
use crate::cli::import_stat::ImportStatFlags;
use crate::cli::load::LoadOptions;
use crate::cli::query::QueryFlags;
use crate::cli::stat::StatCommand;
use crate::cli::tail::TailFlags;
use crate::cli::top::TopFlags;
use crate::config::ConfigFlags;

// No line is longer than 80: they are printed unwrapped, and a terminal may be that narrow.
const EXAMPLES: &str = include_str!("help/examples.txt");
const SETTINGS: &str = include_str!("help/settings.txt");
const IMPORT: &str = include_str!("help/import.txt");
const TOP: &str = include_str!("help/top.txt");
const TAIL: &str = include_str!("help/tail.txt");

/// A Pinba-compatible statistics daemon.
///
/// PHP applications with the Pinba extension send one UDP packet per request; pinbad shows, live,
/// what is slow, where, and since when. Without a command it serves, and it needs no configuration.
#[derive(Debug, Parser)]
#[command(
    name = "pinbad",
    version,
    args_conflicts_with_subcommands = true,
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n{SETTINGS}"),
    max_term_width = 110
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ConfigFlags,
}

impl Args {
    /// The command to run; `serve` when none is named.
    pub fn into_command(self) -> Command {
        self.command.unwrap_or(Command::Serve(self.serve))
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Receive packets and serve reports until SIGTERM or SIGINT (the default); SIGHUP reloads the
    /// configuration.
    #[command(after_help = SETTINGS)]
    Serve(ConfigFlags),
    /// Check the configuration with its secrets and certificates, and show the memory that serve
    /// would take, pool by pool.
    #[command(after_help = SETTINGS)]
    Check(ConfigFlags),
    /// Send realistic, reproducible packets at a given rate and print totals: a load generator for
    /// Pinba.
    Load(Box<LoadOptions>),
    /// Serve, with the generated traffic of a small shop: reports to look at within a minute.
    #[command(after_help = SETTINGS)]
    Demo(DemoFlags),
    /// Print the CREATE TABLE statements of all tables and reports: built-in, configured, and
    /// created at run time.
    #[command(after_help = SETTINGS)]
    Tables(Box<TablesFlags>),
    /// Create the reports of an existing Pinba database (either engine) in a running daemon, and
    /// list what cannot be imported.
    #[command(after_help = IMPORT)]
    Import(ImportFlags),
    /// Import logs of Squid into the past that a running daemon keeps, or send them as if they came
    /// now.
    #[command(after_help = include_str!("help/import_log.txt"))]
    ImportLog(ImportLogFlags),
    /// Give a dump of PHP's stat extension to a running daemon, as the extension would.
    #[command(after_help = include_str!("help/import_stat.txt"))]
    ImportStat(ImportStatFlags),
    /// Change settings of a running stat extension of PHP.
    #[command(subcommand)]
    Stat(StatCommand),
    /// Show live what is slow: scripts, servers, hosts, statuses, timers, single requests, any
    /// report.
    #[command(after_help = TOP)]
    Top(Box<TopFlags>),
    /// Print requests as a running daemon receives them.
    #[command(after_help = TAIL)]
    Tail(Box<TailFlags>),
    /// Query a running daemon in SQL: Pinba's tables and every report, in MySQL's dialect.
    #[command(after_help = include_str!("help/query.txt"))]
    Query(Box<QueryFlags>),
    /// Alerts of a running daemon: list them (ls), silence some of them for a while (silence), or
    /// play rules over the past (test).
    #[command(subcommand)]
    Alert(AlertCommand),
    /// Check this machine: kernel buffers, limits, ports, memory, secrets, folders; say what to
    /// change, and how much traffic the buffers hold.
    #[command(after_help = include_str!("help/doctor.txt"))]
    Doctor(Box<DoctorFlags>),
    /// List or verify the files of history, beside a running daemon.
    #[cfg(feature = "sql")]
    #[command(subcommand, after_help = include_str!("help/history.txt"))]
    History(HistoryCommand),
    /// Print the man page, or write the pages of all commands to a folder.
    Man {
        /// Write pinbad.1, pinbad-serve.1 and so on to this folder.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Print shell completions.
    #[command(after_help = include_str!("help/completions.txt"))]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// The flags of `tables`: the settings of `serve`, and where reports created at run time are kept.
#[derive(Debug, Clone, FlagGroup)]
pub struct TablesFlags {
    /// The settings, as for serve.
    #[command(flatten)]
    pub config: ConfigFlags,
    /// Where reports created at run time are kept [default: state.dir of the configuration].
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Print them for a MariaDB in front of pinbad (ENGINE=FEDERATED), which reaches it as this
    /// user at this address (SERVER: mysql://pinba@ and mysql.listen unless given).
    #[arg(long, value_name = "SERVER", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub federated: Option<String>,
    /// Print what makes the tables of ClickHouse, in clickhouse.database, and adds columns that
    /// older ones lack.
    #[cfg(feature = "sql")]
    #[arg(long, conflicts_with_all = ["federated", "state_dir"])]
    pub clickhouse: bool,
    /// With --clickhouse: for a cluster of this name, replicated and distributed.
    #[cfg(feature = "sql")]
    #[arg(long, value_name = "NAME", requires = "clickhouse")]
    pub cluster: Option<String>,
}

/// The flags of `demo`: the settings of `serve`, and a rate.
#[derive(Debug, Clone, FlagGroup)]
pub struct DemoFlags {
    /// The settings, as for serve.
    #[command(flatten)]
    pub config: ConfigFlags,
    /// Generated requests per second, on average; they rise and fall like those of a day.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 200)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: u32,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Args::try_parse_from(line.split_whitespace()).map(Args::into_command)
    }

    #[test]
    fn serve_is_the_default_command() {
        for line in
            ["pinbad --http 127.0.0.1:1 --set a.b=c", "pinbad serve --http 127.0.0.1:1 --set a.b=c"]
        {
            let Ok(Command::Serve(flags)) = parse(line) else { panic!("{line}") };
            assert_eq!(flags.http.as_deref(), Some("127.0.0.1:1"));
            assert_eq!(flags.set, ["a.b=c"]);
        }
    }

    #[test]
    fn check_takes_the_flags_of_serve() {
        let line = "pinbad check -c x.toml --udp 127.0.0.1:1 --udp [::1]:1 --log-format json";
        let Ok(Command::Check(flags)) = parse(line) else { panic!("{line}") };
        assert_eq!(flags.config, Some(PathBuf::from("x.toml")));
        assert_eq!(
            flags.shorthands(),
            [
                ("--udp", "ingest.listen", "127.0.0.1:1,[::1]:1".to_owned()),
                ("--log-format", "log.format", "json".to_owned()),
            ]
        );
    }

    #[test]
    fn usage_errors_have_code_2_and_help_has_0() {
        for (line, code) in [
            ("pinbad --nothing", 2),
            ("pinbad reticulate", 2),
            ("pinbad serve --set", 2),
            ("pinbad --http 127.0.0.1:1 check", 2),
            ("pinbad import", 2),
            ("pinbad import x --url y --print-config", 2),
            ("pinbad import --help", 0),
            ("pinbad tables --help", 0),
            ("pinbad --help", 0),
            ("pinbad check --help", 0),
            ("pinbad load --help", 0),
            ("pinbad demo --help", 0),
            ("pinbad doctor --help", 0),
            ("pinbad alert ls --help", 0),
            ("pinbad alert silence", 2),
            ("pinbad alert silence --end 1 a=b", 2),
            #[cfg(feature = "sql")]
            ("pinbad history ls", 2),
            #[cfg(feature = "sql")]
            ("pinbad history verify --help", 0),
            ("pinbad query", 2),
            ("pinbad query --help", 0),
            ("pinbad completions", 2),
            ("pinbad completions tcsh", 2),
            ("pinbad man --help", 0),
            ("pinbad tail --help", 0),
            ("pinbad tail --rate 0", 2),
            ("pinbad top --help", 0),
            ("pinbad top --interval 1ms", 2),
            ("pinbad top -n x", 2),
            ("pinbad --version", 0),
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), code, "{line}");
        }
    }

    #[test]
    fn the_definition_is_sound_and_help_shows_what_the_program_really_does() {
        let mut command = Args::command();
        command.clone().debug_assert();
        assert!(
            EXAMPLES
                .lines()
                .chain(SETTINGS.lines())
                .chain(IMPORT.lines())
                .chain(TAIL.lines())
                .chain(TOP.lines())
                .all(|line| line.len() <= 80)
        );
        let help = command.render_long_help().to_string();
        for (flag, key) in [
            ("--udp", "ingest.listen"),
            ("--http", "http.listen"),
            ("--mysql", "mysql.listen"),
            ("--data", "data.dir"),
            ("--log-format", "log.format"),
            ("--log-level", "log.level"),
        ] {
            let default = crate::config::key::find(key).unwrap().default;
            let default = format!("[default: {}]", default.trim_matches(['"', '[', ']']));
            let at = help.find(flag).unwrap_or_else(|| panic!("{flag}"));
            let end = help[at..].find("\n\n").map_or(help.len(), |end| at + end);
            let words = help[at..end].split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(&default), "{flag}: {words}");
        }
    }

    #[test]
    fn tables_and_import_take_what_they_need() {
        let Ok(Command::Tables(flags)) =
            parse("pinbad tables -c x.toml --state-dir /x --set a.b=c")
        else {
            panic!("not tables")
        };
        assert_eq!(flags.config.config, Some(PathBuf::from("x.toml")));
        assert_eq!(flags.state_dir, Some(PathBuf::from("/x")));
        // As the daemon's own flag for that address.
        let Ok(Command::Import(flags)) = parse("pinbad import - --http http://h:1") else {
            panic!("not import")
        };
        let Ok(Command::Query(query)) = parse("pinbad query x --http h:1") else {
            panic!("not query")
        };
        assert_eq!(query.client.url, "h:1");
        assert_eq!((flags.file, flags.url.as_deref()), (PathBuf::from("-"), Some("http://h:1")));
        assert!(
            matches!(parse("pinbad import x --print-config"), Ok(Command::Import(f)) if f.print_config)
        );
    }

    #[test]
    fn demo_takes_a_rate_beside_the_settings() {
        let Ok(Command::Demo(flags)) = parse("pinbad demo --rate 50 --set a.b=c") else {
            panic!("not demo")
        };
        assert_eq!((flags.rate, flags.config.set.len()), (50, 1));
        assert!(parse("pinbad demo --rate 0").is_err());
    }
}
