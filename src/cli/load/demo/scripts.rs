//! The cast of the demo as `shop.toml` has it: machines, sites, scripts, and what each script waits for.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// All of it.
pub(super) static CAST: LazyLock<Cast> =
    LazyLock::new(|| toml::from_str(include_str!("shop.toml")).expect("a test reads it"));

#[derive(Debug, Deserialize)]
pub(super) struct Cast {
    /// All machines, in the order in which they get a new release.
    pub(super) hosts: Vec<String>,
    pub(super) backends: HashMap<String, Backend>,
    /// What scripts wait for.
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

/// What a timer is about.
#[derive(Debug, Deserialize)]
pub(super) struct Backend {
    /// Value of the tag `group`.
    pub(super) group: String,
    /// Values of the tag `server`.
    pub(super) servers: Vec<String>,
}

/// One kind of wait of a script.
#[derive(Debug, Deserialize)]
pub(super) struct Call {
    pub(super) backend: String,
    pub(super) operation: String,
    /// Hits in a request, on average.
    pub(super) hits: f64,
    /// The part of the request's time that goes to it.
    pub(super) share: f64,
}

/// One script.
#[derive(Debug, Deserialize)]
pub(super) struct Script {
    pub(super) path: String,
    /// How often it is asked for, compared with the others.
    pub(super) weight: f64,
    pub(super) median_ms: f64,
    /// Sigma of the logarithm of its times.
    pub(super) spread: f64,
    pub(super) document_kb: f64,
    pub(super) memory_mb: u32,
    /// Its calls, by their name.
    pub(super) calls: String,
    /// It takes forms.
    #[serde(default)]
    pub(super) redirects: bool,
}
