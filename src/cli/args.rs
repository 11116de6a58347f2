//! The command line: which command, and which settings it overrides.
//!
//! clap parses and answers `--help`, `--version` and usage errors (exit code 2) by itself; everything that is a
//! setting is handed on as text and checked with the rest of the configuration, so `--http` and `http.listen` in a
//! file get the same error. Only `main` uses this. Only commands that exist are listed.

use std::path::PathBuf;

use clap::{Args as FlagGroup, Parser, Subcommand};
use clap_complete::Shell;

use crate::cli::import::ImportFlags;
use crate::cli::load::LoadOptions;
use crate::cli::query::QueryFlags;
use crate::cli::tail::TailFlags;
use crate::cli::top::TopFlags;
use crate::config::ConfigFlags;

// No line longer than 80: these are shown as they stand, and a terminal may be that narrow.
const EXAMPLES: &str = "\
Examples:
  pinbad                                  UDP port 30002, HTTP 127.0.0.1:30080
  pinbad --config /etc/pinbad.toml        with a configuration file
  pinbad --udp 127.0.0.1:30002 --udp '[::1]:30002' --set pool.stats_history=1h
  pinbad check --config /etc/pinbad.toml  validate it, show the memory it takes
  pinbad demo                             with generated traffic, to look around
";

const SETTINGS: &str = "\
Settings:
  Flags override the environment, which overrides the file, which overrides the
  defaults. Any key of the file can be a flag, its value TOML or plain text:
      --set pool.stats_history=60s
      --set 'report=[{name = \"by_group\", comment = \"tag_info:group\"}]'
  Sizes: 64MB is 64 x 1000 x 1000 bytes, 64MiB is 64 x 1024 x 1024; a plain
  number is bytes. Durations: 10ms, 15m, 1h30m, 7d; a plain number is seconds.
  config/pinbad.toml documents every key: default, range and cost.
  [[user]] entries say who may log in over HTTP and MySQL; their secrets are in
  files or in the environment, never in flags, which ps would show.

Environment:
  PINBAD_CONFIG        the configuration file, unless --config names one
  PINBAD_SECTION_KEY   any key, for example PINBAD_POOL_STATS_HISTORY=60s

Restarts:
  With state.dir, rows, reports and counters survive a restart; with sockets
  from systemd (LISTEN_FDS) no packet is lost. SIGHUP reloads the configuration.

Exit codes: 0 ok, 1 failure, 2 wrong usage or configuration.
";

const QUERY: &str = "\
Examples:
  pinbad query 'SHOW TABLES'
  pinbad query 'SELECT script_name, req_count, p95 FROM report_by_script_name
                ORDER BY req_time_total DESC LIMIT 10'
  pinbad query --format csv 'SELECT * FROM request WHERE req_time > 1' > slow.csv
  pinbad query 'SELECT count(*) FROM request; SELECT count(*) FROM timer'
  pinbad query - < statements.sql

Several statements run one after the other, each in a session of its own; the
first that fails ends the command, and the message has its number.

Exit codes: 0 ok, 1 failure or a statement that fails, 2 wrong usage.
";

const DOCTOR: &str = "\
Briefly binds the addresses that serve would bind: run it before the daemon, or
it reports them as in use. Run it as the user that the daemon will run as.
`better` works and could work better; `wrong` would not start, would lose
packets, or could not keep what should survive a restart.

Exit codes: 0 nothing is wrong, 1 something is, 2 wrong usage or configuration.
";

const COMPLETIONS: &str = "\
Examples:
  pinbad completions bash > /etc/bash_completion.d/pinbad
  pinbad completions zsh > ~/.zfunc/_pinbad
  pinbad completions fish > ~/.config/fish/completions/pinbad.fish
";

const IMPORT: &str = "\
Examples:
  mysqldump --no-data pinba | pinbad import -
  pinbad import pinba.sql --url http://127.0.0.1:30080
  pinbad import pinba.sql --print-config >> /etc/pinbad.toml

Exit codes: 0 all imported or already there, 1 something was not, 2 wrong usage
or configuration.
";

const TOP: &str = "\
Examples:
  pinbad top                              which scripts take the time
  pinbad top --report by_group --sort p95 any report, by any of its columns
  pinbad top --url http://stats:30080     a daemon elsewhere
  pinbad top --once | head -20            plain text

Keys: ? lists them. Enter on a script opens its timers and slowest requests,
Enter on a request its timers.

Environment:
  PINBAD_TOKEN   the token to send, unless --token-file names one
  NO_COLOR       if set and not empty: no colours

Exit codes: 0 ended by q, Ctrl-C or a signal; 1 failure; 2 wrong usage.
";

const TAIL: &str = "\
Examples:
  pinbad tail --min-time 500ms            slow requests, as they happen
  pinbad tail --script /checkout --timers with the timers of each
  pinbad tail --status 500 --json | jq .  for programs: one object per line
  pinbad tail --rate 5                    a sample of a busy site

Environment:
  PINBAD_TOKEN   the token to send, unless --token-file names one
  NO_COLOR       if set and not empty: no colours

A line on stderr reports a lost connection, and how many requests were missed
because this end (or what reads its output) was too slow.

Exit codes: 0 done, or stopped by Ctrl-C; 1 failure; 2 wrong usage.
";

/// A Pinba-compatible statistics daemon.
///
/// PHP applications with the Pinba extension send one UDP packet per request; pinbad shows, live, what is slow, where,
/// and since when. Without a command it serves, and it needs no configuration.
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
    /// Receive packets and serve reports until SIGTERM or SIGINT (the default); SIGHUP reloads the configuration.
    #[command(after_help = SETTINGS)]
    Serve(ConfigFlags),
    /// Check the configuration with its secrets and certificates, and show the memory that serve would take, pool by pool.
    #[command(after_help = SETTINGS)]
    Check(ConfigFlags),
    /// Send realistic, reproducible packets at a given rate and print totals: a load generator for Pinba.
    Load(Box<LoadOptions>),
    /// Serve, with the generated traffic of a small shop: reports to look at within a minute.
    #[command(after_help = SETTINGS)]
    Demo(DemoFlags),
    /// Print the CREATE TABLE statements of all tables and reports: built-in, configured, and created at run time.
    #[command(after_help = SETTINGS)]
    Tables(Box<TablesFlags>),
    /// Create the reports of an existing Pinba database (either engine) in a running daemon, and list what cannot be imported.
    #[command(after_help = IMPORT)]
    Import(ImportFlags),
    /// Show live what is slow: scripts, servers, hosts, statuses, timers, single requests, any report.
    #[command(after_help = TOP)]
    Top(Box<TopFlags>),
    /// Print requests as a running daemon receives them.
    #[command(after_help = TAIL)]
    Tail(Box<TailFlags>),
    /// Query a running daemon in SQL: Pinba's tables and every report, in MySQL's dialect.
    #[command(after_help = QUERY)]
    Query(Box<QueryFlags>),
    /// Check this machine: kernel buffers, limits, ports, memory, secrets, folders; say what to change, and how much
    /// traffic the buffers hold.
    #[command(after_help = DOCTOR)]
    Doctor(ConfigFlags),
    /// Print the man page, or write the pages of all commands to a folder.
    Man {
        /// Write pinbad.1, pinbad-serve.1 and so on to this folder.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Print shell completions.
    #[command(after_help = COMPLETIONS)]
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
    /// Print them for a MariaDB in front of pinbad (ENGINE=FEDERATED), which reaches it as this user at this address
    /// (SERVER: mysql://pinba@ and mysql.listen unless given).
    #[arg(long, value_name = "SERVER", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub federated: Option<String>,
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
        for line in [
            "pinbad --http 127.0.0.1:1 --set a.b=c",
            "pinbad serve --http 127.0.0.1:1 --set a.b=c",
        ] {
            let Ok(Command::Serve(flags)) = parse(line) else {
                panic!("{line}")
            };
            assert_eq!(flags.http.as_deref(), Some("127.0.0.1:1"));
            assert_eq!(flags.set, ["a.b=c"]);
        }
    }

    #[test]
    fn check_takes_the_flags_of_serve() {
        let line = "pinbad check -c x.toml --udp 127.0.0.1:1 --udp [::1]:1 --log-format json";
        let Ok(Command::Check(flags)) = parse(line) else {
            panic!("{line}")
        };
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
            ("--log-format", "log.format"),
            ("--log-level", "log.level"),
        ] {
            let default = crate::config::settings::find(key).unwrap().default;
            let default = format!("[default: {}]", default.trim_matches(['"', '[', ']']));
            let at = help.find(flag).unwrap_or_else(|| panic!("{flag}"));
            let end = help[at..].find("\n\n").map_or(help.len(), |end| at + end);
            let words = help[at..end]
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
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
        let Ok(Command::Import(flags)) = parse("pinbad import - --url http://h:1") else {
            panic!("not import")
        };
        assert_eq!(
            (flags.file, flags.url.as_deref()),
            (PathBuf::from("-"), Some("http://h:1"))
        );
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
