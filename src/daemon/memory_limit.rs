//! Fits the memory plan to the limit of the control group: settings left at their default are
//! reduced until the plan fits, so that the kernel has no reason to kill a daemon in a small
//! container.
//!
//! Called by the commands once the configuration is read, before anything is made from it.
//! Configured settings are kept; if they do not fit, the start is refused. The machine's own memory
//! is a matter for `doctor`: other processes may free theirs.

use std::cmp::Reverse;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::memory_plan::MemoryPlan;
use crate::config::Config;
use crate::config::units::exact_bytes;
use crate::value::text::mebibytes;

/// Where control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// One part of so many is left free: page cache, page tables and the like count too.
const LEFT_FREE: u64 = 20;

/// Steps between all of a default and its minimum.
const STEPS: u32 = 64;

/// The plan does not fit, however small the defaults.
#[derive(Debug, thiserror::Error)]
#[error(
    "memory: the plan needs at least {}, and so a control group of {} (memory.max, MemoryMax=, --memory), of which 5 % are left free \
     for page cache and the like; this one has {}; accepted: that much, or smaller pools, {}",
    mebibytes(.plan.needed_bytes()), whole_mebibytes(limit_for(.plan)), whole_mebibytes(*.limit), largest(.plan)
)]
pub struct TooMuch {
    /// The smallest plan.
    pub plan: MemoryPlan,
    limit: u64,
}

/// The three largest lines of the plan.
fn largest(plan: &MemoryPlan) -> String {
    let mut lines: Vec<_> = plan.lines.iter().chain([&plan.kernel]).collect();
    lines.sort_by_key(|line| Reverse(line.bytes));
    let shown = lines.iter().take(3);
    let shown = shown.map(|line| format!("{} {}", line.name, mebibytes(line.bytes)));
    format!("of which the largest are {}", shown.collect::<Vec<_>>().join(", "))
}

/// A limit, rounded down.
fn whole_mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes / MIB as u64)
}

/// The settings that were reduced.
#[derive(Debug, PartialEq, Eq)]
pub struct Scaled {
    /// The limit of the control group.
    pub limit: u64,
    /// The settings, as written in a configuration.
    pub settings: Vec<String>,
}

/// Limits of a control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// With less the daemon does not start.
    pub least: u64,
    /// With less, defaults are reduced.
    pub whole: u64,
}

impl Limits {
    /// The limits for a configuration.
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            least: limit_for(&MemoryPlan::of(&scaled(config, 1))),
            whole: limit_for(&MemoryPlan::of(config)),
        }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, whole) = (whole_mebibytes(self.least), whole_mebibytes(self.whole));
        write!(
            f,
            "A control group (MemoryMax=, --memory) needs {whole}, of which 5 % are left free for page cache and the like"
        )?;
        match self.least < self.whole {
            true => write!(
                f,
                "; with less, down to {least}, settings that have their default are reduced."
            ),
            false => write!(f, "."),
        }
    }
}

/// The least limit, in whole MiB, into which the plan fits.
fn limit_for(plan: &MemoryPlan) -> u64 {
    let needed = plan.needed_bytes();
    (needed * LEFT_FREE).div_ceil(LEFT_FREE - 1).next_multiple_of(MIB as u64)
}

/// A setting that can be reduced, and its minimum.
struct Scalable {
    name: &'static str,
    least: usize,
    of: fn(&mut Config) -> &mut usize,
}

macro_rules! scalable {
    ($($section:ident.$key:ident: $least:expr;)*) => {
        [$(Scalable {
            name: concat!(stringify!($section), ".", stringify!($key)),
            least: $least,
            of: |config| &mut config.$section.$key,
        }),*]
    };
}

const MIB: usize = 1 << 20;

const SCALABLE: [Scalable; 11] = scalable! {
    ingest.recv_buffer: 256 << 10;
    ingest.temp_pool_size: 4_096;
    ingest.temp_pool_bytes: 2 * MIB;
    pool.request_pool_size: 16_384;
    pool.timer_pool_size: 65_536;
    pool.words_memory: 4 * MIB;
    reports.rows_max: 5_000;
    reports.memory: 8 * MIB;
    series.memory: 8 * MIB;
    history.memory: 8 * MIB;
    sql.memory: 16 * MIB;
};

/// Reduces default settings until the plan fits the limit of this process's control group.
///
/// # Errors
/// Fails if it cannot fit.
pub(crate) fn fit(config: &mut Config) -> Result<Option<Scaled>, TooMuch> {
    match limit() {
        Some(limit) => fit_into(config, limit),
        None => Ok(None),
    }
}

fn fit_into(config: &mut Config, limit: u64) -> Result<Option<Scaled>, TooMuch> {
    let room = limit - limit / LEFT_FREE;
    let needed = |config: &Config| MemoryPlan::of(config).needed_bytes();
    if needed(config) <= room {
        return Ok(None);
    }
    let fits = (1..STEPS).rev().find_map(|step| {
        let smaller = scaled(config, step);
        (needed(&smaller) <= room).then_some(smaller)
    });
    let Some(mut smaller) = fits else {
        let plan = MemoryPlan::of(&scaled(config, 1));
        return Err(TooMuch { plan, limit });
    };
    let settings = SCALABLE.iter().filter_map(|it| {
        let (before, now) = (*(it.of)(config), *(it.of)(&mut smaller));
        let shown = match it.name.ends_with("_size") || it.name.ends_with("_max") {
            true => now.to_string(),
            false => exact_bytes(now as u64),
        };
        (before != now).then(|| format!("{}={shown}", it.name))
    });
    let settings = settings.collect();
    *config = smaller;
    Ok(Some(Scaled { limit, settings }))
}

/// The configuration with `step` 64ths of each default.
fn scaled(config: &Config, step: u32) -> Config {
    let (mut smaller, mut default) = (config.clone(), Config::default());
    for it in &SCALABLE {
        let (value, default) = ((it.of)(&mut smaller), *(it.of)(&mut default));
        if *value == default {
            let part = default / STEPS as usize * step as usize;
            // Whole KiB read better.
            *value = (part & !1023).max(it.least).min(default);
        }
    }
    smaller
}

/// Memory limit in bytes of the control group of this process or an enclosing one; `None` if there
/// is none.
pub(crate) fn limit() -> Option<u64> {
    limit_of(&fs::read_to_string("/proc/self/cgroup").ok()?, Path::new(GROUPS))
}

fn limit_of(groups: &str, root: &Path) -> Option<u64> {
    let mut limits = Vec::new();
    for line in groups.lines() {
        // number:controllers:path
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            all if all.split(',').any(|it| it == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let own: PathBuf = root.join(path.trim_start_matches('/'));
        let around = own.ancestors().take_while(|dir| dir.starts_with(&root));
        let read = around.filter_map(|dir| fs::read_to_string(dir.join(file)).ok());
        limits.extend(read.filter_map(|text| text.trim().parse::<u64>().ok()));
    }
    // Version 1 has no value for no limit.
    limits.into_iter().min().filter(|limit| *limit < 1 << 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(config: &Config) -> u64 {
        MemoryPlan::of(config).needed_bytes()
    }

    /// Defaults with a data folder, on two cores.
    fn served() -> Config {
        let mut config = Config::default();
        config.ingest.receivers = 2;
        config.state.dir = Some("/var/lib/pinbad/state".into());
        config.history.dir = Some("/var/lib/pinbad/history".into());
        config
    }

    #[test]
    fn limits_are_where_the_defaults_change_and_where_nothing_fits() {
        let mut configured = served();
        configured.reports.memory = 512 << 20;
        for config in [Config::default(), served(), configured] {
            let Limits { least, whole } = Limits::of(&config);
            assert_eq!(fit_into(&mut config.clone(), whole).unwrap(), None);
            let scaled = fit_into(&mut config.clone(), whole - MIB as u64).unwrap();
            assert!(scaled.is_some());
            assert!(fit_into(&mut config.clone(), least).unwrap().is_some());
            let error = fit_into(&mut config.clone(), least - MIB as u64).unwrap_err();
            let (error, needed) = (error.to_string(), whole_mebibytes(least));
            assert!(error.contains(&format!("a control group of {needed}")), "{error}");
            let shown = Limits { least, whole }.to_string();
            assert!(shown.contains(&format!("down to {needed}")), "{shown}");
        }
    }

    /// The figures in the unit and in compose.yaml.
    #[test]
    fn the_shipped_limits_hold_what_is_said_of_them() {
        let limits = Limits::of(&served());
        let number = |text: &str, before: &str, unit: char| -> u64 {
            let (_, rest) = text.split_once(before).unwrap();
            rest.split(unit).next().unwrap().trim().parse().unwrap()
        };
        let unit = include_str!("../../config/systemd/pinbad.service");
        let unit = number(unit, "#MemoryMax=", 'M') << 20;
        assert!(unit >= limits.whole, "{limits}");
        let compose = include_str!("../../config/container/compose.yaml");
        let compose = number(compose, "mem_limit:", 'g') << 30;
        assert!(compose >= limits.least && compose < limits.whole, "{limits}");
    }

    #[test]
    fn defaults_get_smaller_and_what_was_configured_stays() {
        let whole = needed(&Config::default());
        let mut config = Config::default();
        assert_eq!(fit_into(&mut config, whole * 2).unwrap(), None);
        assert_eq!(config, Config::default());
        for part in [2, 3] {
            let mut config = Config::default();
            config.reports.memory = 100 << 20;
            let limit = whole / part;
            let scaled = fit_into(&mut config, limit).unwrap().unwrap();
            assert!(needed(&config) <= limit);
            assert!(needed(&config) > limit / 2, "{} of {limit}", needed(&config));
            assert_eq!(config.reports.memory, 100 << 20);
            let of = |name: &str| scaled.settings.iter().any(|it| it.starts_with(name));
            assert!(of("pool.request_pool_size=") && !of("reports.memory="), "{scaled:?}");
        }
        let mut config = Config::default();
        config.sql.memory = 1 << 30;
        let error = fit_into(&mut config, 512 << 20).unwrap_err().to_string();
        assert!(error.contains("this one has 512 MiB;"), "{error}");
        assert!(error.contains("the largest are SQL 1,"), "{error}");
        assert_eq!(config.pool, Config::default().pool, "nothing has changed");
    }

    #[test]
    fn a_small_container_is_enough_for_defaults() {
        let mut config = Config::default();
        config.ingest.receivers = 1;
        let scaled = fit_into(&mut config, 512 << 20);
        assert!(scaled.as_ref().is_ok_and(Option::is_some), "{scaled:?}");
    }

    #[test]
    fn the_least_limit_around_it_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let limit = |groups: &str| limit_of(groups, root.path());
        assert_eq!(limit("0::/a/b\n"), None);
        write("a/b/memory.max", "max\n");
        assert_eq!(limit("0::/a/b\n"), None);
        write("a/memory.max", "1000\n");
        assert_eq!(limit("0::/a/b\n"), Some(1000));
        write("a/b/memory.max", "500\n");
        assert_eq!(limit("0::/a/b\n"), Some(500));
        write("memory/docker/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit("4:cpu,memory:/docker\n1:name=systemd:/\n"), None);
        write("memory/docker/memory.limit_in_bytes", "700\n");
        assert_eq!(limit("4:cpu,memory:/docker\n1:name=systemd:/\n"), Some(700));
    }
}
