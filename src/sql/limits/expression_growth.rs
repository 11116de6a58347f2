//! Counts copies of subtrees: operands that MySQL writes once and DataFusion needs twice.
//!
//! BETWEEN, NULLIF, CASE with an operand, AVG and some more become forms in which an operand occurs
//! twice, and its own content was rewritten before: nested thirty deep, a statement of 350 bytes
//! would become 2^30 nodes. So every copy is made here, and measured before it is made. One
//! [`Copies`] per statement; past [`COPIED_MAX`] the statement is refused.

use std::cell::Cell;
use std::fmt::Display;

use crate::sql::error::SqlError;

/// Most bytes of SQL in all copies of a statement: tens of thousands of nodes.
pub(in crate::sql) const COPIED_MAX: usize = 256 << 10;

/// The remaining budget for copies.
#[derive(Debug)]
pub(in crate::sql) struct Copies(Cell<usize>);

impl Default for Copies {
    fn default() -> Self {
        Self(Cell::new(COPIED_MAX))
    }
}

impl Copies {
    /// Copies an expression, or a part of one.
    ///
    /// # Errors
    /// [`SqlError::parse`] if the statement has grown too much; then nothing was copied.
    pub(in crate::sql) fn of<T: Clone + Display>(&self, given: &T) -> Result<T, SqlError> {
        let Some(left) = self.0.get().checked_sub(given.to_string().len()) else {
            return Err(SqlError::parse(format!(
                "the statement grows too large: BETWEEN, NULLIF, CASE x WHEN, AVG and names of columns that stand for expressions are written out here, and may copy {COPIED_MAX} bytes; nest them less"
            )));
        };
        self.0.set(left);
        Ok(given.clone())
    }
}
