//! PERCENTILE_CONT, PERCENTILE_DISC and PERCENTILE: exact percentiles of a group or of a window's
//! partition; APDEX, of histograms.
//!
//! The second argument is a constant: 0.95, or 95 for PERCENTILE. PERCENTILE_CONT interpolates
//! between the two nearest values, as MEDIAN does; the others return an existing value, by nearest
//! rank. For histograms (database `history`) they return the percentile of their sum. A group's
//! values are kept until it is evaluated and count as memory of queries.

use std::mem::size_of_val;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Schema};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, GroupsAccumulator, Signature,
    Volatility,
};

use self::histograms::{Groups, Histograms, Wanted};
use super::memory::Room;
use crate::report::histogram::BucketLayout;
use crate::sql::cancellation;
use crate::sql::error::SqlError;
use crate::sql::tables::history::BUCKETS;

mod histograms;

/// All of them, for registration.
pub(crate) fn aggregates() -> [Arc<AggregateUDF>; 4] {
    [
        (APDEX, 0, false),
        ("percentile_cont", 1, true),
        ("percentile_disc", 1, false),
        ("percentile", 100, false),
    ]
    .map(|(name, whole, interpolates)| {
        Arc::new(AggregateUDF::from(Percentile {
            name,
            whole,
            interpolates,
            signature: Signature::variadic_any(Volatility::Immutable),
        }))
    })
}

/// Not a percentile, and of histograms alone; its second argument is the seconds that satisfy.
const APDEX: &str = "apdex";

/// One of the functions: `(numbers, part)`, with a third argument if the numbers are ordered from
/// the largest down.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Percentile {
    name: &'static str,
    /// The value that stands for 100 percent: 1 or 100; 0 for [`APDEX`].
    whole: u32,
    interpolates: bool,
    signature: Signature,
}

impl Percentile {
    fn wrong(&self, what: &str) -> SqlError {
        SqlError::wrong_arguments(format!("{}: {what}", self.name.to_uppercase()))
    }

    /// Reads the second argument.
    fn wanted(&self, args: &AccumulatorArgs<'_>) -> Result<Wanted> {
        let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
        let constant = match args.exprs[1].evaluate(&nothing) {
            Ok(ColumnarValue::Scalar(value)) => value.cast_to(&DataType::Float64).ok(),
            _ => None,
        };
        let whole = f64::from(self.whole);
        match constant {
            Some(ScalarValue::Float64(Some(secs))) if self.name == APDEX && secs > 0.0 => {
                Ok(Wanted::Apdex((secs * 1e6).round() as u64))
            }
            _ if self.name == APDEX => {
                Err(self.wrong("seconds that satisfy must be a constant above 0").into())
            }
            Some(ScalarValue::Float64(Some(part))) if (0.0..=whole).contains(&part) => {
                Ok(Wanted::Part(part / whole))
            }
            _ => Err(self
                .wrong(&format!("the fraction must be a constant from 0 to {whole}"))
                .into()),
        }
    }
}

fn is_of_histograms(args: &AccumulatorArgs<'_>) -> bool {
    *args.expr_fields[0].data_type() == DataType::Binary
}

/// The buckets of a column of histograms.
fn buckets(args: &AccumulatorArgs<'_>) -> BucketLayout {
    let buckets = args.expr_fields[0].metadata().get(BUCKETS);
    let buckets = buckets.and_then(|buckets| serde_json::from_str(buckets).ok());
    buckets.unwrap_or(BucketLayout::LogLinear)
}

impl AggregateUDFImpl for Percentile {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Results that are one of the numbers have their type.
    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(match &given[0] {
            same @ (DataType::Int64 | DataType::Float32) if !self.interpolates => same.clone(),
            _ => DataType::Float64,
        })
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return Err(self.wrong("DISTINCT is not supported").into());
        }
        let wanted = self.wanted(&args)?;
        let part = match wanted {
            _ if is_of_histograms(&args) => {
                return Ok(Box::new(Histograms::new(buckets(&args), wanted)));
            }
            Wanted::Part(part) => part,
            Wanted::Apdex(_) => {
                let what = "the first argument must be a histogram, as in database history";
                return Err(self.wrong(what).into());
            }
        };
        Ok(Box::new(Values {
            values: Vec::new(),
            part,
            from_above: args.exprs.len() == 3,
            interpolates: self.interpolates,
            returns: args.return_field.data_type().clone(),
            room: Room::default(),
        }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        is_of_histograms(&args) && !args.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let wanted = self.wanted(&args)?;
        Ok(Box::new(Groups::new(buckets(&args), wanted)))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if *args.input_fields[0].data_type() == DataType::Binary {
            let name = format_state_name(args.name, "histogram");
            return Ok(vec![Arc::new(Field::new(name, DataType::Binary, true))]);
        }
        let item = Field::new_list_field(DataType::Float64, true);
        let name = format_state_name(args.name, "values");
        Ok(vec![Arc::new(Field::new_list(name, item, true))])
    }
}

/// The numbers of one group.
#[derive(Debug)]
struct Values {
    values: Vec<f64>,
    /// From 0 to 1.
    part: f64,
    /// Whether the part is counted from the largest.
    from_above: bool,
    interpolates: bool,
    returns: DataType,
    /// Memory that DataFusion does not count itself.
    room: Room,
}

impl Values {
    fn add(&mut self, array: &ArrayRef) -> Result<()> {
        let numbers = cast(array, &DataType::Float64)?;
        let numbers = numbers.as_primitive::<Float64Type>();
        let bytes = (self.values.len() + numbers.len()) * size_of::<f64>();
        if bytes > self.values.capacity() * size_of::<f64>() {
            // Growing doubles the capacity.
            self.room.hold(2 * bytes)?;
            let more = 2 * bytes / size_of::<f64>() - self.values.len();
            self.values.reserve_exact(more);
        }
        self.values.extend(numbers.iter().flatten());
        Ok(())
    }

    /// The value at a rank, counted from 0.
    fn at(&mut self, rank: usize) -> f64 {
        *self.values.select_nth_unstable_by(rank, f64::total_cmp).1
    }

    fn percentile(&mut self) -> Option<f64> {
        let count = self.values.len();
        let last = count.checked_sub(1)?;
        if !self.interpolates {
            // The smallest number of values that makes up the part.
            let mut enough = (self.part * count as f64).ceil() as usize;
            if enough > 1 && (enough - 1) as f64 / count as f64 >= self.part {
                enough -= 1;
            }
            let rank = enough.clamp(1, count) - 1;
            return Some(self.at(if self.from_above { last - rank } else { rank }));
        }
        let part = if self.from_above { 1.0 - self.part } else { self.part };
        // Counted from 1 and weighted as in MariaDB, so that the digits are the same.
        let place = 1.0 + part * last as f64;
        let below = place.floor() as usize;
        let low = self.at(below - 1);
        // Values after a selected rank are at least as large.
        let above = self.values[below..].iter().copied();
        match above.min_by(f64::total_cmp) {
            Some(high) if place.fract() > 0.0 => {
                Some(low * (place.ceil() - place) + high * place.fract())
            }
            _ => Some(low),
        }
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().try_for_each(|values| self.add(&values))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = Arc::new(Float64Array::from(std::mem::take(&mut self.values)));
        let list = datafusion::common::utils::SingleRowListArrayBuilder::new(values);
        Ok(vec![list.build_list_scalar()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        cancellation::check()?;
        ScalarValue::Float64(self.percentile()).cast_to(&self.returns)
    }

    fn size(&self) -> usize {
        let values = self.values.capacity() * size_of::<f64>();
        size_of_val(self) + if self.room.is_counted() { 0 } else { values }
    }
}
