//! Fits the memory plan to the limit of the control group: settings left at their default are
//! reduced until the plan fits, so that the kernel has no reason to kill a daemon in a small
//! container.
//!
//! Called by the commands once the configuration is read, before anything is made from it.
//! Configured settings are kept; if they do not fit, the start is refused. The machine's own memory
//! is a matter for `doctor`: other processes may free theirs.

use std::fs;
use std::path::{Path, PathBuf};

use super::memory_plan::MemoryPlan;
use crate::config::Config;
use crate::config::units::{exact_bytes, rounded_bytes};
use crate::input::udp::kernel;

/// Where control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// The part of the limit that the plan may take: page cache, page tables and the like count too.
const USED: f64 = 0.95;

/// Steps between all of a default and its minimum.
const STEPS: u32 = 64;

/// The plan does not fit.
#[derive(Debug, thiserror::Error)]
#[error(
    "memory: the plan needs up to {}, and this control group may have {} (memory.max, MemoryMax=, --memory); accepted: a larger limit, \
     or smaller pools: `pinbad check` shows what each takes", rounded_bytes(*.needed), rounded_bytes(*.limit)
)]
pub struct TooMuch {
    needed: u64,
    limit: u64,
}

/// The settings that were reduced.
#[derive(Debug, PartialEq, Eq)]
pub struct Scaled {
    /// The limit of the control group.
    pub limit: u64,
    /// The settings, as written in a configuration.
    pub settings: Vec<String>,
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
pub fn fit(config: &mut Config) -> Result<Option<Scaled>, TooMuch> {
    match limit() {
        Some(limit) => fit_into(config, limit),
        None => Ok(None),
    }
}

fn fit_into(config: &mut Config, limit: u64) -> Result<Option<Scaled>, TooMuch> {
    let room = (limit as f64 * USED) as u64;
    let needed = needed(config);
    if needed <= room {
        return Ok(None);
    }
    let fits = (1..STEPS).rev().find_map(|step| {
        let smaller = scaled(config, step);
        (self::needed(&smaller) <= room).then_some(smaller)
    });
    let Some(mut smaller) = fits else {
        let least = self::needed(&scaled(config, 1));
        return Err(TooMuch {
            needed: least,
            limit,
        });
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

/// The most that the plan needs, including socket buffers.
fn needed(config: &Config) -> u64 {
    let plan = MemoryPlan::of(config);
    let sockets =
        kernel::udp_memory_max().map_or(plan.kernel.bytes, |all| all.min(plan.kernel.bytes));
    plan.total_bytes() + sockets
}

/// Memory limit in bytes of the control group of this process or an enclosing one; `None` if there
/// is none.
#[must_use]
pub fn limit() -> Option<u64> {
    limit_of(
        &fs::read_to_string("/proc/self/cgroup").ok()?,
        Path::new(GROUPS),
    )
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
            assert!(
                needed(&config) > limit / 2,
                "{} of {limit}",
                needed(&config)
            );
            assert_eq!(config.reports.memory, 100 << 20);
            let of = |name: &str| scaled.settings.iter().any(|it| it.starts_with(name));
            assert!(
                of("pool.request_pool_size=") && !of("reports.memory="),
                "{scaled:?}"
            );
        }
        let mut config = Config::default();
        config.sql.memory = 1 << 30;
        let error = fit_into(&mut config, 512 << 20).unwrap_err().to_string();
        assert!(error.contains("may have 512.0 MiB (memory.max"), "{error}");
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
        write(
            "memory/docker/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        assert_eq!(limit("4:cpu,memory:/docker\n1:name=systemd:/\n"), None);
        write("memory/docker/memory.limit_in_bytes", "700\n");
        assert_eq!(limit("4:cpu,memory:/docker\n1:name=systemd:/\n"), Some(700));
    }
}
