//! The built-in reports: `info` and Pinba's 18 tables.
//!
//! Created once at start from Pinba's own COMMENTs, so nothing here is a special case.

use super::comment::{self, Comment};
use crate::report::definition::v1_kinds::KINDS;
use crate::report::definition::{Defaults, Definition};

/// Names and COMMENTs: `info`, then `report_by_script_name` (`report1`) to `report18`.
pub fn comments() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS.iter().filter_map(|kind| Some((kind.table?, kind.name)))
}

/// The definitions of all built-in reports.
pub fn reports(defaults: &Defaults) -> Vec<Definition> {
    comments()
        .filter_map(|(name, comment)| match comment::parse(name, comment, defaults) {
            Ok(Comment::Report(definition)) => Some(*definition),
            // Their COMMENTs are constants, all parsed by a test.
            Ok(Comment::Fixed(_)) | Err(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_nineteen_and_each_bears_its_name() {
        let reports = reports(&Defaults::default());
        assert_eq!(reports.len(), 19);
        assert_eq!(reports[0].name, "info");
        assert_eq!(reports[18].name, "report_by_hostname_status_and_schema");
        for (report, (name, comment)) in reports.iter().zip(comments()) {
            assert_eq!((report.name.as_str(), report.comment.as_deref()), (name, Some(comment)));
        }
    }
}
