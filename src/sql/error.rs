//! Errors of statements: MySQL's error numbers, which its clients act upon, and a text for people.
//!
//! The MySQL wire sends number, state and text as they are; HTTP turns them into a problem document
//! (`status` says which kind).

use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};

use crate::config::suggest;
use crate::grammar::percentile::percentile_hint;
use crate::instruments::Active;
use crate::series::Metric;
use crate::sql::dialect::rewrite::INTERVAL_UNITS;

/// The error of a statement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SqlError {
    /// MySQL's error number.
    pub code: u16,
    /// SQLSTATE.
    pub state: &'static str,
    /// The problem, and what is accepted.
    pub message: String,
}

/// The message for a name without a database.
pub(super) const NO_DATABASE: &str = "No database selected";

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $code:literal $state:literal;)+) => {
        impl SqlError {
            $($(#[$doc])*
            pub fn $name(message: impl Into<String>) -> Self {
                Self { code: $code, state: $state, message: message.into() }
            })+
        }
    };
}

errors! {
    /// ER_PARSE_ERROR: the text is not valid SQL.
    parse = 1064 "42000";
    /// ER_NO_SUCH_TABLE.
    no_such_table = 1146 "42S02";
    /// ER_BAD_FIELD_ERROR: no such column.
    no_such_column = 1054 "42S22";
    /// ER_BAD_DB_ERROR: no such database.
    no_such_database = 1049 "42000";
    /// ER_NOT_SUPPORTED_YET: valid, but not supported.
    unsupported = 1235 "42000";
    /// ER_OPTION_PREVENTS_STATEMENT: a write to tables that can only be read.
    read_only = 1290 "HY000";
    /// ER_UNKNOWN_SYSTEM_VARIABLE.
    unknown_variable = 1193 "HY000";
    /// ER_SP_DOES_NOT_EXIST: no such function.
    no_such_function = 1305 "42000";
    /// ER_TABLE_EXISTS_ERROR.
    table_exists = 1050 "42S01";
    /// ER_BAD_TABLE_ERROR: the table to drop does not exist.
    unknown_table = 1051 "42S02";
    /// ER_SPECIFIC_ACCESS_DENIED_ERROR.
    access_denied = 1227 "42000";
    /// ER_CANT_OPEN_FILE: history is off.
    history_off = 1016 "HY000";
    /// ER_ERROR_ON_READ: a file of history cannot be read.
    unreadable = 1024 "HY000";
    /// ER_QUERY_INTERRUPTED: killed, or the snapshot expired.
    interrupted = 1317 "70100";
    /// ER_STATEMENT_TIMEOUT.
    timeout = 1969 "70100";
    /// ER_OUT_OF_RESOURCES: the memory of queries is used up.
    out_of_memory = 1041 "HY000";
    /// ER_TOO_BIG_SELECT: more rows than allowed.
    too_many_rows = 1104 "42000";
    /// ER_CON_COUNT_ERROR: too many queries at once.
    busy = 1040 "08004";
    /// ER_OPERAND_COLUMNS: several values where one is expected.
    several_values = 1241 "21000";
    /// ER_SUBQUERY_NO_1_ROW: several rows where one is expected.
    several_rows = 1242 "21000";
    /// ER_WRONG_NUMBER_OF_COLUMNS_IN_SELECT: the parts of a UNION differ.
    different_columns = 1222 "21000";
    /// ER_INVALID_GROUP_FUNC_USE: an aggregate where there are no groups.
    misplaced_aggregate = 1111 "HY000";
    /// ER_NONUNIQ_TABLE.
    ambiguous_table = 1066 "42000";
    /// ER_TOO_LONG_IDENT.
    too_long_name = 1059 "42000";
    /// ER_WRONG_ARGUMENTS: an unusable value.
    wrong_arguments = 1210 "HY000";
    /// ER_NO_DB_ERROR: a name without a database, and none was chosen.
    no_database = 1046 "3D000";
    /// ER_NON_UNIQ_ERROR.
    ambiguous_column = 1052 "23000";
    /// ER_EMPTY_QUERY.
    empty_query = 1065 "42000";
    /// ER_REGEXP_ERROR.
    bad_regex = 1139 "42000";
    /// ER_NET_PACKET_TOO_LARGE.
    packet_too_large = 1153 "08S01";
    /// ER_GLOBAL_VARIABLE.
    global_variable = 1229 "HY000";
    /// ER_WRONG_VALUE_FOR_VAR.
    wrong_value = 1231 "42000";
    /// ER_INCORRECT_GLOBAL_LOCAL_VAR.
    read_only_variable = 1238 "HY000";
    /// ER_UNKNOWN_TIME_ZONE.
    unknown_time_zone = 1298 "HY000";
    /// WARN_DATA_TRUNCATED: a value that a column cannot have.
    truncated = 1265 "01000";
    /// ER_WRONG_PERFSCHEMA_USAGE.
    performance_schema_usage = 1683 "HY000";
    /// ER_WRONG_PARAMCOUNT_TO_NATIVE_FCT.
    wrong_argument_count = 1582 "42000";
    /// ER_DATA_OUT_OF_RANGE.
    out_of_range = 1690 "22003";
    /// ER_QUERY_TIMEOUT of MySQL.
    execution_timeout = 3024 "HY000";
    /// ER_UNKNOWN_ERROR: a defect of the daemon.
    internal = 1105 "HY000";
}

/// Where there is a percentile that is no column.
fn function_hint(percent: f64) -> String {
    format!(
        "; reports of database pinba have it; there is percentile(req_time, {percent}) over pinba.request, and \
         percentile(histogram, {percent}) over the reports of history"
    )
}

impl From<DataFusionError> for SqlError {
    fn from(error: DataFusionError) -> Self {
        match error.find_root() {
            DataFusionError::SQL(parser, _) => Self::parse(unprefixed(&parser.to_string())),
            DataFusionError::SchemaError(schema, _) => match &**schema {
                SchemaError::FieldNotFound { field, valid_fields } => {
                    let names = valid_fields.iter().map(|field| field.name.as_str());
                    // Some have internal names.
                    let names = names.filter(|name| !name.contains(char::is_control));
                    let hint = match Metric::parse(&field.name) {
                        Some(Metric::Percentile(percent)) => function_hint(percent),
                        _ => suggest::question(&field.name, names) + &percentile_hint(&field.name),
                    };
                    let name = field.flat_name();
                    Self::no_such_column(format!("Unknown column '{name}'{hint}"))
                }
                SchemaError::AmbiguousReference { field } => {
                    let message = format!("Column '{}' is ambiguous", field.flat_name());
                    Self::ambiguous_column(message)
                }
                SchemaError::DuplicateQualifiedField { qualifier, .. } => {
                    let name = qualifier.table();
                    Self::ambiguous_table(format!("Not unique table/alias: '{name}'"))
                }
                other => Self::parse(other.to_string()),
            },
            DataFusionError::NotImplemented(what)
                if what.contains("does not support logical expression AggregateFunction") =>
            {
                Self::not_supported(
                    "an aggregate in GROUP BY, nor an alias inside an expression there; write what the alias stands for",
                )
            }
            DataFusionError::NotImplemented(what)
                if what.starts_with("Physical plan does not support") =>
            {
                Self::misplaced_query()
            }
            DataFusionError::NotImplemented(what) if what.starts_with("Conflicting ordering") => {
                Self::not_supported("GROUP_CONCATs in different orders in one SELECT")
            }
            DataFusionError::NotImplemented(what) => Self::unsupported(what.clone()),
            DataFusionError::Execution(what) if what.contains("returned more than one row") => {
                Self::several_rows("Subquery returns more than 1 row")
            }
            // `id.id`: DataFusion looks into the column `id`.
            DataFusionError::Execution(what) if what.starts_with("Cannot access field") => {
                Self::no_such_column("Unknown column: before the '.' is a column, not a table")
            }
            DataFusionError::ResourcesExhausted(what) => Self::out_of_memory(what.clone()),
            DataFusionError::Plan(what) => Self::plan(what),
            DataFusionError::Internal(what) => Self::internal(what.clone()),
            DataFusionError::ArrowError(error, _) if is_too_long(error) => Self::too_many_digits(),
            DataFusionError::IoError(error) => Self::unreadable(error.to_string()),
            DataFusionError::External(other) => match other.downcast_ref::<Self>() {
                Some(ours) => ours.clone(),
                None => Self::internal(other.to_string()),
            },
            other => Self::wrong_arguments(other.to_string()),
        }
    }
}

impl SqlError {
    /// The error of valid SQL that is not supported: a noun, and what can be used instead.
    pub(super) fn not_supported(what: impl std::fmt::Display) -> Self {
        Self::unsupported(format!("pinbad does not support {what}"))
    }

    /// The error of a number in this clause that is the position of no column.
    pub(super) fn no_such_position(written: &str, clause: &str) -> Self {
        Self::no_such_column(format!("Unknown column '{written}' in '{clause}'"))
    }

    fn misplaced_query() -> Self {
        Self::not_supported(
            "this sub-query: IN and EXISTS belong into the list of SELECT, WHERE, HAVING or ON, and one \
             that looks at the row around it compares by =",
        )
    }

    /// The error of a call with more or fewer arguments than the function takes.
    pub(super) fn parameter_count(name: &str) -> Self {
        Self::wrong_argument_count(format!(
            "Incorrect parameter count in the call to native function '{name}'"
        ))
    }

    /// The error of a decimal that 128 bits have no room for.
    pub(super) fn too_many_digits() -> Self {
        Self::out_of_range("DECIMAL value of more than 38 digits is out of range")
    }

    /// The error of a statement that would write.
    pub(super) fn writes(statement: &str) -> Self {
        Self::read_only(format!(
            "pinbad's tables are read-only, so it cannot execute this statement: {statement}"
        ))
    }

    /// The error of a change by a user without the role for it.
    pub(super) fn wants_admin() -> Self {
        Self::access_denied("Access denied; you need the role admin for this operation")
    }

    /// Ends the measurement of a statement with this error.
    pub(super) fn tell(&self, event: &mut Active) {
        let error = (self.code, self.state, self.message.clone());
        event.outcome(|statement| statement.error = Some(error));
    }

    fn plan(what: &str) -> Self {
        if let Some(name) =
            what.strip_prefix("table '").and_then(|rest| rest.strip_suffix("' not found"))
        {
            let name = name.strip_prefix("def.").unwrap_or(name);
            return Self::no_such_table(format!("Table '{name}' doesn't exist"));
        }
        for (says, clause) in [
            ("Order by column out of bounds, specified: ", "ORDER BY"),
            ("Cannot find column with position ", "GROUP BY"),
        ] {
            if let Some(rest) = what.strip_prefix(says) {
                let end = rest.find([',', ' ']).unwrap_or(rest.len());
                return Self::no_such_position(&rest[..end], clause);
            }
        }
        if let Some(at) = what.find("Incorrect parameter count") {
            let message = what[at..].split(". ").next().unwrap_or_default();
            return Self::wrong_argument_count(message);
        }
        if what.contains("queries have different number of columns") {
            return Self::different_columns(
                "The used SELECT statements have a different number of columns",
            );
        }
        if what.contains("only return one column") {
            return Self::several_values("Operand should contain 1 column(s)");
        }
        if what.contains("must be aggregated to return at most one row") {
            return Self::not_supported(
                "a sub-query that looks at the row around it and has neither an aggregate nor ORDER BY and LIMIT n, 1",
            );
        }
        if what.contains("Correlated scalar subquery can only be used") {
            return Self::not_supported(
                "a sub-query that looks at the row around it in ORDER BY; select it and order by its name",
            );
        }
        if what.contains("subquery can only be used in") {
            return Self::misplaced_query();
        }
        if what.starts_with("Invalid function") {
            return Self::no_such_function(what);
        }
        Self::parse(what)
    }
}

/// Whether Arrow had no room for a decimal.
fn is_too_long(error: &ArrowError) -> bool {
    match error {
        ArrowError::ArithmeticOverflow(_) => true,
        ArrowError::CastError(what) => what.contains("verflow"),
        ArrowError::InvalidArgumentError(what) => what.contains("to store in a Decimal"),
        _ => false,
    }
}

/// The message of the SQL parser, without the name of the library.
pub(super) fn unprefixed(message: &str) -> String {
    let message = message.strip_prefix("sql parser error: ").unwrap_or(message);
    match message.starts_with("INTERVAL requires a unit") {
        true => format!("{message}; units are {INTERVAL_UNITS}"),
        false => message.to_owned(),
    }
}

/// Wraps an error of ours in [`DataFusionError::External`] for its way through the engine.
impl From<SqlError> for DataFusionError {
    fn from(error: SqlError) -> Self {
        Self::External(Box::new(error))
    }
}
