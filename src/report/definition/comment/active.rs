//! The columns of `active_reports` for a report, in Pinba's words.

use crate::report::definition::v1_kinds::Tags;
use crate::report::definition::{Definition, KeySource};

/// The text columns of `active_reports` (and of `v2/active`) that follow from the definition alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveText {
    /// Pinba's own key of the report: type number, `|param`..., `|condition=value`...; for other
    /// reports the COMMENT, or the name if there is none.
    pub id: String,
    /// Its grouping: `grouped by script_name, status`.
    pub grouping: String,
    /// The applicable ones of `conditional`, `tagged`, `indexed`.
    pub flags: String,
}

impl ActiveText {
    /// The texts of a report.
    pub fn new(definition: &Definition) -> Self {
        let mut keys = definition.keys.iter().map(|key| &key.source);
        let names: Vec<String> = keys.clone().map(KeySource::to_string).collect();
        let grouping = match names.is_empty() {
            true => "all requests in one row".to_owned(),
            false => format!("grouped by {}", names.join(", ")),
        };
        let is_tagged = keys.any(|key| !matches!(key, KeySource::Field(_)));
        let flags = [
            ("conditional", !definition.filters.is_empty()),
            ("tagged", is_tagged),
            ("indexed", !names.is_empty()),
        ];
        let flags = flags.into_iter().filter_map(|(flag, is)| is.then_some(flag));
        let flags: Vec<&str> = flags.collect();
        Self { id: id(definition), grouping, flags: flags.join(", ") }
    }
}

fn id(definition: &Definition) -> String {
    let comment = definition.comment.as_deref().unwrap_or(&definition.name);
    let Some((kind, number)) = definition.v1_kind() else { return comment.to_owned() };
    let mut sections = comment.split(':').skip(1);
    // Base reports ignore their params.
    let params = sections.next().filter(|_| kind.tags != Tags::None);
    let parts = params.into_iter().chain(sections.next()).filter(|section| !section.is_empty());
    let parts = parts.flat_map(|section| section.split(','));
    parts.fold(number.to_string(), |id, part| id + "|" + part)
}
