//! Keys of the configuration by name, in its sections and as variables of the environment.

use super::settings::KEYS;

/// One key.
pub(crate) struct Key {
    /// Section and name, as in `--set`: "pool.stats_history".
    pub(crate) name: &'static str,
    /// The default, as it would stand in the file.
    pub(crate) default: &'static str,
    /// The lines above it in `config/pinbad.toml`.
    #[cfg(test)]
    pub(super) comment: &'static [&'static str],
}

impl Key {
    /// Section and name apart.
    pub(super) fn parts(&self) -> (&'static str, &'static str) {
        self.name.split_once('.').expect("the macro joins both with a dot")
    }
}

/// The key of this name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The sections, in the order of the file.
pub(super) fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&str> = KEYS.iter().map(|key| key.parts().0).collect();
    sections.dedup();
    sections
}

/// The names inside one section.
pub(super) fn names_in(section: &str) -> Vec<&'static str> {
    KEYS.iter().map(Key::parts).filter(|(of, _)| *of == section).map(|(_, name)| name).collect()
}

/// The variable of the environment that sets `name`: "pool.stats_history" is
/// `PINBAD_POOL_STATS_HISTORY`.
pub(super) fn variable(name: &str) -> String {
    format!("PINBAD_{}", name.replace('.', "_").to_ascii_uppercase())
}
