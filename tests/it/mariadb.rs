//! A MariaDB server of the test's own: an empty data directory, a socket in it, no network. Stopped
//! when it is dropped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::{Running, Said, await_condition, run, run_within};

/// A running server.
#[derive(Debug)]
pub(crate) struct MariaDb {
    dir: tempfile::TempDir,
    /// Nothing in it is worth a clean end.
    _server: Running,
}

impl MariaDb {
    /// Starts one with these options more.
    pub(crate) fn start(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let user = run(Command::new("id").arg("-un")).out;
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        // Without grants it needs no tables of its own, and is there in two seconds.
        let mut command = Command::new(server_program());
        command
            .args(["--no-defaults", "--skip-networking", "--skip-grant-tables"])
            .arg(format!("--user={}", user.trim()))
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", dir.path().join("socket").display()))
            .args(["--innodb-buffer-pool-size=16M", "--plugin-maturity=gamma"]);
        // Where run.sh has unpacked the engines that the package of the server alone does not have.
        let unpacked = Path::new(env!("CARGO_BIN_EXE_pinbad"));
        let unpacked = unpacked.ancestors().nth(2).unwrap();
        let unpacked = unpacked.join("clients/mariadb/usr/lib/mysql/plugin");
        if unpacked.exists() {
            command.arg(format!("--plugin-dir={}", unpacked.display()));
        }
        let child = command
            .args(options)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self { dir, _server: Running(child) };
        await_condition("MariaDB answers", || {
            let said = server.try_sql("SELECT 1");
            if said.code == Some(0) { Ok(()) } else { Err((said, server.log())) }
        });
        server
    }

    /// Runs statements in a client and returns its exit code and output.
    pub(crate) fn try_sql(&self, statements: &str) -> Said {
        // Thirty tables are made in one go, each asked for first.
        let mut command = Command::new("mariadb");
        command
            .args(["--no-defaults", "--default-character-set=utf8mb4", "-u", "root", "--batch"])
            .arg(format!("--socket={}", self.dir.path().join("socket").display()))
            .args(["-e", statements])
            .env("LC_ALL", "C.UTF-8");
        run_within(Duration::from_mins(5), &mut command)
    }

    /// The same where nothing may go wrong: rows, columns apart by tabs, their names first.
    #[track_caller]
    pub(crate) fn sql(&self, statements: &str) -> String {
        let said = self.try_sql(statements);
        assert_eq!(said.code, Some(0), "{statements}\n{}\n{}", said.err, self.log());
        said.out
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

/// Debian has the server where only root's path looks.
fn server_program() -> PathBuf {
    let there = PathBuf::from("/usr/sbin/mariadbd");
    if there.exists() { there } else { PathBuf::from("mariadbd") }
}
