//! Arrow in a build without the feature `sql`: there is none, and `format` does not accept it.

use crate::query::table::Table;

pub(super) const ROWS: usize = 1;

pub(super) struct ArrowRows;

impl ArrowRows {
    pub(super) fn new(
        _: &dyn Table,
        _: Vec<usize>,
        _: &mut Vec<u8>,
        _: &mut Vec<u8>,
    ) -> Result<Self, &'static str> {
        Err("this program was built without SQL")
    }

    pub(super) fn write(
        &self,
        _: &mut Vec<u8>,
        _: &dyn Table,
        _: &[usize],
    ) -> Result<(), &'static str> {
        Ok(())
    }
}
