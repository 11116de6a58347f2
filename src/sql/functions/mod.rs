//! MySQL's functions for DataFusion.
//!
//! A function is one [`FunctionDef`] in the list of its module: names, number of arguments, result
//! type, and a kernel over one row of [`Value`]s. Functions are pure: the session's time, zone and
//! user are already literals in the statement. A text beyond 16 MB is NULL, as in MySQL. A call
//! fails if its type has no room for a number, if its texts exceed the memory of queries, or if the
//! statement should end ([`cancellation`]).

mod conditions;
mod convert;
mod memory;
mod number;
mod percentile;
mod result_type;
mod text;
mod time;
pub(crate) mod value;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use chrono::NaiveDate;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use self::memory::Room;
pub(crate) use self::number::{INNER_SCALE_MAX, literal_number};
pub(crate) use self::percentile::aggregates;
pub(crate) use self::result_type::branch_type;
use self::value::{Builder, Cells, Value};

pub(crate) use self::conditions::regex;
pub(crate) use self::text::unhex;
pub(crate) use self::time::{shown, zone};
use super::cancellation;
use super::error::SqlError;

/// Longest text that a function may return: `max_allowed_packet`.
pub(crate) const TEXT_MAX: usize = 16 << 20;

/// A CASE, a BETWEEN, and a literal that is a text and a number, until `dialect::analysis` replaces
/// them.
pub(crate) const CASE: &str = "__case";
pub(crate) const BETWEEN: &str = "__between";
pub(crate) const BITS: &str = "__bits";

/// Returns its argument, and fails when the statement should end.
pub(crate) const INTERRUPTIBLE: &str = "__interruptible";

/// Returns its argument, and may be NULL whatever that is: no optimizer takes it away.
pub(crate) const NULLABLE: &str = "__nullable";

/// Rows between two checks whether the statement should end.
const ROWS_PER_CHECK: usize = 16;

/// The arguments as known when a statement is planned.
#[derive(Debug)]
struct ArgumentInfo<'a> {
    types: &'a [DataType],
    values: &'a [Option<&'a ScalarValue>],
}

impl ArgumentInfo<'_> {
    /// An argument that is a number literal.
    fn int(&self, at: usize) -> Option<i64> {
        let value = self.values.get(at).copied().flatten()?;
        let cells = Cells::new(&value.to_array().ok()?).ok()?;
        let value = cells.get(0);
        (!value.is_null()).then(|| value.int())
    }
}

/// A Rust result of a function, with its SQL type and value.
trait Answer: 'static {
    const TYPE: DataType;

    fn value<'a>(self) -> Value<'a>;
}

macro_rules! answers {
    ($($answer:ty => $data_type:ident, $value:expr;)+) => {$(
        impl Answer for $answer {
            const TYPE: DataType = DataType::$data_type;

            fn value<'a>(self) -> Value<'a> {
                $value(self)
            }
        }
    )+};
}

answers! {
    bool => Boolean, Value::boolean;
    i64 => Int64, Value::Int;
    u64 => UInt64, Value::UInt;
    f64 => Float64, Value::Double;
    String => Utf8View, Value::text;
    NaiveDate => Date32, |day: NaiveDate| Value::Date(day.to_epoch_days());
}

/// `None` is NULL.
impl<T: Answer> Answer for Option<T> {
    const TYPE: DataType = T::TYPE;

    fn value<'a>(self) -> Value<'a> {
        self.map_or(Value::Null, T::value)
    }
}

/// The type of a function's result, by its arguments.
type Returns = fn(&ArgumentInfo<'_>) -> DataType;

/// Whole seconds.
const SECONDS: DataType = DataType::Timestamp(TimeUnit::Second, None);

fn seconds_type(_: &ArgumentInfo<'_>) -> DataType {
    SECONDS
}

/// Computes one row from its arguments.
type RowKernel = Box<dyn for<'a> Fn(&'a [Value<'a>]) -> Value<'a> + Send + Sync>;

/// Computes all rows at once; `None` if these arguments are better handled row by row.
type ColumnKernel = fn(&[ArrayRef]) -> Result<Option<ArrayRef>>;

/// One of MySQL's functions.
struct FunctionDef {
    /// Its names, separated by blanks.
    names: &'static str,
    /// Fewest and most arguments.
    arguments: (usize, usize),
    returns: Returns,
    row: RowKernel,
    /// For functions where it is worth it.
    columns: Option<ColumnKernel>,
    /// Whether the function returns its first argument unchanged if that has this type.
    identity: fn(&DataType) -> bool,
    /// Whether a result that its type has no room for is an error.
    is_checked: bool,
}

impl FunctionDef {
    fn with_columns(self, kernel: ColumnKernel) -> Self {
        Self { columns: Some(kernel), ..self }
    }

    fn identity_for(self, identity: fn(&DataType) -> bool) -> Self {
        Self { identity, ..self }
    }

    fn checked(self) -> Self {
        Self { is_checked: true, ..self }
    }
}

fn def(
    names: &'static str,
    arguments: (usize, usize),
    returns: Returns,
    row: impl for<'a> Fn(&'a [Value<'a>]) -> Value<'a> + Send + Sync + 'static,
) -> FunctionDef {
    FunctionDef {
        names,
        arguments,
        returns,
        row: Box::new(row),
        columns: None,
        identity: |_| false,
        is_checked: false,
    }
}

/// A function that sees NULLs.
fn nullable<R: Answer>(
    names: &'static str,
    arguments: (usize, usize),
    row: impl for<'a> Fn(&'a [Value<'a>]) -> R + Send + Sync + 'static,
) -> FunctionDef {
    def(names, arguments, |_| R::TYPE, move |a| row(a).value())
}

/// A function that returns NULL if an argument is NULL.
fn strict<R: Answer>(
    names: &'static str,
    arguments: (usize, usize),
    row: impl for<'a> Fn(&'a [Value<'a>]) -> R + Send + Sync + 'static,
) -> FunctionDef {
    typed(names, arguments, |_| R::TYPE, move |a| Some(row(a).value()))
}

/// A function of one text.
fn of_text<R: Answer>(
    names: &'static str,
    row: impl Fn(&str) -> R + Send + Sync + 'static,
) -> FunctionDef {
    strict(names, (1, 1), move |a| row(&a[0].to_text()))
}

/// A function whose type depends on its arguments; returns NULL if one of them is NULL.
fn typed(
    names: &'static str,
    arguments: (usize, usize),
    returns: Returns,
    row: impl for<'a> Fn(&'a [Value<'a>]) -> Option<Value<'a>> + Send + Sync + 'static,
) -> FunctionDef {
    def(names, arguments, returns, move |a| match a.iter().any(Value::is_null) {
        true => Value::Null,
        false => row(a).unwrap_or(Value::Null),
    })
}

/// Any number of arguments.
const MANY: usize = usize::MAX;

static DEFS: LazyLock<Vec<FunctionDef>> = LazyLock::new(|| {
    [
        convert::functions(),
        number::functions(),
        text::functions(),
        time::functions(),
        conditions::functions(),
    ]
    .into_iter()
    .flatten()
    .collect()
});

/// Every function under each of its names.
static ALL: LazyLock<HashMap<&'static str, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let named = DEFS.iter().enumerate().flat_map(|(at, def)| {
        def.names.split(' ').map(move |name| {
            let volatility = match name {
                NULLABLE => Volatility::Volatile,
                _ => Volatility::Immutable,
            };
            let signature = Signature::user_defined(volatility);
            let function = Function { name, at, signature };
            (name, Arc::new(ScalarUDF::from(function)))
        })
    });
    named.collect()
});

/// All functions, for registration.
pub(crate) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    ALL.values().cloned()
}

/// The names of those that statements may call.
pub(crate) fn names() -> impl Iterator<Item = &'static str> + Clone {
    DEFS.iter().flat_map(|def| def.names.split(' ')).filter(|name| !name.starts_with("__"))
}

/// Whether a function of this name exists.
pub(crate) fn is_known(name: &str) -> bool {
    ALL.contains_key(name)
}

/// A call of one of them.
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    ALL[name].call(arguments)
}

/// A call of one of them, in a physical plan.
///
/// # Errors
/// Fails if the expression has no type.
pub(crate) fn around(
    name: &str,
    expr: Arc<dyn PhysicalExpr>,
    schema: &Schema,
) -> Result<Arc<dyn PhysicalExpr>> {
    let function = Arc::clone(&ALL[name]);
    let options = Arc::new(ConfigOptions::default());
    let call = ScalarFunctionExpr::try_new(function, vec![expr], schema, options)?;
    Ok(Arc::new(call))
}

/// A [`FunctionDef`] as a DataFusion function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    name: &'static str,
    /// Its index in [`DEFS`].
    at: usize,
    signature: Signature,
}

impl Function {
    fn def(&self) -> &'static FunctionDef {
        &DEFS[self.at]
    }

    /// Whether a call with these types returns its first argument.
    fn is_identity(&self, types: &[DataType]) -> bool {
        matches!(types, [only] if (self.def().identity)(only))
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
        let (least, most) = self.def().arguments;
        if (least..=most).contains(&given.len()) {
            return Ok(given.to_vec());
        }
        Err(SqlError::parameter_count(self.name.trim_start_matches('_')).into())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {} depends on its arguments", self.name)
    }

    /// The result type for these arguments: one that a [`Builder`] makes, or that of the argument
    /// if it is returned unchanged.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let fields = args.arg_fields.iter();
        let types: Vec<DataType> = fields.map(|field| field.data_type().clone()).collect();
        let known = ArgumentInfo { types: &types, values: args.scalar_arguments };
        let returns = match (self.def().returns)(&known) {
            _ if self.is_identity(&types) => types[0].clone(),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Dictionary(..) => DataType::Utf8View,
            DataType::Timestamp(TimeUnit::Second, _) => SECONDS,
            DataType::Timestamp(..) => DataType::Timestamp(TimeUnit::Microsecond, None),
            other => other,
        };
        Ok(Arc::new(Field::new(self.name, returns, true)))
    }

    fn simplify(&self, mut args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if let [only] = args.as_slice()
            && self.name != NULLABLE
            && self.is_identity(&[info.get_data_type(only)?])
        {
            return Ok(ExprSimplifyResult::Simplified(args.remove(0)));
        }
        Ok(ExprSimplifyResult::Original(args))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        cancellation::check()?;
        if let [only] = args.args.as_slice()
            && self.is_identity(&[only.data_type()])
        {
            return Ok(only.clone());
        }
        let is_scalar = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let constant = args.args.iter().all(is_scalar);
        let at_once = match self.def().columns {
            Some(kernel) => kernel(&ColumnarValue::values_to_arrays(&args.args)?)?,
            None => None,
        };
        let (array, texts) = match at_once {
            Some(array) => (array, 0),
            None => {
                let rows = if constant { 1 } else { args.number_rows };
                let data_type = args.return_field.data_type();
                rows_of(self.def(), &args.args, rows, data_type)?
            }
        };
        if !constant {
            return Ok(ColumnarValue::Array(array));
        }
        if let Some(guard) = cancellation::current() {
            guard.constant(texts)?;
        }
        let value = ScalarValue::try_from_array(&array, 0)?;
        Ok(ColumnarValue::Scalar(value))
    }
}

/// The error of an integer that does not fit.
fn out_of_range(is_unsigned: bool) -> SqlError {
    let name = if is_unsigned { "BIGINT UNSIGNED" } else { "BIGINT" };
    SqlError::out_of_range(format!(
        "{name} value is out of range; CAST(... AS DECIMAL(38)) has room for more"
    ))
}

/// Computes the rows of a call, and counts their bytes of text.
fn rows_of(
    def: &FunctionDef,
    arguments: &[ColumnarValue],
    rows: usize,
    data_type: &DataType,
) -> Result<(ArrayRef, usize)> {
    let cells = arguments.iter().map(|argument| {
        let (array, is_one) = match argument {
            ColumnarValue::Array(array) => (Arc::clone(array), false),
            ColumnarValue::Scalar(value) => (value.to_array()?, true),
        };
        Ok((Cells::new(&array)?, is_one))
    });
    let cells: Vec<(Cells, bool)> = cells.collect::<Result<_>>()?;
    let mut builder = Builder::new(data_type);
    let (mut room, mut texts) = (Room::default(), 0);
    let mut values = Vec::with_capacity(cells.len());
    for row in 0..rows {
        if row % ROWS_PER_CHECK == 0 {
            cancellation::check()?;
        }
        values.clear();
        let at = cells.iter();
        values.extend(at.map(|(cells, is_one)| cells.get(if *is_one { 0 } else { row })));
        match (def.row)(&values) {
            Value::Text(text) if text.len() > TEXT_MAX => builder.push(&Value::Null),
            value if def.is_checked && !value.has_room(data_type) => {
                return Err(match data_type {
                    DataType::Decimal128(..) => SqlError::too_many_digits(),
                    whole => out_of_range(*whole == DataType::UInt64),
                }
                .into());
            }
            value => {
                if let Value::Text(text) = &value
                    && *data_type == DataType::Utf8View
                {
                    texts += text.len();
                    room.hold(texts)?;
                }
                builder.push(&value);
            }
        }
    }
    Ok((room.with(builder.finish())?, texts))
}
