//! Numbers and durations in forms: read leniently, written as a person would.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{number, window_text};
use crate::report::definition::WINDOW_SECS_MAX;

/// A percent rank: a number, written without decimals where it has none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PercentForm(f64);

impl PercentForm {
    pub(super) fn value(self) -> f64 {
        self.0
    }
}

impl From<f64> for PercentForm {
    fn from(percent: f64) -> Self {
        Self(percent)
    }
}

impl Serialize for PercentForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Percentiles are at most 100, so the cast keeps whole ones.
        let whole = self.0 as u32;
        if f64::from(whole).to_bits() == self.0.to_bits() {
            serializer.serialize_u32(whole)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for PercentForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = PercentForm;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number greater than 0 and at most 100")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
                Ok(PercentForm(value as f64))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
                Ok(PercentForm(value as f64))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
                Ok(PercentForm(value))
            }
        }
        deserializer.deserialize_any(Number)
    }
}

/// A window: `"60s"`, `"15m"`, `"24h"`, `"7d"`, or a number of seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowForm(String);

impl WindowForm {
    /// The window, from one second to [`WINDOW_SECS_MAX`].
    pub(super) fn read(&self) -> Result<Duration, String> {
        let text = self.0.trim();
        let (count, unit) = match text.char_indices().next_back() {
            Some((at, 's')) => (&text[..at], 1),
            Some((at, 'm')) => (&text[..at], 60),
            Some((at, 'h')) => (&text[..at], 3600),
            Some((at, 'd')) => (&text[..at], 86_400),
            _ => (text, 1),
        };
        number::Seconds::parse(count.trim_end())
            .map(|seconds| Duration::from_micros(seconds.us_floor) * unit)
            .filter(|window| {
                (Duration::from_secs(1)..=Duration::from_secs(WINDOW_SECS_MAX)).contains(window)
            })
            .ok_or_else(|| {
                format!(
                    "'{text}': a window is a time such as 60s, 15m, 24h or 7d, from 1s to {}d",
                    WINDOW_SECS_MAX / 86_400
                )
            })
    }
}

impl From<Duration> for WindowForm {
    fn from(window: Duration) -> Self {
        Self(window_text(window))
    }
}

impl From<&str> for WindowForm {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Serialize for WindowForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for WindowForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Window;
        impl Visitor<'_> for Window {
            type Value = WindowForm;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"60s\" or \"15m\", or a number of seconds")
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Self::Value, E> {
                Ok(WindowForm(value.to_owned()))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
                Ok(WindowForm(format!("{value}s")))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
                Ok(WindowForm(format!("{value}s")))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
                Ok(WindowForm(format!("{value}s")))
            }
        }
        deserializer.deserialize_any(Window)
    }
}
