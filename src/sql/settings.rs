//! Settings of SQL: the limits of queries, and what else of the configuration statements can see.

use crate::config::{Config, SqlConfig};

/// Settings of an engine.
#[derive(Debug, Clone)]
pub struct SqlSettings {
    /// Limits from the configuration, of each query and of all together.
    pub limits: SqlConfig,
    /// Additional system variables: `pinba_port` and the like, by lower-case name.
    pub variables: Vec<(String, String)>,
}

impl From<SqlConfig> for SqlSettings {
    fn from(limits: SqlConfig) -> Self {
        let variables = Vec::new();
        Self { limits, variables }
    }
}

impl Default for SqlSettings {
    fn default() -> Self {
        Config::default().sql.into()
    }
}
