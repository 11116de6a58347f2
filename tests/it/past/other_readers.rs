//! Files of the past read by other programs: DuckDB, pyarrow, pandas, ClickHouse.

use super::*;

/// Python with `duckdb`, `pyarrow` and `pandas`, about to run a script over a folder.
pub(crate) fn python(script: &str, dir: &Path) -> Command {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let target = Path::new(env!("CARGO_BIN_EXE_pinbad")).ancestors().nth(2);
    let mut python = Command::new(target.unwrap().join("clients/readers/bin/python"));
    python.arg(scripts.join(script)).arg(dir);
    python
}

/// DuckDB, reading the files again and again.
struct Watcher {
    child: Child,
    /// The totals found in the files of minutes and of hours, one entry per pass.
    found: Arc<Mutex<Vec<[u64; 2]>>>,
}

impl Watcher {
    /// Starts the watcher. Every total must lie between the previous one and the number sent so
    /// far.
    fn start(dir: &Path, sent: &Arc<AtomicU64>) -> Self {
        let mut child =
            python("watcher.py", dir).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let found = Arc::new(Mutex::new(Vec::new()));
        let (all, sent) = (Arc::clone(&found), Arc::clone(sent));
        std::thread::spawn(move || {
            for line in lines {
                let totals: [u64; 2] = serde_json::from_str(&line.unwrap()).unwrap();
                let sent = sent.load(Ordering::SeqCst);
                let mut all = all.lock().unwrap();
                let last = all.last().copied().unwrap_or_default();
                let is_right = |(now, before)| (before..=sent).contains(&now);
                // The lock is poisoned by what is wrong, so the test ends too.
                assert!(
                    totals.into_iter().zip(last).all(is_right),
                    "{totals:?} after {last:?}, {sent} were sent"
                );
                all.push(totals);
            }
        });
        Self { child, found }
    }

    /// The last, and how many there were.
    fn last(&self) -> ([u64; 2], usize) {
        let found = self.found.lock().unwrap();
        (found.last().copied().unwrap_or_default(), found.len())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        _ = self.child.wait();
    }
}

/// A day of simulated time.
#[test]
fn others_that_read_at_any_moment_count_nothing_twice() {
    let (here, clock, dir) = Here::with_own_history(START_SECS, &[]);
    let sent = Arc::new(AtomicU64::new(0));
    let watcher = Watcher::start(dir.path(), &sent);
    let mut sender = Sender::new(&here.site);
    for step in 0..4 * 24_u64 {
        for script in SCRIPTS.iter().cycle().take(1 + step as usize % 7) {
            sent.fetch_add(1, Ordering::SeqCst);
            sender.send(&request("h", "s", script).encode_to_vec());
        }
        sender.at_rest();
        pass(&here.site, &clock, 900_000);
        if step % 4 == 0 {
            let before = watcher.last().1;
            await_until("it reads on", || watcher.last().1, |now| *now > before);
        }
    }
    // Behind the next midnight the hours of both days are published; one file a second.
    pass(&here.site, &clock, 2 * 3_600_000 + 180_000);
    let all = sent.load(Ordering::SeqCst);
    await_condition("all is published", || {
        clock.advance_ms(1_000);
        match watcher.last().0 {
            found if found == [all; 2] => Ok(()),
            found => Err((found, all)),
        }
    });
    drop(watcher);
    here.stop();
}

/// Wants Python's `duckdb`, `pyarrow` and `pandas`; ClickHouse reads too where `chdb` is.
#[test]
fn others_read_the_same_from_the_files() {
    let (here, clock, dir) = Here::with_own_history(START_SECS, &[]);
    let mut sent = Vec::new();
    send(&here, &clock, 40, &mut sent);
    // The last hour is published too.
    pass(&here.site, &clock, 1_000);
    pass(&here.site, &clock, 3_600_000);
    pass(&here.site, &clock, 180_000);
    let hours: BTreeSet<u64> = sent.iter().map(|it| it.secs / 3_600).collect();
    await_condition("every hour is published", || {
        let files = walk(&dir.path().join("rollup/report=report_by_script_name"));
        let is_there = |hour: &u64| {
            let begin = DateTime::from_timestamp((hour * 3_600).cast_signed(), 0).unwrap();
            let name = begin.format("resolution=minute/date=%Y-%m-%d/%H-");
            let name = name.to_string();
            files.iter().any(|path| path.contains(&name))
        };
        // One file is published in a second.
        clock.advance_ms(1_000);
        match hours.iter().all(is_there) {
            true => Ok(()),
            false => Err(files),
        }
    });
    let ours = ask(&here.site, &format!("limit=0&sort=script_name&from={START_SECS}"));
    let ours = sums(&ours);
    assert_eq!(ours, recount(&sent, 0..u64::MAX));
    // Rows that came late to an hour are in a further file of it.
    let requests: u64 = ours.values().map(|sums| sums.0).sum();
    let said = await_until(
        "every file is published",
        || {
            clock.advance_ms(1_000);
            let said = run(&mut python("readers.py", dir.path()));
            assert_eq!(said.code, Some(0), "{}", said.err);
            serde_json::from_str::<Json>(&said.out).unwrap()
        },
        |said| {
            let rows = said["duckdb"].as_array().unwrap().iter();
            rows.map(|row| row[1].as_u64().unwrap()).sum::<u64>() == requests
        },
    );
    for reader in ["duckdb", "pandas", "clickhouse"] {
        let Some(rows) = said[reader].as_array() else {
            // Without it nobody need install 180 MB.
            assert_eq!((reader, &said[reader]), ("clickhouse", &Json::Null));
            writeln!(std::io::stderr(), "ClickHouse read nothing: there is no chdb").unwrap();
            continue;
        };
        let rows = rows.iter();
        let read = rows.map(|row| {
            let sums = (row[1].as_u64().unwrap(), row[2].as_u64().unwrap());
            (row[0].as_str().unwrap().to_owned(), sums)
        });
        assert_eq!(read.collect::<BTreeMap<_, _>>(), ours, "{reader}");
        let first = said[reader][0].as_array().unwrap().last().unwrap();
        let minute = sent.iter().find(|it| it.script == "/a").unwrap().secs / 60 * 60;
        assert_eq!(first.as_u64(), Some(minute), "{reader}");
    }
    here.stop();
}

/// All files below a folder.
fn walk(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let below = paths.flat_map(|path| match path.is_dir() {
        true => walk(&path),
        false => vec![path.display().to_string()],
    });
    below.collect()
}
