//! The manual: pages for those who run pinbad, beside the README. [`index`] lists them.
//!
//! Each page is a Markdown file in `src/manual/`, which reads well on its own; here they are part
//! of `cargo doc`. A page that no longer says what the code does is a defect like any other: change
//! both together.

#[doc = include_str!("manual/access.md")]
pub mod access {}
#[doc = include_str!("manual/alerts.md")]
pub mod alerts {}
#[doc = include_str!("manual/changes.md")]
pub mod changes {}
#[doc = include_str!("manual/clickhouse.md")]
pub mod clickhouse {}
#[doc = include_str!("manual/configuration.md")]
pub mod configuration {}
#[doc = include_str!("manual/differences.md")]
pub mod differences {}
#[doc = include_str!("manual/history.md")]
pub mod history {}
#[doc = include_str!("manual/http.md")]
pub mod http {}
#[doc = include_str!("manual/index.md")]
pub mod index {}
#[doc = include_str!("manual/instruments.md")]
pub mod instruments {}
#[doc = include_str!("manual/metrics.md")]
pub mod metrics {}
#[doc = include_str!("manual/migration.md")]
pub mod migration {}
#[doc = include_str!("manual/mysql.md")]
pub mod mysql {}
#[doc = include_str!("manual/operations.md")]
pub mod operations {}
#[doc = include_str!("manual/otlp.md")]
pub mod otlp {}
#[doc = include_str!("manual/pages.md")]
pub mod pages {}
#[doc = include_str!("manual/php.md")]
pub mod php {}
#[doc = include_str!("manual/reports.md")]
pub mod reports {}
#[doc = include_str!("manual/restart.md")]
pub mod restart {}
#[doc = include_str!("manual/speed.md")]
pub mod speed {}
#[doc = include_str!("manual/sql.md")]
pub mod sql {}
#[doc = include_str!("manual/squid.md")]
pub mod squid {}
#[doc = include_str!("manual/stat.md")]
pub mod stat {}
#[doc = include_str!("manual/tables.md")]
pub mod tables {}
#[doc = include_str!("manual/terminal.md")]
pub mod terminal {}
#[doc = include_str!("manual/trust.md")]
pub mod trust {}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    /// All files below a folder.
    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap();
        let below = entries.flat_map(|entry| match entry.unwrap().path() {
            path if path.is_dir() => files(&path),
            path => vec![path],
        });
        below.collect()
    }

    #[test]
    fn page_trust_lists_every_file_with_unsafe_code_and_every_fuzz_target() {
        let page = include_str!("manual/trust.md");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let src = root.join("src");
        for file in files(&src) {
            let text = fs::read_to_string(&file).unwrap_or_default();
            let is_expected = |line: &str| {
                let line = line.trim_start();
                line == "unsafe_code," || line.starts_with("#") && line.contains("(unsafe_code")
            };
            if text.lines().any(is_expected) {
                let name = file.strip_prefix(&src).unwrap().display();
                assert!(page.contains(&format!("| `{name}` |")), "{name}");
            }
        }
        for file in files(&root.join("tests/fuzz/fuzz_targets")) {
            let name = file.file_stem().unwrap().display();
            assert!(page.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}
