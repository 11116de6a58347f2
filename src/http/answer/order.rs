//! The parameter `sort` of answers and pages.

/// A sort column, and whether the largest comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) struct Sort {
    pub(in crate::http) column: String,
    pub(in crate::http) descending: bool,
}

impl Sort {
    /// Largest first.
    pub(in crate::http) fn largest(column: &str) -> Self {
        Self { column: column.to_owned(), descending: true }
    }

    /// Parses the parameter `sort`: a minus before the column puts the largest first.
    pub(in crate::http) fn parse(text: &str) -> Self {
        let column = text.strip_prefix('-');
        Self { column: column.unwrap_or(text).to_owned(), descending: column.is_some() }
    }
}
