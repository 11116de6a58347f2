//! Thirty days of the past, and how long questions about them take:
//! `cargo bench --bench daemon -- --history`.
//!
//! The folder is written by the daemon's own store: 2,000 scripts on 20 hosts, an hour's requests
//! of each key in one minute, but of the last two hours in all of them. The report with 40,000 keys
//! has all hours of the last two days alone (`--quick`) or of all days. Then a daemon opens it and
//! answers over HTTP.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use pinbad::cli::format::secs;
use pinbad::grammar::builtin;
use pinbad::history::{Dataset, Gain, Resolution, Retention, Store, UnflushedRows};
use pinbad::http::encode;
use pinbad::report::definition::Defaults;
use pinbad::report::row_key::push_key;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand_distr::{Distribution as _, LogNormal};
use serde::Deserialize;

use crate::clients::{Times, cells};
use crate::compare::{reached, start};
use crate::table::Table;
use crate::{Options, Result};

const SCRIPTS: usize = 2_000;
const HOSTS: usize = 20;
const DAYS: u64 = 30;
const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;
/// Reports that are kept, with the requests of one of their keys in an hour.
const REPORTS: [(&str, u64); 4] = [
    ("info", 100_000),
    ("report_by_hostname", 50_000),
    ("report_by_script_name", 18_000),
    ("report_by_hostname_and_script", 900),
];
/// Different histograms.
const SHAPES: usize = 256;

/// An entry of `history.toml`.
#[derive(Deserialize)]
struct Question {
    name: String,
    /// Goal for the median, seconds.
    goal: Option<f64>,
    /// A path, or a statement.
    text: String,
}

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let kept = options.folder.clone();
    let temporary = tempfile::tempdir()?;
    let dir = kept.as_deref().unwrap_or(temporary.path());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let end = Resolution::Hour.begin(now.as_secs());
    if !dir.join("manifest").exists() {
        let begun = Instant::now();
        fill(dir, end, options.quick)?;
        eprintln!("written in {:.0} s", begun.elapsed().as_secs_f64());
    }
    let sizes = sizes(dir)?;
    let names: Vec<String> = REPORTS.map(|(name, _)| format!("{name:?}")).to_vec();
    let settings = [
        format!("history.dir={}", dir.display()),
        format!("history.reports=[{}]", names.join(",")),
        "history.retention_minute=60d".to_owned(),
        "history.size_max=1TB".to_owned(),
        "sql.memory=1GB".to_owned(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let daemon = start(options, None, &settings, &[])?;
    let mut table = Table::new(
        "Questions about thirty days, one client over HTTP",
        "question | rows | least | median | 99 % | daemon's CPU | goal, median | met",
    );
    let today = end - end % DAY;
    let moments = [
        ("{month}", today - DAYS * DAY),
        ("{yesterday}", today - DAY),
        ("{today}", today),
        ("{end}", end),
        ("{half_past}", end - HOUR / 2),
        ("{half_past_yesterday}", end - HOUR / 2 - DAY),
        ("{two}", today - DAY + 2 * HOUR),
    ];
    #[derive(Deserialize)]
    struct Questions {
        questions: Vec<Question>,
    }
    let Questions { questions } = toml::from_str(include_str!("history.toml"))?;
    let wanted = |it: &&Question| options.only.as_ref().is_none_or(|only| it.name.contains(only));
    for question in questions.iter().filter(wanted) {
        let fill = |text: String, (name, at): &(&str, u64)| text.replace(name, &at.to_string());
        let text = moments.iter().fold(question.text.clone(), fill);
        let path = match text.starts_with('/') {
            true => text,
            false => format!("/api/v1/sql?query={}", encode(&text)),
        };
        let rows = daemon.get(&path)?;
        let rows = ["rows", "points"].map(|member| rows[member].as_array().map_or(0, Vec::len));
        let took = Times::of(&daemon, if options.quick { 7 } else { 31 }, || path.clone())?;
        let mut row = vec![question.name.clone(), rows.into_iter().max().unwrap_or(0).to_string()];
        row.extend(cells(&took.sorted));
        row.push(secs(took.cpu));
        if let Some(goal) = question.goal {
            row.extend([secs(goal), reached(took.median() <= goal)]);
        }
        eprintln!("  {}: {}, CPU {}", question.name, secs(took.median()), secs(took.cpu));
        table.row(row);
    }
    Ok(vec![sizes, table])
}

/// Gains of a key: of an hour and of a minute in it.
struct Shapes {
    hours: Vec<Gain>,
    minutes: Vec<Gain>,
}

impl Shapes {
    fn new(requests: u64, dataset: &Dataset, rng: &mut StdRng) -> Result<Self> {
        let mut gains = |requests: u64| -> Result<Vec<Gain>> {
            let shapes = (0..SHAPES).map(|shape| {
                let times = LogNormal::new(10.0 + shape as f64 / 64.0, 0.7)?;
                let times = (0..requests).map(|_| (times.sample(rng) as u64, 1));
                Ok(Gain::of_times(&dataset.buckets, times))
            });
            shapes.collect()
        };
        Ok(Self { hours: gains(requests)?, minutes: gains(requests / 60)? })
    }
}

/// Writes the folder as a daemon would have that ran until now.
fn fill(dir: &Path, end: u64, quick: bool) -> Result<()> {
    let retention = Retention { secs: [u64::MAX; 3], size_max: u64::MAX, free_min: 0 };
    let mut store = Store::open(dir, retention)?;
    let mut rng = StdRng::seed_from_u64(17);
    let coverage = Arc::new(Dataset::coverage());
    let mut reports = Vec::new();
    for definition in builtin::reports(&Defaults::default()) {
        let Some((_, requests)) = REPORTS.iter().find(|(name, _)| *name == definition.name) else {
            continue;
        };
        let dataset = Arc::new(Dataset::of(&definition, 500));
        let keys: Vec<Vec<u8>> = match dataset.report.as_str() {
            "info" => vec![Vec::new()],
            "report_by_hostname" => (0..HOSTS).map(|host| key([host_name(host)])).collect(),
            "report_by_script_name" => (0..SCRIPTS).map(|it| key([script_name(it)])).collect(),
            _ => (0..HOSTS * SCRIPTS)
                .map(|it| key([host_name(it % HOSTS), script_name(it / HOSTS)]))
                .collect(),
        };
        reports.push((Shapes::new(*requests, &dataset, &mut rng)?, dataset, keys));
    }
    let begin = end - end % DAY - DAYS * DAY;
    for hour in (begin..end).step_by(HOUR as usize) {
        let is_last = end - hour <= 2 * HOUR;
        let mut batch = UnflushedRows::default();
        for (shapes, dataset, keys) in &reports {
            if quick && keys.len() > SCRIPTS && hour % DAY > 0 && end - hour > 2 * DAY {
                continue;
            }
            let (gains, minutes) = match is_last {
                true => (&shapes.minutes, 60),
                false => (&shapes.hours, 1),
            };
            for minute in 0..minutes {
                for (at, key) in keys.iter().enumerate() {
                    let shape = (at * 31 + (hour / HOUR + minute) as usize) % SHAPES;
                    batch.add(dataset, hour + minute * 60, key, false, &gains[shape]);
                }
            }
            let key = key([dataset.report.clone(), dataset.hash.clone()]);
            let second = Gain::of_times(&dataset.buckets, std::iter::once((0, HOUR)));
            batch.add(&coverage, hour, &key, false, &second);
        }
        store.flush(&batch, hour + HOUR, || ())?;
        while store.publish_due(hour + HOUR + 300, &mut |_| Ok(()))? {}
    }
    Ok(())
}

fn script_name(number: usize) -> String {
    format!("/shop/page_{number}.php")
}

fn host_name(number: usize) -> String {
    format!("web-{number}.example.org")
}

fn key<const N: usize>(texts: [String; N]) -> Vec<u8> {
    let mut key = Vec::new();
    texts.iter().for_each(|text| push_key(&mut key, text));
    key
}

/// Measures the bytes of a row in published files.
fn sizes(dir: &Path) -> Result<Table> {
    let mut table = Table::new(
        "Bytes of a row in published files",
        "report, resolution | requests a row | rows | histogram | all of it",
    );
    for (report, requests) in REPORTS {
        for resolution in Resolution::ALL {
            let name = resolution.name();
            let folder = dir.join(format!("rollup/report={report}/resolution={name}"));
            let mut files = Vec::new();
            for date in folder.read_dir().into_iter().flatten() {
                for file in date?.path().read_dir()? {
                    files.push(file?.path());
                }
            }
            files.sort();
            if resolution == Resolution::Minute {
                // In those before it a row of a minute has an hour's requests.
                files.drain(..files.len().saturating_sub(1));
            }
            let (mut rows, mut histograms, mut bytes) = (0_u64, 0_u64, 0_u64);
            for file in files {
                let file = SerializedFileReader::new(File::open(file)?)?;
                for group in file.metadata().row_groups() {
                    rows += group.num_rows().cast_unsigned();
                    bytes += group.compressed_size().cast_unsigned();
                    let columns = group.columns().iter();
                    let of = columns.filter(|it| it.column_path().string() == "histogram");
                    histograms += of.map(|it| it.compressed_size().cast_unsigned()).sum::<u64>();
                }
            }
            if rows > 0 {
                let each = |bytes: u64| format!("{:.1}", bytes as f64 / rows as f64);
                let requests = match resolution {
                    Resolution::Minute => requests / 60,
                    Resolution::Hour => requests,
                    Resolution::Day => requests * 24,
                };
                table.row([
                    format!("{report}, {name}"),
                    requests.to_string(),
                    rows.to_string(),
                    each(histograms),
                    each(bytes),
                ]);
            }
        }
    }
    Ok(table)
}
