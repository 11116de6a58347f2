//! The declared type of a column, carried in the metadata of Arrow's fields.
//!
//! Arrow has `Int64` where Pinba's tables declare `int`, and no lengths of texts. Front ends that
//! report types (the MySQL wire) get the declared ones wherever an answer shows a table's column
//! unchanged.

use std::collections::HashMap;

use datafusion::arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};

use crate::sql::reply::SqlType;
use crate::value::Column;

/// The key in a field's metadata.
const DECLARED: &str = "pinbad";

/// Separates the parts of the value.
const BETWEEN: char = '\t';

/// The metadata of a column that another module declares.
pub(in crate::sql) fn origin_metadata(
    table: &str,
    column: &str,
    type_name: &str,
) -> HashMap<String, String> {
    let text = [table, column, type_name].join(&BETWEEN.to_string());
    HashMap::from([(DECLARED.to_owned(), text)])
}

/// The Arrow schema of a table's columns.
pub(super) fn schema(table: &str, columns: &[Column]) -> SchemaRef {
    let fields = columns.iter().map(|column| {
        let name = column.column_type.name();
        let kept = SqlType::named(&name).unwrap_or(SqlType::Text).kept();
        let metadata = origin_metadata(table, &column.name, &name);
        Field::new(&column.name, kept, column.nullable).with_metadata(metadata)
    });
    SchemaRef::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Table, column and type as declared, if a field shows a column unchanged.
pub(super) fn declared(field: &FieldRef) -> Option<((String, String), SqlType)> {
    let mut parts = field.metadata().get(DECLARED)?.split(BETWEEN);
    let origin = (parts.next()?.to_owned(), parts.next()?.to_owned());
    let sql_type = SqlType::named(parts.next()?)?;
    // A cast keeps the metadata but changes the type.
    (*field.data_type() == sql_type.kept()).then_some((origin, sql_type))
}
