//! The cast of the demo from `shop.toml`: machines, sites, scripts, and the services that scripts
//! wait for.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// The whole cast.
pub(super) static CAST: LazyLock<Cast> =
    LazyLock::new(|| toml::from_str(include_str!("shop.toml")).expect("a test reads it"));

#[derive(Debug, Deserialize)]
pub(super) struct Cast {
    /// All machines, in the order in which they get a new release.
    pub(super) hosts: Vec<String>,
    pub(super) backends: HashMap<String, Backend>,
    /// The calls of scripts, by name.
    pub(super) calls: HashMap<String, Vec<Call>>,
    sites: Vec<Site>,
}

impl Cast {
    /// All scripts, each with its site.
    pub(super) fn scripts(&self) -> impl Iterator<Item = (&Site, &Script)> {
        let sites = self.sites.iter();
        sites.flat_map(|site| site.scripts.iter().map(move |script| (site, script)))
    }
}

/// A virtual host and the machines that serve it.
#[derive(Debug, Deserialize)]
pub(super) struct Site {
    pub(super) server: String,
    pub(super) hosts: Vec<String>,
    scripts: Vec<Script>,
}

/// The backend that a timer waits for.
#[derive(Debug, Deserialize)]
pub(super) struct Backend {
    /// Value of the tag `group`.
    pub(super) group: String,
    /// Values of the tag `server`.
    pub(super) servers: Vec<String>,
}

/// One kind of call that scripts wait for.
#[derive(Debug, Deserialize)]
pub(super) struct Call {
    pub(super) backend: String,
    pub(super) operation: String,
    /// Hits per request, on average.
    pub(super) hits: f64,
    /// Its share of the request's time.
    pub(super) share: f64,
}

/// One script.
#[derive(Debug, Deserialize)]
pub(super) struct Script {
    pub(super) path: String,
    /// Relative frequency.
    pub(super) weight: f64,
    pub(super) median_ms: f64,
    /// Sigma of the logarithm of its times.
    pub(super) spread: f64,
    pub(super) document_kb: f64,
    pub(super) memory_mb: u32,
    /// The name of its calls.
    pub(super) calls: String,
    /// Whether it handles forms.
    #[serde(default)]
    pub(super) redirects: bool,
}
