//! System variables, which clients read and SET before anything else.
//!
//! The session's own setting comes first, then the daemon's configuration (`pinba_...`), then the
//! value in `variables.txt`. Variables that affect answers are honoured or refused; others are just
//! remembered.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::error::SqlError;
use super::functions;
use super::session::{Literal, Session};
use super::settings::SqlSettings;

/// The server's version, as `VERSION()` says it.
pub const VERSION: &str = "10.11.14-MariaDB-pinba";

const DATA: &str = include_str!("variables.txt");

struct Variable {
    /// Access as in `variables.txt`.
    access: &'static str,
    /// Whether it is ON or OFF.
    switch: bool,
    value: &'static str,
}

static VARIABLES: LazyLock<BTreeMap<&'static str, Variable>> = LazyLock::new(|| {
    let lines = DATA.lines().filter(|line| !line.starts_with(['#', '-']));
    lines
        .filter_map(|line| {
            let mut words = line.splitn(4, ' ');
            let name = words.next()?;
            let access = words.next()?;
            let switch = words.next()? == "switch";
            let value = words.next().unwrap_or_default();
            let variable = Variable { access, switch, value };
            Some((name, variable))
        })
        .collect()
});

/// The canonical name of a variable.
pub(crate) fn canonical(name: &str) -> &str {
    let variable = VARIABLES.get(name);
    let alias = variable.filter(|variable| variable.access == "alias");
    alias.map_or(name, |alias| alias.value)
}

/// All variables and their values in a session, by name.
pub(crate) fn all(session: Option<&Session>, settings: &SqlSettings) -> Vec<(String, String)> {
    let names = VARIABLES.keys().copied();
    let configured = settings.variables.iter().map(|(name, _)| name.as_str());
    let names = names.chain(configured);
    let values = names.filter_map(|name| Some((name.to_owned(), value(name, session, settings)?)));
    values.collect::<BTreeMap<_, _>>().into_iter().collect()
}

/// The value of a variable; `None` if it does not exist.
fn value(name: &str, session: Option<&Session>, settings: &SqlSettings) -> Option<String> {
    let name = canonical(name);
    if let Some(set) = session.and_then(|session| session.variables.get(name)) {
        return Some(set.clone());
    }
    if let Some((_, value)) = settings.variables.iter().find(|(known, _)| known == name) {
        return Some(value.clone());
    }
    Some(match name {
        "version" => VERSION.to_owned(),
        "version_compile_os" => std::env::consts::OS.to_owned(),
        "version_compile_machine" => std::env::consts::ARCH.to_owned(),
        "hostname" => {
            let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            name.trim().to_owned()
        }
        "timestamp" => chrono::Utc::now().timestamp().to_string(),
        _ => VARIABLES.get(name)?.value.to_owned(),
    })
}

fn unknown(name: &str) -> SqlError {
    SqlError::unknown_variable(format!("Unknown system variable '{name}'"))
}

/// The value of `@@name`: `name` with its scope, in lower case.
///
/// # Errors
/// Fails if there is none of that name.
pub(crate) fn lookup(
    name: &str,
    session: &Session,
    settings: &SqlSettings,
) -> Result<Literal, SqlError> {
    let (scope, name) = match name.split_once('.') {
        Some((scope @ ("global" | "session" | "local"), name)) => (scope, name),
        _ => ("session", name),
    };
    let session = (scope != "global").then_some(session);
    let value = value(name, session, settings).ok_or_else(|| unknown(name))?;
    let variable = VARIABLES.get(canonical(name));
    if variable.is_some_and(|variable| variable.switch) {
        return Ok(Literal::Int(i64::from(value == "ON")));
    }
    Ok(match (value.parse(), value.parse()) {
        (Ok(number), _) => Literal::Int(number),
        (_, Ok(number)) => Literal::UInt(number),
        _ => Literal::Text(value),
    })
}

/// Sets a variable of a session; `None` restores its default.
///
/// # Errors
/// Fails if it does not exist, cannot be set, or not to this value.
pub(crate) fn set(
    session: &mut Session,
    settings: &SqlSettings,
    name: &str,
    value: Option<String>,
) -> Result<(), SqlError> {
    let name = canonical(name);
    let read_only =
        || SqlError::read_only_variable(format!("Variable '{name}' is a read only variable"));
    let Some(variable) = VARIABLES.get(name) else {
        let configured = settings.variables.iter().any(|(known, _)| known == name);
        return Err(if configured { read_only() } else { unknown(name) });
    };
    let value = value.map(|value| checked(name, variable, value)).transpose()?;
    match variable.access {
        "session" => session.set(name, value),
        "fixed" if value.as_deref().is_none_or(|value| value == variable.value) => Ok(()),
        "fixed" => Err(SqlError::not_supported(format!("{name} other than '{}'", variable.value))),
        "global" => Err(SqlError::global_variable(format!(
            "Variable '{name}' is a GLOBAL variable and should be set with SET GLOBAL"
        ))),
        _ => Err(read_only()),
    }
}

/// Validates a value and returns its canonical form.
fn checked(name: &str, variable: &Variable, value: String) -> Result<String, SqlError> {
    let wrong = || {
        SqlError::wrong_value(format!("Variable '{name}' can't be set to the value of '{value}'"))
    };
    let upper = value.to_ascii_uppercase();
    if variable.switch {
        return match upper.as_str() {
            "1" | "ON" | "TRUE" => Ok("ON".to_owned()),
            "0" | "OFF" | "FALSE" => Ok("OFF".to_owned()),
            _ => Err(wrong()),
        };
    }
    match name {
        "sql_select_limit" | "max_execution_time" | "group_concat_max_len" => {
            value.parse::<u64>().map_err(|_| wrong())?;
        }
        "max_statement_time" | "timestamp" => {
            let seconds = value.parse::<f64>().map_err(|_| wrong())?;
            if !(0.0..=1e10).contains(&seconds) {
                return Err(wrong());
            }
        }
        "time_zone" if upper != "SYSTEM" && functions::zone(&value).is_none() => {
            return Err(SqlError::unknown_time_zone(format!(
                "Unknown or incorrect time zone: '{value}'"
            )));
        }
        "sql_mode" if value == "0" => return Ok(String::new()),
        "sql_mode" => {
            for mode in upper.split(',').map(str::trim) {
                let is = |list: &str| {
                    let mut lines = DATA.lines().filter_map(|line| line.strip_prefix(list));
                    lines.any(|modes| modes.split(' ').any(|known| known == mode))
                };
                if is("-modes-refused ") {
                    return Err(SqlError::not_supported(format!("sql_mode {mode}")));
                }
                if !mode.is_empty() && !is("-modes ") {
                    return Err(wrong());
                }
            }
        }
        _ if name.starts_with("character_set") => return Ok(value.to_lowercase()),
        // A number stays one.
        _ if variable.value.parse::<f64>().is_ok() => {
            value.parse::<f64>().map_err(|_| wrong())?;
        }
        _ => {}
    }
    Ok(value)
}
