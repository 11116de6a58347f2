//! Numbers, durations, and texts or tables in forms: parsed leniently, written as a person would.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_untagged::UntaggedEnumVisitor;

use crate::config::units::parse_duration;
use crate::grammar::number::seconds_text;
use crate::report::definition::WINDOW_SECS_MAX;

/// A text or, where that is not enough, a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum TextOr<T> {
    /// As text.
    Text(String),
    /// As a table.
    Table(T),
}

impl<T> TextOr<T> {
    /// The text of a form of level sample, which has no tables.
    pub(super) fn only_text(&self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Table(_) => Err("of level sample it is a text".to_owned()),
        }
    }
}

/// A table with a text form.
pub trait FormTable: DeserializeOwned {
    /// The accepted values, for errors.
    const EXPECTED: &str;
}

impl<'de, T: FormTable> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting(T::EXPECTED)
            .string(|text| Ok(Self::Text(text.to_owned())))
            .map(|table| table.deserialize().map(Self::Table))
            .deserialize(deserializer)
    }
}

/// A percent rank: a number, written without decimals if it has none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PercentForm(pub(super) f64);

impl Serialize for PercentForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Percentiles are at most 100, so the cast keeps integers.
        match self.0 as u32 {
            whole if f64::from(whole) == self.0 => serializer.serialize_u32(whole),
            _ => serializer.serialize_f64(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for PercentForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("a number greater than 0 and at most 100")
            .u64(|value| Ok(Self(value as f64)))
            .i64(|value| Ok(Self(value as f64)))
            .f64(|value| Ok(Self(value)))
            .deserialize(deserializer)
    }
}

/// Reads a bound of the request time in seconds.
pub(super) fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    UntaggedEnumVisitor::new()
        .expecting("seconds as a number, such as 0.5")
        .unit(|| Ok(None))
        .u64(|value| Ok(Some(value as f64)))
        .i64(|value| Ok(Some(value as f64)))
        .f64(|value| Ok(Some(value)))
        .deserialize(deserializer)
}

/// A window: `"60s"`, `"15m"`, `"24h"`, `"7d"`, or a number of seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct WindowForm(String);

impl WindowForm {
    /// The window in whole microseconds, from one second to [`WINDOW_SECS_MAX`].
    pub(super) fn read(&self) -> Result<Duration, String> {
        let allowed = Duration::from_secs(1)..=Duration::from_secs(WINDOW_SECS_MAX);
        let read = parse_duration(&self.0);
        let read = read.map(|window| Duration::from_micros(window.as_micros() as u64));
        let why = match read {
            Ok(window) if allowed.contains(&window) => return Ok(window),
            Ok(_) => String::new(),
            Err(why) => format!("{why}; "),
        };
        Err(format!(
            "'{}': {why}a window is a time such as 60s, 15m, 24h or 7d, from 1s to {}d",
            self.0.trim(),
            WINDOW_SECS_MAX / 86_400
        ))
    }
}

/// An integer number of seconds in the largest unit that fits.
impl From<Duration> for WindowForm {
    fn from(window: Duration) -> Self {
        let secs = window.as_secs();
        if window.subsec_nanos() > 0 {
            let us = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
            return Self(format!("{}s", seconds_text(us)));
        }
        let mut units = [("d", 86_400), ("h", 3600), ("m", 60)].iter();
        Self(match units.find(|(_, unit)| secs >= *unit && secs.is_multiple_of(*unit)) {
            Some((name, unit)) => format!("{}{name}", secs / unit),
            None => format!("{secs}s"),
        })
    }
}

impl<'de> Deserialize<'de> for WindowForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("a time such as \"60s\" or \"15m\", or a number of seconds")
            .string(|text| Ok(Self(text.to_owned())))
            .u64(|secs| Ok(Self(format!("{secs}s"))))
            .i64(|secs| Ok(Self(format!("{secs}s"))))
            .f64(|secs| Ok(Self(format!("{secs}s"))))
            .deserialize(deserializer)
    }
}
