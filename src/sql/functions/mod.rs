//! MySQL's functions for DataFusion.
//!
//! A function is one [`FunctionDef`] in the list of its module: names, number of arguments, result type, and what it does with
//! one row of [`Value`]s. Functions are pure: the session's time, zone and user are already literals in the statement. They never
//! fail on values, and a text beyond 16 MB is NULL, as in MySQL. A call fails when its texts exceed the memory of queries, or when
//! the statement should end ([`cancellation`]).

mod conditions;
mod convert;
mod number;
mod percentile;
mod text;
mod text_memory;
mod time;
pub(crate) mod value;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use chrono::NaiveDateTime;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

pub(crate) use self::number::literal_number;
pub(crate) use self::percentile::aggregates;
use self::text_memory::TextMemory;
use self::value::{Builder, Cells, Value};

pub(crate) use self::conditions::check_regex;
pub(crate) use self::time::{shown, zone};
use super::cancellation::{self, StatementGuard};
use super::error::SqlError;

/// No text that a function makes is longer: `max_allowed_packet`.
pub(crate) const TEXT_MAX: usize = 16 << 20;

/// Rows between two looks at whether the statement still goes on.
const ROWS_PER_CHECK: usize = 16;

/// What is known of the arguments when a statement is planned.
#[derive(Debug)]
pub(crate) struct ArgumentInfo<'a> {
    pub(crate) types: &'a [DataType],
    pub(crate) values: &'a [Option<&'a ScalarValue>],
}

impl ArgumentInfo<'_> {
    /// An argument that is a number in the statement.
    pub(crate) fn int(&self, at: usize) -> Option<i64> {
        let value = self.values.get(at).copied().flatten()?;
        let array = value.to_array().ok()?;
        let cells = Cells::new(&array).ok()?;
        let value = cells.get(0);
        (!value.is_null()).then(|| value.int())
    }
}

/// A function of MySQL's.
pub(crate) struct FunctionDef {
    /// Its names, with blanks between.
    pub(crate) names: &'static str,
    /// The least and the most arguments.
    pub(crate) arguments: (usize, usize),
    pub(crate) returns: fn(&ArgumentInfo<'_>) -> DataType,
    pub(crate) row: RowKernel,
    /// All rows at once, for those that are worth it; `None`: row by row.
    pub(crate) columns: Option<ColumnKernel>,
    /// Whether the function says its first argument unchanged when that has this type.
    pub(crate) identity: fn(&DataType) -> bool,
}

/// What a function does with the arguments of one row.
pub(crate) enum RowKernel {
    /// Anything.
    Any(for<'a> fn(&'a [Value<'a>]) -> Value<'a>),
    /// NULL when an argument is.
    Strict(for<'a> fn(&'a [Value<'a>]) -> Value<'a>),
    /// The same; `None` is NULL.
    Maybe(for<'a> fn(&'a [Value<'a>]) -> Option<Value<'a>>),
    /// A double of one.
    Real(fn(f64) -> f64),
    /// A double of two.
    Reals(fn(f64, f64) -> f64),
    /// A whole number of a moment.
    Part(fn(NaiveDateTime) -> i64),
    /// The same of a moment or of a time of day.
    Clock(fn(NaiveDateTime) -> i64),
}

impl RowKernel {
    fn call<'a>(&self, a: &'a [Value<'a>]) -> Value<'a> {
        match self {
            Self::Any(row) => row(a),
            _ if a.iter().any(Value::is_null) => Value::Null,
            Self::Strict(row) => row(a),
            Self::Maybe(row) => row(a).unwrap_or(Value::Null),
            Self::Real(row) => Value::Double(row(a[0].real())),
            Self::Reals(row) => Value::Double(row(a[0].real(), a[1].real())),
            Self::Part(row) => a[0]
                .date_time()
                .map_or(Value::Null, |at| Value::Int(row(at))),
            Self::Clock(row) => time::clock(&a[0]).map_or(Value::Null, |at| Value::Int(row(at))),
        }
    }
}

/// All rows at once; `None` when these arguments are better looked at row by row.
pub(crate) type ColumnKernel = fn(&[ColumnarValue], usize) -> Result<Option<ColumnarValue>>;

const fn by_row(
    names: &'static str,
    arguments: (usize, usize),
    returns: fn(&ArgumentInfo<'_>) -> DataType,
    row: RowKernel,
) -> FunctionDef {
    FunctionDef {
        names,
        arguments,
        returns,
        row,
        columns: None,
        identity: |_| false,
    }
}

/// A function that sees NULLs.
pub(crate) const fn def(
    names: &'static str,
    arguments: (usize, usize),
    returns: fn(&ArgumentInfo<'_>) -> DataType,
    row: for<'a> fn(&'a [Value<'a>]) -> Value<'a>,
) -> FunctionDef {
    by_row(names, arguments, returns, RowKernel::Any(row))
}

/// A function that is NULL when an argument is.
pub(crate) const fn strict(
    names: &'static str,
    arguments: (usize, usize),
    returns: fn(&ArgumentInfo<'_>) -> DataType,
    row: for<'a> fn(&'a [Value<'a>]) -> Value<'a>,
) -> FunctionDef {
    by_row(names, arguments, returns, RowKernel::Strict(row))
}

/// A function that is NULL when an argument is or when there is no answer.
pub(crate) const fn maybe(
    names: &'static str,
    arguments: (usize, usize),
    returns: fn(&ArgumentInfo<'_>) -> DataType,
    row: for<'a> fn(&'a [Value<'a>]) -> Option<Value<'a>>,
) -> FunctionDef {
    by_row(names, arguments, returns, RowKernel::Maybe(row))
}

/// As many arguments as one likes.
pub(crate) const MANY: usize = usize::MAX;

pub(crate) fn text_type(_: &ArgumentInfo<'_>) -> DataType {
    DataType::Utf8View
}

pub(crate) fn int_type(_: &ArgumentInfo<'_>) -> DataType {
    DataType::Int64
}

pub(crate) fn uint_type(_: &ArgumentInfo<'_>) -> DataType {
    DataType::UInt64
}

pub(crate) fn real_type(_: &ArgumentInfo<'_>) -> DataType {
    DataType::Float64
}

pub(crate) fn boolean_type(_: &ArgumentInfo<'_>) -> DataType {
    DataType::Boolean
}

pub(crate) fn date_type(_: &ArgumentInfo<'_>) -> DataType {
    DataType::Date32
}

pub(crate) fn time_type(_: &ArgumentInfo<'_>) -> DataType {
    DataType::Timestamp(TimeUnit::Second, None)
}

/// Every function under each of its names.
fn all() -> impl Iterator<Item = Function> {
    let all = [
        convert::FUNCTIONS,
        number::FUNCTIONS,
        text::FUNCTIONS,
        time::FUNCTIONS,
        conditions::FUNCTIONS,
    ];
    let named = |def: &'static FunctionDef| def.names.split(' ').map(move |name| (name, def));
    all.into_iter()
        .flatten()
        .flat_map(named)
        .map(|(name, def)| Function {
            name,
            def,
            signature: Signature::user_defined(Volatility::Immutable),
        })
}

/// All of them, to be registered.
pub(crate) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    all().map(|function| Arc::new(ScalarUDF::from(function)))
}

/// Whether one of them has this name.
pub(crate) fn is_known(name: &str) -> bool {
    all().any(|function| function.name == name)
}

/// One of them, to be called.
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Option<Expr> {
    let function = all().find(|function| function.name == name)?;
    Some(ScalarUDF::from(function).call(arguments))
}

/// An expression that fails when the statement should end.
///
/// # Errors
/// When it has no type.
pub(crate) fn interruptible(
    expr: Arc<dyn PhysicalExpr>,
    schema: &Schema,
) -> Result<Arc<dyn PhysicalExpr>> {
    let function = all().find(|function| function.name == "__interruptible");
    let function = function.map(|function| Arc::new(ScalarUDF::from(function)));
    let Some(function) = function else {
        return Ok(expr);
    };
    let options = Arc::new(ConfigOptions::default());
    let call = ScalarFunctionExpr::try_new(function, vec![expr], schema, options)?;
    Ok(Arc::new(call))
}

/// A [`FunctionDef`] as DataFusion wants it.
struct Function {
    name: &'static str,
    def: &'static FunctionDef,
    signature: Signature,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Function {
    /// The type for these arguments: one that a [`Builder`] makes, or that of the argument when that is the answer.
    fn data_type(&self, known: &ArgumentInfo<'_>) -> DataType {
        if let [only] = known.types
            && (self.def.identity)(only)
        {
            return only.clone();
        }
        match (self.def.returns)(known) {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Dictionary(..) => DataType::Utf8View,
            DataType::Timestamp(TimeUnit::Second, _) => DataType::Timestamp(TimeUnit::Second, None),
            DataType::Timestamp(..) => DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Float32 => DataType::Float64,
            other => other,
        }
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let (least, most) = self.def.arguments;
        if (least..=most).contains(&given.len()) {
            return Ok(given.to_vec());
        }
        Err(SqlError {
            code: 1582,
            state: "42000",
            message: format!(
                "Incorrect parameter count in the call to native function '{}'",
                self.name.trim_start_matches('_')
            ),
        }
        .into())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let values = vec![None; types.len()];
        Ok(self.data_type(&ArgumentInfo {
            types,
            values: &values,
        }))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args
            .arg_fields
            .iter()
            .map(|field| field.data_type().clone())
            .collect();
        let data_type = self.data_type(&ArgumentInfo {
            types: &types,
            values: args.scalar_arguments,
        });
        Ok(Arc::new(Field::new(self.name, data_type, true)))
    }

    fn simplify(&self, mut args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if let [only] = args.as_slice()
            && (self.def.identity)(&info.get_data_type(only)?)
        {
            return Ok(ExprSimplifyResult::Simplified(args.remove(0)));
        }
        Ok(ExprSimplifyResult::Original(args))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let guard = cancellation::current();
        if let Some(guard) = &guard {
            guard.check()?;
        }
        if let [only] = args.args.as_slice()
            && (self.def.identity)(&only.data_type())
        {
            return Ok(only.clone());
        }
        if let Some(kernel) = self.def.columns
            && let Some(done) = kernel(&args.args, args.number_rows)?
        {
            return Ok(done);
        }
        let constant = args
            .args
            .iter()
            .all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let data_type = args.return_field.data_type();
        let (array, texts) = rows_of(self.def, &args.args, rows, data_type, guard.as_deref())?;
        if !constant {
            return Ok(ColumnarValue::Array(array));
        }
        if let Some(guard) = guard {
            guard.constant(texts)?;
        }
        let value = ScalarValue::try_from_array(&array, 0)?;
        Ok(ColumnarValue::Scalar(value))
    }
}

/// The rows of a call, and how many bytes of text they are.
fn rows_of(
    def: &FunctionDef,
    arguments: &[ColumnarValue],
    rows: usize,
    data_type: &DataType,
    guard: Option<&StatementGuard>,
) -> Result<(ArrayRef, usize)> {
    let cells: Vec<Cells> = arguments
        .iter()
        .map(|argument| match argument {
            ColumnarValue::Array(array) => Cells::new(array),
            ColumnarValue::Scalar(value) => Cells::new(&value.to_array()?),
        })
        .collect::<Result<_>>()?;
    let mut builder = Builder::new(data_type);
    let mut held = TextMemory::new(guard);
    let mut values = Vec::with_capacity(cells.len());
    for row in 0..rows {
        if row % ROWS_PER_CHECK == 0
            && let Some(guard) = guard
        {
            guard.check()?;
        }
        values.clear();
        values.extend(
            cells
                .iter()
                .map(|cells| cells.get(if cells.len() == 1 { 0 } else { row })),
        );
        match def.row.call(&values) {
            Value::Text(text) if text.len() > TEXT_MAX => builder.push(&Value::Null),
            value => {
                if let (Value::Text(text), Builder::Text(_)) = (&value, &builder) {
                    held.add(text.len())?;
                }
                builder.push(&value);
            }
        }
    }
    let texts = held.bytes();
    Ok((held.with(builder.finish())?, texts))
}
