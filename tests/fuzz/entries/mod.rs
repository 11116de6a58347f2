//! One entry for each thing that reads what strangers, files or people write: any bytes in, nothing
//! may happen.
//!
//! The fuzz targets of `tests/fuzz` call these, each a line; the tests below run every file of
//! `tests/fuzz/corpus` through its entry, so that what was once found is looked at by `cargo test`,
//! without a fuzzer. Only there for both (`cfg(fuzzing)`, `cfg(test)`). An entry does what the
//! daemon does with such bytes, checks what has to hold whatever they are (two decoders agree, what
//! was written is read back, what leaves a window is gone, JSON is JSON), and panics when it does
//! not. State that an entry keeps between calls is empty again at the end of each.

mod comment;
mod config;
mod http;
pub(crate) mod live;
mod otlp;
mod packet;
mod snapshot;
mod squid;
mod stat;

pub use comment::comment;
pub use config::config;
pub use http::http;
pub use otlp::otlp;
pub use packet::packet;
pub use snapshot::snapshot;
pub use squid::squid;
pub use stat::stat;

#[cfg(feature = "sql")]
mod statements;
#[cfg(feature = "sql")]
pub use statements::{mysql, sql};

#[cfg(test)]
mod tests;
