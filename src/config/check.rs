//! From what was typed to what the program uses: reads each key, then looks at the keys that must agree.
//!
//! The second step of [`super::Config`]. A value that is refused is replaced by its default and the reading goes on,
//! so that all errors are found in one go; the caller throws the result away when there is any. Nothing is opened or
//! bound here, only the number of cores is asked for (`ingest.receivers = 0`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::error::ConfigError;
use super::file::RawConfig;
use super::keys::{self, Key, TEMP_BLOCK_BYTES, TEMP_REQUEST_BYTES};
use super::place::{Origin, Place};
use super::rewrite;
use super::typed::{Typed, Value, accepted};
use super::user;
use super::{
    Config, ConfiguredUser, FrontConfig, IngestConfig, LogConfig, LogFormat, MetricsConfig,
    MySqlLimits, PoolConfig, ReportsConfig, SeriesConfig, SqlConfig, TlsFiles,
};

/// Sockets in all, each with a thread and buffers of its own.
const SOCKETS_MAX: usize = 1024;

/// Reads one key after the other and collects what is wrong.
struct Reading<'r> {
    raw: &'r RawConfig,
    errors: &'r mut Vec<ConfigError>,
    /// Every key that was read, with its value.
    settings: BTreeMap<&'static str, Value>,
}

/// Checks everything; what is wrong is pushed to `errors`, and the result is of use only if nothing was.
pub(super) fn check(raw: &RawConfig, errors: &mut Vec<ConfigError>) -> Config {
    let mut reading = Reading {
        raw,
        errors,
        settings: BTreeMap::new(),
    };
    let mut config = Config {
        // Once all were read.
        settings: BTreeMap::new(),
        ingest: reading.ingest(),
        pool: PoolConfig {
            request_pool_size: reading.count("pool.request_pool_size"),
            timer_pool_size: reading.count("pool.timer_pool_size"),
            stats_history: reading.duration("pool.stats_history"),
            words_bytes: reading.count("pool.words_memory"),
        },
        reports: ReportsConfig {
            rows_max: reading.count("reports.rows_max"),
            memory_bytes: reading.count("reports.memory"),
            error_status: reading.count("reports.error_status"),
        },
        series: SeriesConfig {
            memory_bytes: reading.count("series.memory"),
            reports: reading.texts("series.reports"),
        },
        metrics: MetricsConfig {
            reports: reading.texts("metrics.reports"),
            series_max: reading.count("metrics.series_max"),
            buckets: reading.durations("metrics.buckets"),
        },
        http: FrontConfig {
            listen: reading.address("http.listen"),
            tls: reading.tls("http"),
            allow_anonymous: reading.switch("http.allow_anonymous"),
        },
        open_health: reading.switch("http.open_health"),
        host_names: reading.names("http.host_names"),
        mysql: FrontConfig {
            listen: reading.address("mysql.listen"),
            tls: reading.tls("mysql"),
            allow_anonymous: reading.switch("mysql.allow_anonymous"),
        },
        sql: SqlConfig {
            threads: match reading.count("sql.threads") {
                0 => std::thread::available_parallelism().map_or(1, |cores| cores.get().min(8)),
                threads => threads,
            },
            memory_bytes: reading.count("sql.memory"),
            time_max: reading.duration("sql.time_max"),
            rows_max: reading.count("sql.rows_max"),
            queries_max: reading.count("sql.queries_max"),
            text_bytes_max: reading.count("sql.text_max"),
            case_insensitive: reading.switch("sql.case_insensitive"),
        },
        mysql_limits: MySqlLimits {
            connections_max: reading.count("mysql.connections_max"),
            idle_max: reading.duration("mysql.idle_max"),
            packet_bytes_max: reading.count("mysql.packet_max"),
            statements_max: reading.count("mysql.statements_max"),
            memory_bytes: reading.count("mysql.memory"),
        },
        state_dir: reading.path("state.dir"),
        snapshot_period: reading.duration("state.snapshot_period"),
        log: LogConfig {
            format: match reading.choice("log.format") {
                "json" => LogFormat::Json,
                _ => LogFormat::Text,
            },
            level: reading
                .choice("log.level")
                .parse()
                .unwrap_or(tracing::Level::INFO),
        },
        configured_reports: raw.reports.clone(),
        rewrites: rewrite::read(&raw.rewrites, reading.errors),
        users: user::read(&raw.users.0, reading.errors),
    };
    config.settings = std::mem::take(&mut reading.settings);
    reading.whole_seconds(&config);
    reading.sockets(&config);
    reading.exposure("http", &config.http, !raw.users.0.is_empty());
    let with_password = |user: &ConfiguredUser| user.password.is_some();
    reading.exposure(
        "mysql",
        &config.mysql,
        config.users.iter().any(with_password),
    );
    reading.fronts_apart(&config);
    config
}

impl Reading<'_> {
    fn ingest(&mut self) -> IngestConfig {
        let temp_pool_size: usize = self.count("ingest.temp_pool_size");
        let temp_pool_bytes = match self.count("ingest.temp_pool_bytes") {
            0 => (temp_pool_size as u64 * TEMP_REQUEST_BYTES).max(TEMP_BLOCK_BYTES),
            bytes => bytes,
        };
        IngestConfig {
            listen: self.addresses("ingest.listen"),
            receivers: match self.count("ingest.receivers") {
                // One core is left for the merger.
                0 => std::thread::available_parallelism()
                    .map_or(1, |cores| cores.get() - 1)
                    .max(1),
                receivers => receivers,
            },
            recv_buffer_bytes: self.count("ingest.recv_buffer"),
            temp_pool_size,
            temp_pool_bytes: usize::try_from(temp_pool_bytes).unwrap_or(usize::MAX),
            stats_gathering_period: self.duration("ingest.stats_gathering_period"),
            script_name_bytes_max: self.count("ingest.script_name_bytes_max"),
            text_bytes_max: self.count("ingest.text_bytes_max"),
            allow: self.networks("ingest.allow"),
            source_rate_max: self.count("ingest.source_rate_max"),
            count_sources: self.switch("ingest.count_sources"),
        }
    }

    /// Reports expire by ticks of whole seconds, and a snapshot takes about as long.
    fn whole_seconds(&mut self, config: &Config) {
        for (name, duration) in [
            ("pool.stats_history", config.pool.stats_history),
            ("state.snapshot_period", config.snapshot_period),
        ] {
            if duration.subsec_nanos() == 0 {
                continue;
            }
            let key = key(name);
            self.errors.push(ConfigError::Value {
                place: self.place(key.name),
                key: key.name.to_owned(),
                problem: "not in whole seconds".to_owned(),
                accepted: accepted(key),
            });
        }
    }

    fn sockets(&mut self, config: &Config) {
        let (addresses, receivers) = (config.ingest.listen.len(), config.ingest.receivers);
        if addresses * receivers > SOCKETS_MAX {
            let problem = format!(
                "{addresses} addresses in ingest.listen with {receivers} receivers each are {} sockets; accepted: up \
                 to {SOCKETS_MAX}, by fewer addresses or a smaller ingest.receivers",
                addresses * receivers
            );
            let place = self.place_of_either("ingest.receivers", "ingest.listen");
            self.errors.push(ConfigError::Conflict { place, problem });
        }
    }

    /// Certificate and key stand together or not at all.
    fn tls(&mut self, section: &'static str) -> Option<TlsFiles> {
        let [cert, key] = ["tls_cert", "tls_key"].map(|name| format!("{section}.{name}"));
        match (self.path(&cert), self.path(&key)) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some(TlsFiles { section, cert, key }),
            (given, _) => {
                let (given, other) = match given {
                    Some(_) => (cert, key),
                    None => (key, cert),
                };
                let problem = format!("{given} without {other}; accepted: both, or neither");
                let place = self.place(&given);
                self.errors.push(ConfigError::Conflict { place, problem });
                None
            }
        }
    }

    /// What is on loopback only this machine can ask; anything else needs users, or the operator's word.
    fn exposure(&mut self, section: &str, front: &FrontConfig, users: bool) {
        let Some(address) = front.listen else { return };
        if address.ip().to_canonical().is_loopback() || front.allow_anonymous || users {
            return;
        }
        let place = self.place(&format!("{section}.listen"));
        let loopback = if address.is_ipv6() {
            "[::1]"
        } else {
            "127.0.0.1"
        };
        let problem = format!(
            "{section}.listen = {}: not a loopback address, and no credentials are configured, so anyone who reaches \
             it could read everything; accepted: {section}.listen = \"{loopback}:{}\", or a [[user]] with a \
             password{}, or {section}.allow_anonymous = true if that is wanted",
            place.given(),
            address.port(),
            if section == "http" { " or token" } else { "" }
        );
        self.errors.push(ConfigError::Conflict { place, problem });
    }

    fn fronts_apart(&mut self, config: &Config) {
        let (Some(http), Some(mysql)) = (config.http.listen, config.mysql.listen) else {
            return;
        };
        let overlap =
            http.ip() == mysql.ip() || http.ip().is_unspecified() || mysql.ip().is_unspecified();
        if http.port() == mysql.port() && http.port() != 0 && overlap {
            let problem = format!(
                "mysql.listen = {mysql} and http.listen = {http} take the same port; accepted: another port for one \
                 of them, or \"\" to switch one off"
            );
            let place = self.place_of_either("mysql.listen", "http.listen");
            self.errors.push(ConfigError::Conflict { place, problem });
        }
    }

    /// Where the first was given, or else the second, or else nobody gave either.
    fn place_of_either(&self, first: &str, second: &str) -> Place {
        let given = self.raw.settings.contains_key(first);
        self.place(if given { first } else { second })
    }

    /// Where `name` was given.
    fn place(&self, name: &str) -> Place {
        self.raw
            .settings
            .get(name)
            .map_or_else(|| default(key(name)).place, |typed| typed.place.clone())
    }

    fn value(&mut self, name: &str) -> Value {
        let key = key(name);
        let typed = self.raw.settings.get(name).map(|typed| typed.read(key));
        let typed = typed.and_then(|read| read.map_err(|error| self.errors.push(error)).ok());
        let value = typed.unwrap_or_else(|| {
            default(key)
                .read(key)
                .expect("the defaults in keys.rs are within their ranges")
        });
        self.settings.insert(key.name, value.clone());
        value
    }

    /// A number, in a width that the range of the key fits.
    fn count<N: TryFrom<u64>>(&mut self, name: &str) -> N {
        let Value::Count(count) = self.value(name) else {
            mismatch(name)
        };
        N::try_from(count).unwrap_or_else(|_| mismatch(name))
    }

    fn duration(&mut self, name: &str) -> Duration {
        let Value::Duration(duration) = self.value(name) else {
            mismatch(name)
        };
        duration
    }

    fn choice(&mut self, name: &str) -> &'static str {
        let Value::Choice(word) = self.value(name) else {
            mismatch(name)
        };
        word
    }

    fn switch(&mut self, name: &str) -> bool {
        let Value::Switch(on) = self.value(name) else {
            mismatch(name)
        };
        on
    }

    fn address(&mut self, name: &str) -> Option<SocketAddr> {
        let Value::Address(address) = self.value(name) else {
            mismatch(name)
        };
        address
    }

    fn addresses(&mut self, name: &str) -> Vec<SocketAddr> {
        let Value::Addresses(addresses) = self.value(name) else {
            mismatch(name)
        };
        addresses
    }

    fn networks(&mut self, name: &str) -> Vec<IpNet> {
        let Value::Networks(networks) = self.value(name) else {
            mismatch(name)
        };
        networks
    }

    fn names(&mut self, name: &str) -> Vec<String> {
        let Value::Names(names) = self.value(name) else {
            mismatch(name)
        };
        names
    }

    fn texts(&mut self, name: &str) -> Vec<String> {
        let Value::Texts(texts) = self.value(name) else {
            mismatch(name)
        };
        texts
    }

    fn durations(&mut self, name: &str) -> Vec<Duration> {
        let Value::Durations(durations) = self.value(name) else {
            mismatch(name)
        };
        durations
    }

    fn path(&mut self, name: &str) -> Option<PathBuf> {
        let Value::Path(path) = self.value(name) else {
            mismatch(name)
        };
        path
    }
}

fn key(name: &str) -> &'static Key {
    keys::find(name).unwrap_or_else(|| mismatch(name))
}

fn default(key: &'static Key) -> Typed {
    Typed::of_text(key, &Place::whole(Origin::Default(key.name), key.default))
}

/// A name or type here that keys.rs does not have: a mistake of ours, which any start of the program shows.
fn mismatch(name: &str) -> ! {
    panic!("keys.rs and check.rs disagree about {name}")
}
