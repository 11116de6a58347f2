//! Statements for ClickHouse.

use crate::cli::Failure;
use crate::cli::args::TablesFlags;
use crate::config::Config;
use crate::history::Dataset;
use crate::query::definitions::Definitions;
use crate::report::definition::{DefinedBy, Definition};
use crate::series::EVERYTHING;
use crate::{clickhouse, daemon};

/// Statements for ClickHouse: its tables, and views of the built-in and configured reports.
pub(super) fn statements(config: &Config, flags: &TablesFlags) -> Result<String, Failure> {
    let (database, cluster) = (&config.clickhouse.database, flags.cluster.as_deref());
    let mut statements = clickhouse::statements(database, cluster);
    let defaults = daemon::defaults(config);
    let definitions =
        Definitions::new(&config.configured_reports, &defaults).map_err(Failure::usage)?;
    let is_kept = |(definition, defined_by): &&(Definition, DefinedBy)| {
        let is_in = |name: &str| config.history.reports.iter().any(|it| it == name);
        let is_own = *defined_by != DefinedBy::BuiltIn;
        let listed =
            definition.name == EVERYTHING || is_in(&definition.name) || is_own && is_in("*");
        definition.history.unwrap_or(listed)
    };
    let kept: Vec<_> = definitions.reports.iter().filter(is_kept).collect();
    let is_report = |name: &str| kept.iter().any(|(definition, _)| definition.name == name);
    for (definition, _) in &kept {
        let dataset = Dataset::of(definition, config.reports.error_status);
        let views = clickhouse::views(database, cluster, &dataset, is_report);
        statements.extend(views.into_iter().flatten());
    }
    Ok(format!("{};", statements.join(";\n\n")))
}
