//! Every file of the corpus through its entry.

use std::path::PathBuf;

/// Runs all files of `tests/fuzz/corpus/<target>`; there must be some.
#[track_caller]
fn run(target: &str, entry: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder.join(target)).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{target} has no corpus");
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        if std::panic::catch_unwind(|| entry(&bytes)).is_err() {
            panic!("{}", file.display());
        }
    }
}

#[test]
fn packets() {
    run("packet", super::packet);
    // And those that each show one thing.
    for file in
        std::fs::read_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")).unwrap()
    {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "bin") {
            super::packet(&std::fs::read(path).unwrap());
        }
    }
}

#[test]
fn logs_of_squid() {
    run("squid", super::squid);
}

#[test]
fn bodies_with_spans() {
    run("otlp", super::otlp);
}

#[test]
fn samples_of_the_stat_extension() {
    run("stat", super::stat);
}

#[test]
fn http_questions() {
    run("http", super::http);
}

#[test]
fn configurations() {
    run("config", super::config);
}

#[test]
fn comments() {
    run("comment", super::comment);
}

#[test]
fn snapshots() {
    run("snapshot", super::snapshot);
    for (name, seed) in super::snapshot::seeds() {
        super::snapshot(&seed);
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus/snapshot");
        if std::env::var_os("PINBAD_WRITE_SEEDS").is_some() {
            std::fs::write(path.join(name), seed).unwrap();
        }
    }
}

#[cfg(feature = "sql")]
#[test]
fn sql_texts() {
    run("sql", super::sql);
}

#[cfg(feature = "sql")]
#[test]
fn mysql_conversations() {
    run("mysql", super::mysql);
}
