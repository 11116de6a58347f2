//! The configuration as it was typed: file, environment and flags laid over each other, nothing checked but names.
//!
//! [`RawConfig`] holds, for each key, the value of the strongest layer with its place; `check.rs` turns it into a
//! [`super::Config`]. A layer is read to its end whatever is wrong in it: errors are collected. Runs at start only;
//! the file is read by the caller, nothing here opens anything.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::error::ConfigError;
use super::flags::ConfigFlags;
use super::keys::{self, KEYS, LISTS};
use super::place::{Origin, Place};
use super::secret::Hidden;
use super::typed::Typed;
use super::user;

/// The variable that names the configuration file.
pub const CONFIG_VARIABLE: &str = "PINBAD_CONFIG";

/// The variable that holds the token of those who ask a daemon; no setting of the daemon itself.
pub const TOKEN_VARIABLE: &str = "PINBAD_TOKEN";

/// A `[[report]]`, `[[rewrite]]` or `[[user]]` entry as it was typed.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfiguredReport {
    /// Where the entry begins; shows as "pinbad.toml:12" or "--set".
    pub place: Place,
    /// Its keys and values.
    pub table: toml::Table,
    /// Where each key's value stands, for errors about one of them.
    places: BTreeMap<String, Place>,
}

impl ConfiguredReport {
    /// The line of the file where the entry begins, from 1; `None` for a flag or a variable.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.place.line()
    }

    /// Where the value of `key` stands; the entry's own place when it has no such key.
    #[must_use]
    pub fn place_of(&self, key: &str) -> &Place {
        self.places.get(key).unwrap_or(&self.place)
    }
}

/// What was typed, all layers together.
#[derive(Debug, Default)]
pub struct RawConfig {
    /// By key; only what was given.
    pub settings: BTreeMap<&'static str, Typed>,
    /// The entries of `[[report]]`, of the strongest layer that has any.
    pub reports: Vec<ConfiguredReport>,
    /// The entries of `[[rewrite]]`, likewise.
    pub rewrites: Vec<ConfiguredReport>,
    /// The entries of `[[user]]`, likewise.
    pub users: Hidden<Vec<ConfiguredReport>>,
}

impl RawConfig {
    /// Lays a file over what is there; `name` is what errors call it.
    pub fn add_file(&mut self, name: &str, text: &str, errors: &mut Vec<ConfigError>) {
        let place = Place::whole(Origin::File(name.to_owned()), text);
        let (table, wrong) = DeTable::parse_recoverable(text);
        errors.extend(wrong.iter().map(|error| syntax(&place, error)));
        if !wrong.is_empty() {
            // What could be recovered has holes; errors about those would only mislead.
            return;
        }
        for (name, value) in in_order(table.get_ref()) {
            if LISTS.contains(&name) {
                self.add_list(name, value, &place, errors);
            } else if keys::sections().contains(&name) {
                self.add_section(name, value, &place, errors);
            } else {
                errors.push(unknown_at_top(name, value, &place));
            }
        }
    }

    /// Lays the `PINBAD_` variables of an environment over what is there.
    pub fn add_variables(
        &mut self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        errors: &mut Vec<ConfigError>,
    ) {
        let ours = variables.into_iter().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            let ours = name.starts_with("PINBAD_")
                && ![CONFIG_VARIABLE, TOKEN_VARIABLE].contains(&name.as_str());
            ours.then_some((name, value))
        });
        for (name, value) in ours.collect::<BTreeMap<_, _>>() {
            let origin = Origin::Variable(name.clone());
            let Ok(value) = value.into_string() else {
                let place = Place::whole(origin, "");
                errors.push(ConfigError::Flag {
                    place,
                    problem: "not UTF-8".to_owned(),
                });
                continue;
            };
            let place = Place::whole(origin, value.trim());
            let known = KEYS.iter().map(|key| key.name).chain(LISTS);
            if let Some(key) = known.into_iter().find(|key| keys::variable(key) == name) {
                self.add_text(key, &place, errors);
            } else if !is_service_link(&name, &value) {
                errors.push(unknown_variable(&name, place));
            }
        }
    }

    /// Lays the flags of the command line over what is there.
    pub fn add_flags(&mut self, flags: &ConfigFlags, errors: &mut Vec<ConfigError>) {
        let mut set: Vec<&str> = Vec::new();
        for pair in &flags.set {
            let whole = Place::whole(Origin::Flag("--set"), pair);
            let Some((name, value)) = pair.split_once('=') else {
                let problem =
                    format!("{pair}: no value; accepted: KEY=VALUE, as in pool.stats_history=60s");
                errors.push(ConfigError::Flag {
                    place: whole,
                    problem,
                });
                continue;
            };
            let name = name.trim();
            let place = Place::whole(Origin::Flag("--set"), value.trim());
            if keys::find(name).is_some() || LISTS.contains(&name) {
                self.add_text(name, &place, errors);
                set.push(name);
            } else {
                errors.push(unknown_key(name, place));
            }
        }
        for (flag, name, value) in flags.shorthands() {
            let place = Place::whole(Origin::Flag(flag), value.trim());
            if set.contains(&name) {
                let problem = format!("{name} is given by --set too; leave one of the two out");
                errors.push(ConfigError::Conflict { place, problem });
            } else {
                self.add_text(name, &place, errors);
            }
        }
    }

    /// The text of a flag or a variable for the key or list `name`.
    fn add_text(&mut self, name: &str, place: &Place, errors: &mut Vec<ConfigError>) {
        if let Some(key) = keys::find(name) {
            self.settings.insert(key.name, Typed::of_text(key, place));
            return;
        }
        match DeValue::parse(place.text()) {
            Ok(value) => self.add_list(name, &value, place, errors),
            Err(_) => errors.push(ConfigError::Value {
                place: shown(name, place.clone()),
                key: name.to_owned(),
                problem: "not valid TOML".to_owned(),
                accepted: format!(
                    "a list of tables, quoted for the shell: --set '{name}={}'",
                    example(name)
                ),
            }),
        }
    }

    fn add_section(
        &mut self,
        section: &str,
        value: &Spanned<DeValue<'_>>,
        place: &Place,
        errors: &mut Vec<ConfigError>,
    ) {
        let Some(table) = value.get_ref().as_table() else {
            let list = section
                .strip_suffix('s')
                .filter(|list| LISTS.contains(list));
            errors.push(ConfigError::Value {
                place: place.at(value.span()),
                key: section.to_owned(),
                problem: "a section stands once".to_owned(),
                accepted: match list {
                    Some(list) => format!("[{section}] for settings, [[{list}]] for each {list}"),
                    None => format!("[{section}]"),
                },
            });
            return;
        };
        for (name, value) in in_order(table) {
            let full = format!("{section}.{name}");
            match keys::find(&full) {
                Some(key) => {
                    self.settings.insert(key.name, Typed::of_toml(value, place));
                }
                None => errors.push(unknown_key(&full, place.at(value.span()))),
            }
        }
    }

    /// The entries of one of [`LISTS`]; they replace those of a weaker layer.
    fn add_list(
        &mut self,
        list: &str,
        value: &Spanned<DeValue<'_>>,
        place: &Place,
        errors: &mut Vec<ConfigError>,
    ) {
        let entries: Option<Vec<_>> = match value.get_ref() {
            DeValue::Array(items) => items.iter().map(|item| entry(list, item, place)).collect(),
            _ => None,
        };
        match (entries, list) {
            (Some(entries), "report") => self.reports = entries,
            (Some(entries), "user") => self.users = Hidden(entries),
            (Some(entries), _) => self.rewrites = entries,
            (None, _) => errors.push(ConfigError::Value {
                place: shown(list, place.at(value.span())),
                key: list.to_owned(),
                problem: "not a list of tables".to_owned(),
                accepted: format!("[[{list}]] once for each, or {list} = {}", example(list)),
            }),
        }
    }
}

/// How a list of tables is written in one line.
fn example(list: &str) -> &'static str {
    match list {
        "rewrite" => "[{field = \"script_name\", ..}]",
        _ => "[{name = \"x\", ..}]",
    }
}

/// The place of something in `list`, which errors do not repeat if there may be secrets in it.
fn shown(list: &str, place: Place) -> Place {
    if list == "user" {
        place.hidden()
    } else {
        place
    }
}

fn entry(list: &str, item: &Spanned<DeValue<'_>>, place: &Place) -> Option<ConfiguredReport> {
    let keys = item.get_ref().as_table()?;
    let places = keys.iter().map(|(key, value)| {
        let (key, place) = (key.get_ref().to_string(), place.at(value.span()));
        let place = match user::SHOWN.contains(&key.as_str()) {
            true => place,
            false => shown(list, place),
        };
        (key, place)
    });
    Some(ConfiguredReport {
        place: shown(list, place.at(item.span())),
        table: toml::Table::deserialize(ValueDeserializer::from(item.clone())).ok()?,
        places: places.collect(),
    })
}

/// The entries of a table as they stand in the file (the map itself sorts by name).
fn in_order<'t>(table: &'t DeTable<'_>) -> Vec<(&'t str, &'t Spanned<DeValue<'t>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
        .into_iter()
        .map(|(name, value)| (&**name.get_ref(), value))
        .collect()
}

fn syntax(place: &Place, error: &toml::de::Error) -> ConfigError {
    let end = place.text().len();
    ConfigError::Syntax {
        place: place.at(error.span().unwrap_or(end..end)),
        message: error
            .message()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
    }
}

/// A key that does not exist, with what was probably meant.
fn unknown_key(name: &str, place: Place) -> ConfigError {
    let secret = ["password", "token", "secret", "hash"];
    let lower = name.to_ascii_lowercase();
    let place = match secret.iter().any(|word| lower.contains(word)) {
        true => place.hidden(),
        false => place,
    };
    let section = name.split('.').next().unwrap_or(name);
    let names = keys::names_in(section);
    let hint = if let Some(meant) = keys::nearest_key(name) {
        format!("did you mean {meant}?")
    } else if let Some(meant) = keys::nearest(name, LISTS) {
        format!("did you mean {meant}?")
    } else if names.is_empty() {
        format!("accepted are the sections {}", keys::sections().join(", "))
    } else {
        format!("[{section}] takes {}", names.join(", "))
    };
    ConfigError::Unknown {
        typed: format!("{name} = {}", place.given()),
        what: "setting",
        hint,
        place,
    }
}

/// A section, or a key outside of all sections, that does not exist.
fn unknown_at_top(name: &str, value: &Spanned<DeValue<'_>>, place: &Place) -> ConfigError {
    let place = place.at(value.span());
    if !value.get_ref().is_table() && !value.get_ref().is_array() {
        return unknown_key(name, place);
    }
    let sections = keys::sections();
    let hint = match keys::nearest(name, sections.iter().copied().chain(LISTS)) {
        Some(list) if LISTS.contains(&list) => format!("did you mean [[{list}]]?"),
        Some(section) => format!("did you mean [{section}]?"),
        None => format!(
            "accepted are [{}] and [[{}]]",
            sections.join("], ["),
            LISTS.join("]], [[")
        ),
    };
    ConfigError::Unknown {
        place,
        typed: format!("[{name}]"),
        what: "section",
        hint,
    }
}

/// A `PINBAD_` variable that is no setting; [`super::Config`] lets it pass if a user's secret is in it.
fn unknown_variable(name: &str, place: Place) -> ConfigError {
    let mut known: Vec<String> = KEYS.iter().map(|key| keys::variable(key.name)).collect();
    known.extend(LISTS.iter().map(|list| keys::variable(list)));
    known.push(CONFIG_VARIABLE.to_owned());
    let hint = match keys::nearest(name, known.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean {meant}?"),
        None => {
            "accepted are PINBAD_CONFIG and PINBAD_SECTION_KEY, as in PINBAD_POOL_STATS_HISTORY"
                .to_owned()
        }
    };
    let problem = format!("no setting has this variable; {hint}");
    ConfigError::Flag { place, problem }
}

/// Whether a variable was not typed by anybody: next to a service called `pinbad` (or `pinbad-http`), Kubernetes and
/// Docker links put `PINBAD_SERVICE_HOST`, `PINBAD_PORT=udp://10.0.0.7:30002`, `PINBAD_PORT_30002_UDP_ADDR` and the
/// like into every container. They are no settings and no slips, so they are passed over.
fn is_service_link(name: &str, value: &str) -> bool {
    let protocols = ["tcp://", "udp://", "sctp://"];
    let is_port = |rest: &str| {
        let (number, rest) = rest.split_once('_').unwrap_or((rest, ""));
        let protocol = rest.split('_').next().unwrap_or(rest);
        number.parse::<u16>().is_ok() && ["TCP", "UDP", "SCTP"].contains(&protocol)
    };
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || (name.ends_with("_PORT") && protocols.iter().any(|start| value.starts_with(start)))
        || name
            .split_once("_PORT_")
            .is_some_and(|(_, rest)| is_port(rest))
}
