//! A folder of the state that is full, read-only, or has room again.

use super::*;

/// A state.dir on which nothing can be written: the daemon works, says so, and ends with a failure
/// because it could not keep what it had.
#[test]
fn a_full_or_read_only_disk_is_said_and_the_old_snapshot_stays() {
    let Some(place) = SmallDisk::mount("256k") else {
        return;
    };
    let settings = settings(place.path());
    let mut program = Program::serve(&refs(&settings));
    program.site.send((0..50).map(packet));
    program.signal("TERM");
    assert_eq!(program.wait().0.code(), Some(0));
    let kept = std::fs::read(place.path().join("snapshot")).unwrap();

    let filler = place.path().join("filler");
    let mut lasts = ["", "The last stop could not write its snapshot."].into_iter();
    for (how, undo) in [("full", ""), ("ro", "rw")] {
        if how == "full" {
            let filled = std::fs::write(&filler, vec![1; 1 << 20]);
            assert!(filled.is_err(), "the disk was to be full");
            // The folder could be made there.
            let new = place.path().join("new");
            let said = run(pinbad().args(["check", "--data"]).arg(&new));
            assert_has!(said.err => "state.dir: cannot write to", "No space left", "make room on");
        } else {
            place.remount("ro");
        }
        let mut settings = settings.clone();
        settings.push("state.snapshot_period=1s".to_owned());
        let mut program = Program::serve(&refs(&settings));
        let status = await_condition("a snapshot fails", || {
            let status = program.site.status();
            let failed = status.0["snapshot"]["failed"].as_u64().unwrap();
            if failed > 0 { Ok(status) } else { Err(status) }
        });
        let error = status.0["snapshot"]["error"].as_str().unwrap();
        assert!(error.starts_with("state.dir: cannot write"), "{error}");
        // How the process before ended.
        let log = program.log();
        let message =
            |line: &serde_json::Value| line["message"].as_str().unwrap_or_default().to_owned();
        let mut last = log.iter().map(message).filter(|it| it.starts_with("The last "));
        let (last, expected) = (last.next().unwrap_or_default(), lasts.next().unwrap());
        assert_eq!(last.is_empty(), expected.is_empty(), "{last}");
        assert!(last.starts_with(expected), "{last}");
        assert_eq!(status.count("requests_merged"), 50, "it took up the old one");
        program.site.send([packet(1)]);
        program.signal("TERM");
        assert_eq!(program.wait().0.code(), Some(1), "{how}: {:?}", program.log());
        let log = program.log();
        assert!(
            log.iter().any(|line| line["level"] == "ERROR"
                && line["message"] == "Cannot write a snapshot; any older one stays."),
            "{log:?}"
        );
        assert_eq!(std::fs::read(place.path().join("snapshot")).unwrap(), kept);
        assert!(!place.path().join("snapshot.new").exists());
        if undo.is_empty() {
            std::fs::remove_file(&filler).unwrap();
        } else {
            place.remount("rw");
        }
    }
}

/// Without room nothing is kept, which the log, the status and the metrics say; packets and
/// questions go on; and when there is room again snapshots and reports are kept again, without
/// anybody's help.
#[test]
fn when_there_is_room_again_it_keeps_again() {
    let Some(place) = SmallDisk::mount("512k") else {
        return;
    };
    let filler = place.path().join("filler");
    let mut settings = settings(place.path());
    settings.retain(|setting| !setting.starts_with("pool.stats_history"));
    settings.push("state.snapshot_period=1s".to_owned());
    let mut program = Program::serve(&refs(&settings));
    let mut sender = Sender::new(&program.site);
    let mut send = |count: u64| {
        for n in 0..count {
            sender.send(&packet(n));
        }
        sender.at_rest().count("requests_merged")
    };
    let snapshot = |program: &Program, what: &str, is: &dyn Fn(&Json) -> bool| {
        await_until(what, || program.site.status().0["snapshot"].clone(), |snapshot| is(snapshot))
    };
    let metric = |program: &Program, name: &str| -> f64 {
        let text = program.site.get("/metrics").body;
        let line = text.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("{name} in {text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let report = |name: &str| format!(r#"{{"name": "{name}", "comment": "tag_info:group"}}"#);
    assert_eq!(send(50), 50);
    snapshot(&program, "one is written", &|it| it["written"] != 0);

    for (round, how) in (1..).zip(["full", "read-only", "full"]) {
        if how == "full" {
            assert!(std::fs::write(&filler, vec![1; 1 << 20]).is_err(), "it was to be full");
        } else {
            place.remount("ro");
        }
        let failed = |it: &Json| it["failed"].as_u64().unwrap();
        let before = failed(&program.site.status().0["snapshot"]);
        let said = snapshot(&program, "it fails", &|it| failed(it) > before + 1);
        assert!(said["error"].is_string(), "{how}: {said}");
        assert!(metric(&program, "pinbad_snapshots_failed_total ") >= failed(&said) as f64);
        // A report that could not be kept is not made either, and that is said.
        let refused = program.site.post("/api/v1/reports", &report("kept"));
        assert!(refused.status >= 500, "{how}: {refused:?}");
        assert_has!(refused.problem(refused.status) => "state");
        assert_eq!(program.site.get("/api/v1/reports/kept").status, 404);
        assert_eq!(send(50), 50 + round * 50, "packets go on");

        if how == "full" {
            std::fs::remove_file(&filler).unwrap();
        } else {
            place.remount("rw");
        }
        let written = |it: &Json| it["written"].as_u64().unwrap();
        let before = written(&program.site.status().0["snapshot"]);
        let said = snapshot(&program, "it is written again", &|it| written(it) > before + 1);
        assert_eq!(said["error"], Json::Null, "{how}");
        assert!(metric(&program, "pinbad_snapshot_timestamp_seconds ") > 1.7e9);
        assert_eq!(program.site.post("/api/v1/reports", &report("kept")).status, 201);
        assert_eq!(program.site.delete("/api/v1/reports/kept").status, 200);
    }
    assert_eq!(program.site.post("/api/v1/reports", &report("kept")).status, 201);
    let errors = program.log();
    let errors = errors.iter().filter(|line| line["level"] == "ERROR");
    let all =
        errors.filter(|line| line["message"] == "Cannot write a snapshot; any older one stays.");
    assert!(all.count() >= 3);
    // The last one that was written is whole: it comes back even after a kill.
    program.signal("KILL");
    program.wait();
    let program = Program::serve(&refs(&settings));
    assert_eq!(program.site.status().count("requests_merged"), 200);
    assert_eq!(program.site.get("/api/v1/reports/kept").status, 200);
}

/// Also if a check finds it out, as long before the next snapshot is due.
#[test]
fn the_log_says_when_snapshots_can_be_written_again() {
    let Some(place) = SmallDisk::mount("512k") else {
        return;
    };
    let mut settings = settings(place.path());
    settings.retain(|setting| !setting.starts_with("state.snapshot_period"));
    settings.push("state.snapshot_period=59s".to_owned());
    let mut program = Program::serve(&refs(&settings));
    place.remount("ro");
    let report = r#"{"name": "kept", "comment": "tag_info:group"}"#;
    assert!(program.site.post("/api/v1/reports", report).status >= 500);
    assert!(program.site.status().0["snapshot"]["error"].is_string());
    place.remount("rw");
    let snapshot = || program.site.status().0["snapshot"].clone();
    await_until("one is written", snapshot, |it| it["written"] != 0);
    program.signal("TERM");
    assert_eq!(program.wait().0.code(), Some(0));
    let again = |line: &&Json| line["message"] == "Snapshots can be written again.";
    assert_eq!(program.log().iter().filter(again).count(), 1, "{:?}", program.log());
}

/// A small file system of its own, which is taken away with the value.
pub(crate) struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// One of this size, as in `2m`; `None` if this machine has none for us, which is said.
    pub(crate) fn mount(size: &str) -> Option<Self> {
        let disk = Self { folder: tempfile::tempdir().unwrap() };
        let is_mounted = disk.ask(&["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]);
        if !is_mounted {
            println!("left out: only root may mount a small file system, and not everywhere");
        }
        is_mounted.then_some(disk)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Lets it be written (`rw`), or read only (`ro`).
    pub(crate) fn remount(&self, how: &str) {
        assert!(self.ask(&["-o", &format!("remount,{how}")]));
    }

    fn ask(&self, arguments: &[&str]) -> bool {
        let done = Command::new("mount").args(arguments).arg(self.path()).status();
        done.is_ok_and(|status| status.success())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A leftover is a tmpfs of some kilobytes, and the test has failed already.
        let _done = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
