//! The folder `state.dir` as others on the machine see it: nobody else can read what the daemon
//! makes there, and what lies there in the place of a file does not hold up its start.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::harness::{Program, clean, program, run};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// With a umask that forbids nothing, and with one that forbids all, also to the owner.
#[test]
fn what_it_makes_is_its_owners_alone_whatever_the_umask() {
    for umask in ["000", "777"] {
        let dir = tempfile::tempdir().unwrap();
        let above = dir.path().join("made");
        let made = above.join("too");
        let there = dir.path().join("there");
        fs::create_dir(&there).unwrap();
        fs::set_permissions(&there, Permissions::from_mode(0o755)).unwrap();
        for (folder, folder_mode) in [(&made, 0o700), (&there, 0o755)] {
            let mut command = clean(Command::new("sh"));
            let script = format!("umask {umask}; exec \"$0\" \"$@\"");
            command.args(["-c", &script, &program()]);
            let setting = format!("state.dir={}", folder.display());
            let mut program = Program::start_as(command, &["serve"], &[&setting]);
            let report = r#"{"name": "mine", "comment": "report1"}"#;
            assert_eq!(program.site.post("/api/v1/reports", report).status, 201);
            program.signal("TERM");
            assert_eq!(program.wait().0.code(), Some(0));
            assert_eq!(mode(folder), folder_mode, "umask {umask}: {folder:?}");
            let mut names = Vec::new();
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                assert_eq!(mode(&entry.path()), 0o600, "umask {umask}: {entry:?}");
                names.push(entry.file_name().into_string().unwrap());
            }
            names.sort();
            assert_eq!(names, ["reports.json", "snapshot"]);
        }
        assert_eq!(mode(&above), 0o700, "umask {umask}");
    }
}

/// Pipes that nobody writes to, in the place of every file that it reads or writes.
#[test]
fn pipes_in_the_place_of_its_files_hold_up_neither_start_nor_stop() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let names = ["reports.json", "reports.json.new", "snapshot", "snapshot.new"];
    let made = run(Command::new("mkfifo").args(names.map(path)));
    assert_eq!(made.code, Some(0), "{made:?}");
    // It would wait for ever: the tests do not, nor leave it behind.
    let mut command = clean(Command::new("timeout"));
    command.args(["--signal=KILL", "120", "setpriv", "--pdeathsig=KILL", &program()]);
    let setting = format!("state.dir={}", dir.path().display());
    let mut program = Program::start_as(command, &["serve"], &[&setting]);
    let log = program.log();
    for aside in ["reports.json.corrupt-", "snapshot.damaged-"] {
        let named =
            log.iter().find(|line| line["set_aside"].as_str().is_some_and(|it| it.contains(aside)));
        let named = named.unwrap_or_else(|| panic!("{aside}: {log:?}"));
        assert_eq!(named["level"], "ERROR", "{named}");
        assert_eq!(named["reason"], "it is a named pipe, not a regular file", "{named}");
    }
    let report = r#"{"name": "mine", "comment": "report1"}"#;
    assert_eq!(program.site.post("/api/v1/reports", report).status, 201);
    program.signal("TERM");
    assert_eq!(program.wait().0.code(), Some(0));
    for name in ["reports.json", "snapshot"] {
        assert!(fs::metadata(path(name)).unwrap().is_file(), "{name}");
    }
}
