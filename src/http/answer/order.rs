//! The parameter `sort` of answers and pages.

/// By which column rows are sorted, and whether the largest comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) struct Sort {
    pub(in crate::http) column: String,
    pub(in crate::http) descending: bool,
}

impl Sort {
    /// The largest first.
    pub(in crate::http) fn largest(column: &str) -> Self {
        Self {
            column: column.to_owned(),
            descending: true,
        }
    }

    /// As the parameter `sort` says it: a minus before the column puts the largest first.
    pub(in crate::http) fn parse(text: &str) -> Self {
        let column = text.strip_prefix('-');
        Self {
            column: column.unwrap_or(text).to_owned(),
            descending: column.is_some(),
        }
    }
}
