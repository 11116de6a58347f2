//! The configuration as given: file, environment and flags merged; only names are checked.
//!
//! [`RawConfig`] holds the value and location of each key from the strongest layer. A layer is read
//! to its end despite errors, which are collected. Runs at start only; the caller reads the file.

use std::collections::BTreeMap;
use std::ffi::OsString;

use regex::Regex;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::data_folder::UsualFolder;
use super::error::ConfigError;
use super::flags::ConfigFlags;
use super::key;
use super::location::{Location, Origin};
use super::raw_value::{Entry, Given, Value};
use super::settings::{KEYS, LISTS};
use super::suggest::meant;

/// What the names of all variables begin with.
const PREFIX: &str = "PINBAD_";

/// The variable that names the configuration file.
pub(super) const CONFIG_VARIABLE: &str = "PINBAD_CONFIG";

/// The variable with the token for commands that read a running daemon; not a setting of the
/// daemon.
pub const TOKEN_VARIABLE: &str = "PINBAD_TOKEN";

/// Settings of Pinba's engines, by their names in `my.cnf`.
const PINBA_NAMES: [(&str, &str); 4] = [
    ("address", "ingest.listen"),
    ("port", "ingest.listen"),
    ("log_level", "log.level"),
    ("default_history_time_sec", "pool.stats_history"),
];

/// The given settings, all layers merged.
#[derive(Default)]
pub(super) struct RawConfig {
    /// Values by key or list; only those that were given.
    pub(super) settings: BTreeMap<&'static str, Given>,
    /// Errors so far.
    pub(super) errors: Vec<ConfigError>,
    /// The folder that "auto" stands for in `data.dir`.
    pub(super) usual_folder: UsualFolder,
}

impl RawConfig {
    /// Adds a file as the strongest layer so far; errors call it `name`.
    pub(super) fn add_file(&mut self, name: &str, text: &str) {
        let location = Location::whole(Origin::File(name.to_owned()), text);
        let (table, wrong) = DeTable::parse_recoverable(text);
        if !wrong.is_empty() {
            // The recovered part has holes, so errors about it would only mislead.
            let errors = wrong.iter().map(|error| syntax(&location, error));
            self.errors.extend(errors);
            return;
        }
        for (name, value) in in_order(table.get_ref()) {
            if let Some(list) = LISTS.into_iter().find(|list| *list == name) {
                let given = Given::from_toml(value, &of_list(list, location.clone()));
                self.settings.insert(list, given);
            } else if key::sections().contains(&name) {
                self.add_section(name, value, &location);
            } else {
                self.errors.push(unknown_at_top(name, value, &location));
            }
        }
    }

    fn add_section(&mut self, section: &str, value: &Spanned<DeValue<'_>>, location: &Location) {
        let Some(table) = value.get_ref().as_table() else {
            let list = section.strip_suffix('s');
            let accepted = match list.filter(|list| LISTS.contains(list)) {
                Some(list) => format!("[{section}] for settings, [[{list}]] for each {list}"),
                None => format!("[{section}]"),
            };
            let (at, problem) = (location.at(value.span()), "a section stands once");
            let error = ConfigError::value(at, section, problem, &accepted);
            self.errors.push(error);
            return;
        };
        for (name, value) in in_order(table) {
            let full = format!("{section}.{name}");
            if let Some(key) = key::find(&full) {
                let given = Given::from_toml(value, location);
                self.settings.insert(key.name, given);
            } else {
                let location = location.at(value.span());
                self.errors.push(unknown_key(&full, location));
            }
        }
    }

    /// Adds the `PINBAD_` variables of an environment as the strongest layer so far.
    pub(super) fn add_variables(
        &mut self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) {
        let ours = variables.into_iter().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            let ours = name.starts_with(PREFIX)
                && ![CONFIG_VARIABLE, TOKEN_VARIABLE].contains(&name.as_str());
            ours.then_some((name, value))
        });
        for (name, value) in ours.collect::<BTreeMap<_, _>>() {
            let origin = Origin::Variable(name.clone());
            let Ok(value) = value.into_string() else {
                let location = Location::whole(origin, "");
                self.errors.push(ConfigError::new(location, "not UTF-8"));
                continue;
            };
            let location = Location::whole(origin, value.trim());
            if let Some(key) = names().find(|key| key::variable(key) == name) {
                self.add_text(key, location);
            } else if !is_service_link(&name, &value) {
                self.errors.push(unknown_variable(&name, location));
            }
        }
    }

    /// Adds the flags of the command line as the strongest layer.
    pub(super) fn add_flags(&mut self, flags: &ConfigFlags) {
        let mut set: Vec<&str> = Vec::new();
        for pair in &flags.set {
            let Some((name, value)) = pair.split_once('=') else {
                let problem =
                    format!("{pair}: no value; accepted: KEY=VALUE, as in pool.stats_history=60s");
                let location = Location::whole(Origin::Flag("--set"), pair);
                self.errors.push(ConfigError::new(location, problem));
                continue;
            };
            let location = Location::whole(Origin::Flag("--set"), value.trim());
            if let Some(name) = names().find(|known| *known == name.trim()) {
                self.add_text(name, location);
                set.push(name);
            } else {
                self.errors.push(unknown_key(name.trim(), location));
            }
        }
        for (flag, name, value) in flags.shorthands() {
            let location = Location::whole(Origin::Flag(flag), value.trim());
            if set.contains(&name) {
                let problem = format!("{name} is given by --set too; leave one of the two out");
                self.errors.push(ConfigError::new(location, problem));
            } else {
                self.add_text(name, location);
            }
        }
    }

    /// Adds the text of a flag or variable for the key or list `name`.
    fn add_text(&mut self, name: &'static str, location: Location) {
        let given = Given::from_text(of_list(name, location));
        self.settings.insert(name, given);
    }

    /// Returns the entries of one of [`LISTS`].
    pub(super) fn entries(&mut self, list: &'static str) -> Vec<Entry> {
        let Some(given) = self.settings.get(list) else { return Vec::new() };
        given.entries().unwrap_or_else(|| {
            let example = match list {
                "rewrite" => "[{field = \"script_name\", ..}]",
                "squid" => "[{listen = \"udp://127.0.0.1:18190\"}]",
                "otlp_input" => "[{listen = \"127.0.0.1:4318\"}]",
                "stat" => "[{stream = \"unix:///run/php/zend.stat.stream\"}]",
                _ => "[{name = \"x\", ..}]",
            };
            let (problem, accepted) = match given.value {
                Value::Text(_) if !given.location.is_in_file() => (
                    "not valid TOML",
                    format!("a list of tables, quoted for the shell: --set '{list}={example}'"),
                ),
                _ => (
                    "not a list of tables",
                    format!("[[{list}]] once for each, or {list} = {example}"),
                ),
            };
            let location = given.location.clone();
            let error = ConfigError::value(location, list, problem, &accepted);
            self.errors.push(error);
            Vec::new()
        })
    }
}

/// The location of a part of `list`; hidden from errors if it may hold secrets.
fn of_list(list: &str, location: Location) -> Location {
    match list {
        "user" => location.hidden(),
        _ => location,
    }
}

/// All keys and lists.
fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.name).chain(LISTS)
}

/// The entries of a table in file order (the map itself sorts by name).
fn in_order<'t>(table: &'t DeTable<'_>) -> Vec<(&'t str, &'t Spanned<DeValue<'t>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries.into_iter().map(|(name, value)| (&**name.get_ref(), value)).collect()
}

fn syntax(location: &Location, error: &toml::de::Error) -> ConfigError {
    let end = location.text().len();
    let message: Vec<&str> = error.message().split_whitespace().collect();
    let message = message.join(" ");
    let span = error.span().unwrap_or(end..end);
    // A bare word is taken for something else: `level = info` for a misspelt `inf`.
    let wrong = location.text().get(span.clone());
    let is_word = wrong.is_some_and(|it| it.starts_with(char::is_alphabetic));
    let hint = match message.starts_with("invalid ") && is_word {
        true => "; a text stands in quotes",
        false => "",
    };
    ConfigError::new(location.at(span), format!("not valid TOML: {message}{hint}"))
}

/// The key probably meant: misspelt, in the wrong section, or given by Pinba's name.
fn nearest_key(given: &str) -> Option<&'static str> {
    // What several keys begin with is answered with all of the section.
    let names = KEYS.iter().map(|key| key.name).filter(|name| !name.starts_with(given));
    if let Some(name) = meant(given, names) {
        return Some(name);
    }
    let last = given.rsplit('.').next().unwrap_or(given).to_ascii_lowercase();
    let last = last.strip_prefix("pinba_").unwrap_or(&last);
    // A name found in several sections ("listen") is ambiguous without the section.
    let mut same = KEYS.iter().filter(|key| key.parts().1 == last);
    match (same.next(), same.next()) {
        (Some(key), None) => Some(key.name),
        _ => PINBA_NAMES.iter().find(|(name, _)| *name == last).map(|(_, key)| *key),
    }
}

/// The error for a key that does not exist, with a suggestion.
fn unknown_key(name: &str, location: Location) -> ConfigError {
    let lower = name.to_ascii_lowercase();
    let secret = ["password", "token", "secret", "hash"];
    let location = match secret.iter().any(|word| lower.contains(word)) {
        true => location.hidden(),
        false => location,
    };
    let section = name.split('.').next().unwrap_or(name);
    let meant = nearest_key(name).or_else(|| meant(name, LISTS));
    let hint = match (meant, &key::names_in(section)[..]) {
        (Some(meant), _) => format!("did you mean {meant}?"),
        (None, []) => format!("accepted are the sections {}", key::sections().join(", ")),
        (None, names) => format!("[{section}] takes {}", names.join(", ")),
    };
    let problem = format!("{name} = {}: unknown setting; {hint}", location.given());
    ConfigError::new(location, problem)
}

/// The error for an unknown section, or an unknown key outside of all sections.
fn unknown_at_top(name: &str, value: &Spanned<DeValue<'_>>, location: &Location) -> ConfigError {
    let location = location.at(value.span());
    if !value.get_ref().is_table() && !value.get_ref().is_array() {
        return unknown_key(name, location);
    }
    let sections = key::sections();
    let hint = match meant(name, sections.iter().copied().chain(LISTS)) {
        Some(list) if LISTS.contains(&list) => format!("did you mean [[{list}]]?"),
        Some(section) => format!("did you mean [{section}]?"),
        None => {
            format!("accepted are [{}] and [[{}]]", sections.join("], ["), LISTS.join("]], [["))
        }
    };
    ConfigError::new(location, format!("[{name}]: unknown section; {hint}"))
}

/// The error for a `PINBAD_` variable that is no setting; [`super::Config`] drops it if the
/// variable holds a user's secret.
fn unknown_variable(name: &str, location: Location) -> ConfigError {
    let mut known: Vec<String> = names().map(key::variable).collect();
    known.push(CONFIG_VARIABLE.to_owned());
    let named = known.iter().filter_map(|name| name.strip_prefix(PREFIX));
    let meant = meant(name.strip_prefix(PREFIX).unwrap_or(name), named);
    let accepted =
        "accepted are PINBAD_CONFIG and PINBAD_SECTION_KEY, as in PINBAD_POOL_STATS_HISTORY";
    let hint = meant.map_or(accepted.to_owned(), |meant| format!("did you mean {PREFIX}{meant}?"));
    let problem = format!("no setting has this variable; {hint}");
    let mut error = ConfigError::new(location, problem);
    error.is_unknown_variable = true;
    error
}

/// Returns whether a variable was set by a container platform. For a service called `pinbad` (or
/// `pinbad-http`), Kubernetes and Docker links put `PINBAD_SERVICE_HOST`,
/// `PINBAD_PORT=udp://10.0.0.7:30002`, `PINBAD_PORT_30002_UDP_ADDR` and the like into every
/// container. They are neither settings nor slips, so they are ignored.
fn is_service_link(name: &str, value: &str) -> bool {
    let links = "^[^=]*_(SERVICE_HOST=|SERVICE_PORT[_=]|PORT=(tcp|udp|sctp)://|PORT_[0-9]+_(TCP|UDP|SCTP)[_=])";
    Regex::new(links).expect("a test uses it").is_match(&format!("{name}={value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_recognised_and_far_ones_are_not() {
        for (given, meant) in [
            ("pool.stats_histroy", Some("pool.stats_history")),
            ("pool.stat_history", Some("pool.stats_history")),
            ("Pool.Stats_History", Some("pool.stats_history")),
            ("stats_history", Some("pool.stats_history")),
            ("ingest.stats_history", Some("pool.stats_history")),
            ("pinba_temp_pool_size", Some("ingest.temp_pool_size")),
            ("pinba_port", Some("ingest.listen")),
            ("listen", None),
            ("http.tls", None),
        ] {
            assert_eq!(nearest_key(given), meant, "{given}");
        }
        assert_eq!(meant("htpp", key::sections()), Some("http"));
        assert_eq!(meant("polls", key::sections()), Some("pool"));
    }
}
