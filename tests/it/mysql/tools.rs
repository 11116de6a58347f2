//! How the tests run other people's clients.
//!
//! `tests/run.sh` installs them (Debian's packages; for Python and Node in a folder beside the
//! build) and leaves out the tests of those it cannot have. A client's script stands in
//! `tests/clients`, is given host and port, and prints "ok".

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::harness::{Said, run_within};

/// How long a client may take. Some ask hundreds of statements, or compile first; and queries give
/// way to whatever else the machine does, so that in a debug build on busy cores each may take a
/// second.
const PATIENCE: Duration = Duration::from_mins(5);

/// A script of `tests/clients`.
pub(super) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// A tool of MariaDB, asking this daemon; options of the machine are not read.
pub(crate) fn tool(name: &str, mysql: SocketAddr) -> Command {
    let mut command = Command::new(name);
    command
        .arg("--no-defaults")
        .args(["-h", &mysql.ip().to_string(), "-P", &mysql.port().to_string()])
        .env("HOME", "/nonexistent")
        .env("LC_ALL", "C.UTF-8");
    command
}

/// Runs a client's script to its end, which must be "ok".
#[track_caller]
pub(super) fn assert_ok(command: &mut Command, mysql: SocketAddr) {
    command.args([mysql.ip().to_string(), mysql.port().to_string()]);
    let said = run_within(PATIENCE, command);
    assert!(
        said.code == Some(0) && said.out.trim_end().ends_with("ok"),
        "{command:?}\n{}\n{}",
        said.out,
        said.err
    );
}

/// Runs a tool to its end, which must be a good one.
#[track_caller]
pub(crate) fn fine(command: &mut Command) -> Said {
    let said = run_within(PATIENCE, command);
    assert_eq!(said.code, Some(0), "{command:?}\n{}\n{}", said.out, said.err);
    said
}
