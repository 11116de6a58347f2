//! Turns the given settings into a [`Config`]: reads each key, then checks those that must agree.
//!
//! A refused value is replaced by its default and reading goes on, so that all errors are found at
//! once; the caller discards the result if there are any. Nothing is opened or bound here.

use std::collections::BTreeMap;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use ureq::http::Uri;

use super::data_folder::UsualFolder;
use super::error::ConfigError;
use super::key::{self, Key};
use super::kinds::{AUTO, Kind};
use super::layers::RawConfig;
use super::list_entry::EntryReader;
use super::location::{Location, Origin};
use super::raw_value::Given;
use super::{Config, FrontConfig, SquidFrom};
use crate::limits::{
    ALERTS_MAX, BLOCK_BYTES, OTLP_INPUTS_MAX, REWRITES_MAX, SLOS_MAX, SQUIDS_MAX, STATS_MAX,
    USERS_MAX,
};

/// Most sockets in all; each has its own thread and buffers.
const SOCKETS_MAX: usize = 1024;

/// Assumed size of one request in the temporary pool while `temp_pool_bytes` is 0.
const TEMP_REQUEST_BYTES: usize = 512;

/// Reads and checks everything. Problems are added to the errors of `raw`; the result is valid only
/// if there are none.
pub(super) fn check(raw: &mut RawConfig) -> Config {
    let mut config = Config::of_sections(raw);
    let users = raw.settings.get("user").and_then(Given::entries);
    let has_users = users.is_some_and(|users| !users.is_empty());
    config.configured_reports = raw.entries("report");
    config.squids = raw.read("squid", SQUIDS_MAX, |it, before| it.squid(before));
    config.stats = raw.read("stat", STATS_MAX, |it, before| it.stat(before));
    config.otlp_inputs = raw.read("otlp_input", OTLP_INPUTS_MAX, |it, _| it.otlp_input(has_users));
    config.alerts = raw.read("alert", ALERTS_MAX, |it, before| it.alert(before));
    config.slos = raw.read("slo", SLOS_MAX, |it, before| it.slo(before, &config.alerts));
    config.rewrites = raw.read("rewrite", REWRITES_MAX, |it, _| it.rule());
    config.users = raw.read("user", USERS_MAX, |it, before| it.user(before));
    config.resolve_zeros();
    config.resolve_folders(mem::take(&mut raw.usual_folder));
    raw.check_sockets(&config);
    let (http, mysql) = (config.http.front(), config.mysql.front());
    raw.check_tls(&http);
    raw.check_tls(&mysql);
    raw.check_exposure(&http, has_users);
    let with_password = config.users.iter().any(|user| user.password.is_some());
    raw.check_exposure(&mysql, with_password);
    raw.check_ports(&config);
    raw.check_folders(&config);
    raw.check_retention(&config);
    raw.check_shipping(&config);
    raw.check_push(&config);
    config
}

/// The error for a `clickhouse.url` without history.
const NOTHING_SHIPPED: &str = "clickhouse.url without history.dir or data.dir, from which it would be shipped; accepted: both, or neither";

impl Config {
    /// Returns whether rows go to ClickHouse and there is no history to ship them from.
    fn lacks_shipped(&self) -> bool {
        !self.clickhouse.url.is_empty() && self.history.dir.is_none()
    }

    /// Says why this user could not ship to ClickHouse from the usual folder, if so. It is an error
    /// of a start alone: the daemon may be another user's.
    pub(crate) fn shipping_refused(&self) -> Option<String> {
        let why = self.folder_refused.as_ref().filter(|_| self.lacks_shipped())?;
        Some(format!("{NOTHING_SHIPPED} ({why})"))
    }

    /// Replaces zeros that mean "as many as the machine has" or "as another key says".
    fn resolve_zeros(&mut self) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let ingest = &mut self.ingest;
        if ingest.receivers == 0 {
            // One core is left for the merger.
            ingest.receivers = (cores - 1).max(1);
        }
        if ingest.temp_pool_bytes == 0 {
            ingest.temp_pool_bytes = (ingest.temp_pool_size * TEMP_REQUEST_BYTES).max(BLOCK_BYTES);
        }
        if self.sql.threads == 0 {
            self.sql.threads = cores.min(8);
        }
    }
}

/// Files of a `state` folder. Configurations that used to name it as the only data folder keep it
/// there.
const FILES_OF_STATE: [&str; 3] = ["snapshot", "reports.json", "annotations.json"];

impl Config {
    /// Replaces "auto" by `usual`, and puts `state` and `history` under `data.dir` unless they have
    /// folders of their own.
    fn resolve_folders(&mut self, usual: UsualFolder) {
        let data = &mut self.data.dir;
        if data.as_deref() == Some(Path::new(AUTO)) {
            self.folder_refused = usual.as_ref().and_then(|it| it.as_ref().err().cloned());
            *data = usual.and_then(Result::ok);
        }
        let Some(data) = data else { return };
        self.state.dir.get_or_insert_with(|| {
            let dir = data.join("state");
            let is_there = |file: &str| data.join(file).is_file();
            match !dir.exists() && FILES_OF_STATE.iter().any(|file| is_there(file)) {
                true => data.clone(),
                false => dir,
            }
        });
        if cfg!(feature = "sql") {
            self.history.dir.get_or_insert_with(|| data.join("history"));
        }
    }
}

/// Listeners that "" switches off.
const FRONTS: [&str; 2] = ["http.listen", "mysql.listen"];

/// An address that a start binds.
struct Listener {
    name: &'static str,
    is_udp: bool,
    at: SocketAddr,
    location: Location,
}

impl Listener {
    /// Returns whether only one of the two can be bound. Over TCP, `[::]` takes IPv4 too.
    fn conflicts(&self, other: &Self) -> bool {
        let (one, two) = (self.at, other.at);
        let covers = |one: SocketAddr, two: SocketAddr| {
            let is_both = !self.is_udp && one.is_ipv6();
            one.ip().is_unspecified() && (is_both || one.is_ipv4() == two.is_ipv4())
        };
        let overlap = one.ip() == two.ip() || covers(one, two) || covers(two, one);
        self.is_udp == other.is_udp && one.port() == two.port() && one.port() != 0 && overlap
    }
}

impl RawConfig {
    /// Reads the value of `key`; the default if none was given or it is refused.
    pub(super) fn value<T: 'static>(&mut self, key: &'static Key, kind: Kind<T>) -> T {
        let given = self.settings.get(key.name);
        let value = given.and_then(|given| kind.read(key.name, given, &mut self.errors));
        value.unwrap_or_else(|| {
            let default = Given::from_text(default_location(key));
            let value = kind.read(key.name, &default, &mut self.errors);
            value.expect("defaults are within their ranges, which a test checks")
        })
    }

    /// Reads the entries of `list` in order; `read` sees what those before became. A faulty one
    /// adds to the errors and is left out.
    fn read<T>(
        &mut self,
        list: &'static str,
        most: usize,
        mut read: impl FnMut(&mut EntryReader<'_>, &[T]) -> Option<T>,
    ) -> Vec<T> {
        let (entries, errors) = (self.entries(list), &mut self.errors);
        if let Some(beyond) = entries.get(most) {
            let problem = format!("{list}: {} entries; accepted: up to {most}", entries.len());
            errors.push(ConfigError::new(beyond.location.clone(), problem));
        }
        let mut all = Vec::with_capacity(entries.len());
        for entry in &entries {
            let mut reader = EntryReader::new(list, entry, errors);
            let read = read(&mut reader, &all);
            all.extend(read.filter(|_| reader.is_right()));
        }
        all
    }

    fn check_sockets(&mut self, config: &Config) {
        let (addresses, receivers) = (config.ingest.listen.len(), config.ingest.receivers);
        let sockets = addresses * receivers;
        if sockets > SOCKETS_MAX {
            let problem = format!(
                "{addresses} addresses in ingest.listen with {receivers} receivers each are {sockets} sockets; \
                 accepted: up to {SOCKETS_MAX}, by fewer addresses or a smaller ingest.receivers"
            );
            let location = self.location_of_either("ingest.receivers", "ingest.listen");
            self.errors.push(ConfigError::new(location, problem));
        }
    }

    /// Checks that certificate and key are given together or not at all.
    fn check_tls(&mut self, front: &FrontConfig<'_>) {
        let [cert, key] = ["tls_cert", "tls_key"].map(|name| format!("{}.{name}", front.section));
        let (given, missing) = match (front.tls_cert, front.tls_key) {
            (Some(_), None) => (cert, key),
            (None, Some(_)) => (key, cert),
            _ => return,
        };
        let problem = format!("{given} without {missing}; accepted: both, or neither");
        let error = ConfigError::new(self.location(&given), problem);
        self.errors.push(error);
    }

    fn check_exposure(&mut self, front: &FrontConfig<'_>, users: bool) {
        let Some(address) = front.listen else { return };
        if !front.is_open(address, users) {
            return;
        }
        let section = front.section;
        let location = self.location(&format!("{section}.listen"));
        let loopback = match address {
            SocketAddr::V6(_) => "[::1]",
            SocketAddr::V4(_) => "127.0.0.1",
        };
        let problem = format!(
            "{section}.listen = {}: not a loopback address, and no credentials are configured, so anyone who reaches \
             it could read everything; accepted: {section}.listen = \"{loopback}:{}\", or a [[user]] with a \
             password{}, or {section}.allow_anonymous = true if that is wanted",
            location.given(),
            address.port(),
            if section == "http" { " or token" } else { "" }
        );
        self.errors.push(ConfigError::new(location, problem));
    }

    /// Checks that no two listeners take the same port.
    fn check_ports(&mut self, config: &Config) {
        let fronts = FRONTS.into_iter().zip([config.http.listen, config.mysql.listen]);
        let fronts = fronts.filter_map(|(name, listen)| {
            Some(Listener { name, is_udp: false, at: listen?, location: self.location(name) })
        });
        let spans = config.otlp_inputs.iter().map(|input| Listener {
            name: "otlp_input.listen",
            is_udp: false,
            at: input.listen,
            location: input.location.clone(),
        });
        let squids = config.squids.iter().filter_map(|squid| {
            let (is_udp, at) = match squid.from {
                SquidFrom::Udp(at) => (true, at),
                SquidFrom::Tcp(at) => (false, at),
                SquidFrom::File(..) => return None,
            };
            let location = squid.location.clone();
            Some(Listener { name: "squid.listen", is_udp, at, location })
        });
        let name = "ingest.listen";
        let udp = config.ingest.listen.iter().map(|&at| Listener {
            name,
            is_udp: true,
            at,
            location: self.location(name),
        });
        let all: Vec<_> = fronts.chain(spans).chain(squids).chain(udp).collect();
        for (index, one) in all.iter().enumerate() {
            for other in all[..index].iter().filter(|other| one.conflicts(other)) {
                let by_default = matches!(one.location.origin(), Origin::Default(_));
                let location = if by_default { &other.location } else { &one.location };
                let is_front = [one, other].iter().any(|it| FRONTS.contains(&it.name));
                let problem = format!(
                    "{} = {} and {} = {} take the same port; accepted: another port for one of them{}",
                    one.name,
                    one.at,
                    other.name,
                    other.at,
                    if is_front { ", or \"\" to switch one off" } else { "" }
                );
                self.errors.push(ConfigError::new(location.clone(), problem));
            }
        }
    }

    /// Checks that `state.dir` and `history.dir` differ: each is locked.
    fn check_folders(&mut self, config: &Config) {
        let (Some(state), Some(history)) = (&config.state.dir, &config.history.dir) else { return };
        let is_same = || Some(state.canonicalize().ok()? == history.canonicalize().ok()?);
        if state == history || is_same() == Some(true) {
            let problem = format!(
                "history.dir = {} is state.dir too; accepted: a folder for each",
                history.display()
            );
            let location = self.location_of_either("history.dir", "state.dir");
            self.errors.push(ConfigError::new(location, problem));
        }
    }

    /// Checks that hours are kept as long as their minutes: SQL would miss what only they have.
    fn check_retention(&mut self, config: &Config) {
        let (minute, hour) = ("history.retention_minute", "history.retention_hour");
        if config.history.retention_minute > config.history.retention_hour {
            let [least, shown] = [minute, hour].map(|name| self.location(name).given());
            let problem = format!(
                "{minute} = {least} is longer than {hour} = {shown}; accepted: {hour} of at least {least}"
            );
            let location = self.location_of_either(minute, hour);
            self.errors.push(ConfigError::new(location, problem));
        }
    }

    /// A refused folder may be the one from which a daemon of another user ships: a start decides.
    fn check_shipping(&mut self, config: &Config) {
        if config.lacks_shipped() && config.folder_refused.is_none() {
            let error =
                ConfigError::new(self.location("clickhouse.url"), NOTHING_SHIPPED.to_owned());
            self.errors.push(error);
        }
    }

    /// Refuses an `otlp.url` that is one of this daemon's own inputs: these take no metrics, and
    /// refuse spans that the daemon pushed itself.
    fn check_push(&mut self, config: &Config) {
        let Ok(url) = config.otlp.url.parse::<Uri>() else { return };
        let by_scheme = if url.scheme_str() == Some("https") { 443 } else { 80 };
        let port = url.port_u16().unwrap_or(by_scheme);
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
        // A connection to no address in particular goes to this machine.
        let ip = host.parse::<IpAddr>().ok().map(|ip| match ip {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
            _ => ip,
        });
        let is_local = ip.map_or(host.eq_ignore_ascii_case("localhost"), |it| it.is_loopback());
        let is_at = |own: IpAddr| match ip {
            Some(ip) => {
                let has_family = own.is_ipv6() || ip.is_ipv4();
                ip == own || is_local && own.is_unspecified() && has_family
            }
            None => is_local && (own.is_loopback() || own.is_unspecified()),
        };
        let listens = |at: &SocketAddr| at.port() == port && port != 0 && is_at(at.ip());
        if let Some(input) = config.otlp_inputs.iter().find(|it| listens(&it.listen)) {
            let location = self.location("otlp.url");
            let problem = format!(
                "otlp.url = {}: the daemon's own otlp_input.listen = {}, which takes spans of others; accepted: another \
                 server",
                location.given(),
                input.listen
            );
            self.errors.push(ConfigError::new(location, problem));
        }
    }

    /// Where each key and list was given.
    pub(super) fn locations(&self) -> BTreeMap<&'static str, Location> {
        self.settings.iter().map(|(key, given)| (*key, given.location.clone())).collect()
    }

    /// The location of `first` if it was given, else that of `second`.
    fn location_of_either(&self, first: &str, second: &str) -> Location {
        let given = self.settings.contains_key(first);
        self.location(if given { first } else { second })
    }

    /// The location of `name`, or of its default.
    fn location(&self, name: &str) -> Location {
        match self.settings.get(name) {
            Some(given) => given.location.clone(),
            None => default_location(key::find(name).expect("it is the name of a key")),
        }
    }
}

fn default_location(key: &'static Key) -> Location {
    Location::whole(Origin::Default(key.name), key.default)
}
