//! MySQL's functions, as DataFusion's.
//!
//! A function is a [`Def`]: its name, how many arguments it takes, the type it has for given types, and what it does with
//! one row of values ([`value::V`]). All are pure: what depends on the session (the time, its zone, its user) was put into the
//! statement before. They never fail on values; a text that would grow beyond 16 MB is NULL, as in MySQL. A call for a batch of
//! rows fails when its texts find no place in the memory of queries, or when the statement should end ([`watch`]).

mod convert;
mod held;
mod number;
mod text;
mod time;
mod truth;
pub(crate) mod value;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use self::held::Held;
pub(crate) use self::number::literal_number;
use self::value::{Builder, Cells, V};

pub(crate) use self::time::{shown, zone};
pub(crate) use self::truth::check_regex;
use super::error::SqlError;
use super::watch::{self, Watch};

/// No text that a function makes is longer: `max_allowed_packet`.
pub(crate) const TEXT_MAX: usize = 16 << 20;

/// Rows between two looks at whether the statement still goes on.
const ROWS_A_LOOK: usize = 16;

/// What is known of the arguments when a statement is planned.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    pub(crate) types: &'a [DataType],
    pub(crate) values: &'a [Option<&'a ScalarValue>],
}

impl Known<'_> {
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
pub(crate) struct Def {
    pub(crate) name: &'static str,
    /// The least and the most arguments.
    pub(crate) arguments: (usize, usize),
    pub(crate) returns: fn(&Known<'_>) -> DataType,
    /// One row.
    pub(crate) row: for<'a> fn(&'a [V<'a>]) -> V<'a>,
    /// All rows at once, for those that are worth it; `None`: row by row.
    pub(crate) whole: Option<Whole>,
    /// Whether the function says its first argument unchanged when that has this type.
    pub(crate) identity: fn(&DataType) -> bool,
}

/// All rows at once; `None` when these arguments are better looked at row by row.
pub(crate) type Whole = fn(&[ColumnarValue], usize) -> Result<Option<ColumnarValue>>;

impl std::fmt::Debug for Def {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A function that is never the identity and goes row by row.
pub(crate) const fn def(
    name: &'static str,
    arguments: (usize, usize),
    returns: fn(&Known<'_>) -> DataType,
    row: for<'a> fn(&'a [V<'a>]) -> V<'a>,
) -> Def {
    Def {
        name,
        arguments,
        returns,
        row,
        whole: None,
        identity: |_| false,
    }
}

/// As many arguments as one likes.
pub(crate) const MANY: usize = usize::MAX;

/// NULL when an argument is.
pub(crate) fn or_null<'a>(a: &'a [V<'a>], row: fn(&'a [V<'a>]) -> V<'a>) -> V<'a> {
    match a.iter().any(V::is_null) {
        true => V::Null,
        false => row(a),
    }
}

pub(crate) fn text_type(_: &Known<'_>) -> DataType {
    DataType::Utf8View
}

pub(crate) fn int_type(_: &Known<'_>) -> DataType {
    DataType::Int64
}

pub(crate) fn uint_type(_: &Known<'_>) -> DataType {
    DataType::UInt64
}

pub(crate) fn real_type(_: &Known<'_>) -> DataType {
    DataType::Float64
}

pub(crate) fn truth_type(_: &Known<'_>) -> DataType {
    DataType::Boolean
}

pub(crate) fn date_type(_: &Known<'_>) -> DataType {
    DataType::Date32
}

pub(crate) fn time_type(_: &Known<'_>) -> DataType {
    DataType::Timestamp(TimeUnit::Second, None)
}

/// Every function, by the module that does it.
fn all() -> impl Iterator<Item = &'static Def> {
    [
        convert::FUNCTIONS,
        number::FUNCTIONS,
        text::FUNCTIONS,
        time::FUNCTIONS,
        truth::FUNCTIONS,
    ]
    .into_iter()
    .flatten()
}

/// All of them, to be registered.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    all()
        .map(|def| Arc::new(ScalarUDF::from(Function::new(def))))
        .collect()
}

/// Whether one of them has this name.
pub(crate) fn is_known(name: &str) -> bool {
    all().any(|def| def.name == name)
}

/// One of them, to be called.
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Option<Expr> {
    let def = all().find(|def| def.name == name)?;
    Some(ScalarUDF::from(Function::new(def)).call(arguments))
}

/// A [`Def`] as DataFusion wants it.
#[derive(Debug)]
struct Function {
    def: &'static Def,
    signature: Signature,
}

impl Function {
    fn new(def: &'static Def) -> Self {
        Self {
            def,
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl Function {
    /// The type for these arguments: one that a [`Builder`] makes, or that of the argument when that is the answer.
    fn data_type(&self, known: &Known<'_>) -> DataType {
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
        self.def.name == other.def.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.def.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.def.name
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
                self.def.name.trim_start_matches('_')
            ),
        }
        .into())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let values = vec![None; types.len()];
        Ok(self.data_type(&Known {
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
        let data_type = self.data_type(&Known {
            types: &types,
            values: args.scalar_arguments,
        });
        Ok(Arc::new(Field::new(self.def.name, data_type, true)))
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
        if let [only] = args.args.as_slice()
            && (self.def.identity)(&only.data_type())
        {
            return Ok(only.clone());
        }
        let watch = watch::current();
        if let Some(watch) = &watch {
            watch.check()?;
        }
        if let Some(whole) = self.def.whole
            && let Some(done) = whole(&args.args, args.number_rows)?
        {
            return Ok(done);
        }
        let constant = args
            .args
            .iter()
            .all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let data_type = args.return_field.data_type();
        let (array, texts) = by_row(self.def, &args.args, rows, data_type, watch.as_deref())?;
        if !constant {
            return Ok(ColumnarValue::Array(array));
        }
        if let Some(watch) = watch {
            watch.constant(texts)?;
        }
        let value = ScalarValue::try_from_array(&array, 0)?;
        Ok(ColumnarValue::Scalar(value))
    }
}

/// The rows of a call, and how many bytes of text they are.
fn by_row(
    def: &Def,
    arguments: &[ColumnarValue],
    rows: usize,
    data_type: &DataType,
    watch: Option<&Watch>,
) -> Result<(ArrayRef, usize)> {
    let cells: Vec<Cells> = arguments
        .iter()
        .map(|argument| match argument {
            ColumnarValue::Array(array) => Cells::new(array),
            ColumnarValue::Scalar(value) => Cells::new(&value.to_array()?),
        })
        .collect::<Result<_>>()?;
    let mut builder = Builder::new(data_type);
    let mut held = Held::new(watch);
    let mut values = Vec::with_capacity(cells.len());
    for row in 0..rows {
        if row % ROWS_A_LOOK == 0
            && let Some(watch) = watch
        {
            watch.check()?;
        }
        values.clear();
        values.extend(
            cells
                .iter()
                .map(|cells| cells.get(if cells.len() == 1 { 0 } else { row })),
        );
        match (def.row)(&values) {
            V::Text(text) if text.len() > TEXT_MAX => builder.push(&V::Null),
            value => {
                if let (V::Text(text), Builder::Text(_)) = (&value, &builder) {
                    held.add(text.len())?;
                }
                builder.push(&value);
            }
        }
    }
    let texts = held.bytes();
    Ok((held.with(builder.finish())?, texts))
}
