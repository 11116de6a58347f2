//! Conditions on columns that a scan can test by itself, read out of what DataFusion plans.
//!
//! A condition is exact: a row passes it if and only if the expression is true for it, so no filter remains above the
//! scan. What is no condition (functions, two columns, patterns with a hole in the middle) is left to DataFusion. Two ways
//! lead here: expressions of the statement, when it is planned, and filters that a join or a sort makes while the query
//! runs, which are only hints.

use std::collections::HashSet;

use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions as physical;

use super::ranges::Ranges;

/// A test of one column; NULL passes only where it is asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    /// The column's number in its table.
    pub(super) column: usize,
    pub(super) test: Test,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Test {
    /// A whole number that is in these ranges.
    Ints(Ranges),
    /// A number.
    Floats(FloatTest),
    /// A text.
    Text { test: TextTest, negated: bool },
    /// NULL, or not NULL.
    Null(bool),
}

/// Bounds of a number; a bound is in it or not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FloatTest {
    low: f64,
    low_in: bool,
    high: f64,
    high_in: bool,
    negated: bool,
}

impl FloatTest {
    #[inline]
    pub(super) fn passes(&self, value: f64) -> bool {
        let above = value > self.low || self.low_in && value == self.low;
        let below = value < self.high || self.high_in && value == self.high;
        (above && below) != self.negated
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TextTest {
    /// One of these.
    In(HashSet<String>),
    /// Begins so, ends so, and is at least as long as both: LIKE with one `%`.
    Ends(String, String),
    /// Has this in it.
    Contains(String),
    /// At least (or after) the first, at most (or before) the second.
    Between(Option<(String, bool)>, Option<(String, bool)>),
}

impl TextTest {
    pub(super) fn passes(&self, text: &str) -> bool {
        match self {
            Self::In(texts) => texts.contains(text),
            Self::Ends(start, end) => {
                text.len() >= start.len() + end.len()
                    && text.starts_with(start.as_str())
                    && text.ends_with(end.as_str())
            }
            Self::Contains(part) => text.contains(part.as_str()),
            Self::Between(low, high) => {
                low.as_ref().is_none_or(|(low, low_in)| {
                    text > low.as_str() || *low_in && text == low.as_str()
                }) && high.as_ref().is_none_or(|(high, high_in)| {
                    text < high.as_str() || *high_in && text == high.as_str()
                })
            }
        }
    }
}

/// What kind of values a column has, for the reading of literals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Float,
    Text,
}

impl Condition {
    /// The condition that an expression of the statement is; `column` gives the number and the kind of a column.
    pub(super) fn of(
        expr: &Expr,
        column: &impl Fn(&Column) -> Option<(usize, Kind)>,
    ) -> Option<Self> {
        let column_of = |expr: &Expr| column(strip(expr)?);
        match expr {
            Expr::BinaryExpr(binary) if binary.op == Operator::Or => {
                Self::of(&binary.left, column)?.or(Self::of(&binary.right, column)?)
            }
            Expr::BinaryExpr(binary) if binary.op == Operator::And => {
                Self::of(&binary.left, column)?.and(Self::of(&binary.right, column)?)
            }
            Expr::BinaryExpr(binary) => match (&*binary.left, &*binary.right) {
                (left, Expr::Literal(value, _)) => {
                    Self::compare(column_of(left)?, binary.op, value)
                }
                (Expr::Literal(value, _), right) => {
                    Self::compare(column_of(right)?, binary.op.swap()?, value)
                }
                _ => None,
            },
            Expr::Between(between) => {
                let (Expr::Literal(low, _), Expr::Literal(high, _)) =
                    (&*between.low, &*between.high)
                else {
                    return None;
                };
                let column = column_of(&between.expr)?;
                let low = Self::compare(column, Operator::GtEq, low)?;
                let both = low.and(Self::compare(column, Operator::LtEq, high)?)?;
                Some(if between.negated { both.not()? } else { both })
            }
            Expr::InList(list) => {
                let values = list.list.iter().map(|item| match item {
                    Expr::Literal(value, _) => Some(value.clone()),
                    _ => None,
                });
                let values: Vec<ScalarValue> = values.collect::<Option<_>>()?;
                Self::one_of(column_of(&list.expr)?, &values, list.negated)
            }
            Expr::Like(like) if !like.case_insensitive => {
                let (column, Kind::Text) = column_of(&like.expr)? else {
                    return None;
                };
                let Expr::Literal(pattern, _) = &*like.pattern else {
                    return None;
                };
                let test = pattern_test(text_of(pattern)?, like.escape_char)?;
                let negated = like.negated;
                let test = Test::Text { test, negated };
                Some(Self { column, test })
            }
            Expr::IsNull(inner) => Some(Self {
                column: column_of(inner)?.0,
                test: Test::Null(true),
            }),
            Expr::IsNotNull(inner) => Some(Self {
                column: column_of(inner)?.0,
                test: Test::Null(false),
            }),
            Expr::Not(inner) => Self::of(inner, column)?.not(),
            _ => None,
        }
    }

    fn compare((column, kind): (usize, Kind), op: Operator, value: &ScalarValue) -> Option<Self> {
        let test = match kind {
            Kind::Int => {
                let value = int_of(value)?;
                Test::Ints(match op {
                    Operator::Eq => Ranges::between(value, value),
                    Operator::NotEq => Ranges::between(value, value).not(),
                    Operator::Lt => Ranges::between(value, i64::MAX).not(),
                    Operator::LtEq => Ranges::between(i64::MIN, value),
                    Operator::Gt => Ranges::between(i64::MIN, value).not(),
                    Operator::GtEq => Ranges::between(value, i64::MAX),
                    _ => return None,
                })
            }
            Kind::Float => {
                let value = float_of(value)?;
                if value.is_nan() {
                    return None;
                }
                let mut test = FloatTest {
                    low: f64::NEG_INFINITY,
                    low_in: true,
                    high: f64::INFINITY,
                    high_in: true,
                    negated: op == Operator::NotEq,
                };
                match op {
                    Operator::Eq | Operator::NotEq => (test.low, test.high) = (value, value),
                    Operator::Lt => (test.high, test.high_in) = (value, false),
                    Operator::LtEq => test.high = value,
                    Operator::Gt => (test.low, test.low_in) = (value, false),
                    Operator::GtEq => test.low = value,
                    _ => return None,
                }
                Test::Floats(test)
            }
            Kind::Text => {
                let value = text_of(value)?.to_owned();
                let test = match op {
                    Operator::Eq | Operator::NotEq => TextTest::In(HashSet::from([value])),
                    Operator::Lt => TextTest::Between(None, Some((value, false))),
                    Operator::LtEq => TextTest::Between(None, Some((value, true))),
                    Operator::Gt => TextTest::Between(Some((value, false)), None),
                    Operator::GtEq => TextTest::Between(Some((value, true)), None),
                    _ => return None,
                };
                let negated = op == Operator::NotEq;
                Test::Text { test, negated }
            }
        };
        Some(Self { column, test })
    }

    fn one_of(
        (column, kind): (usize, Kind),
        values: &[ScalarValue],
        negated: bool,
    ) -> Option<Self> {
        let test = match kind {
            Kind::Int => {
                let values = values.iter().map(int_of).collect::<Option<Vec<_>>>()?;
                let ranges = Ranges::of(values);
                Test::Ints(if negated { ranges.not() } else { ranges })
            }
            Kind::Text => {
                let texts = values.iter().map(|value| Some(text_of(value)?.to_owned()));
                let test = TextTest::In(texts.collect::<Option<_>>()?);
                Test::Text { test, negated }
            }
            Kind::Float => return None,
        };
        Some(Self { column, test })
    }

    fn or(self, other: Self) -> Option<Self> {
        let column = self.column;
        let test = match (self.test, other.test) {
            _ if column != other.column => return None,
            (Test::Ints(one), Test::Ints(other)) => Test::Ints(one.or(&other)),
            (
                Test::Text {
                    test: TextTest::In(mut texts),
                    negated: false,
                },
                Test::Text {
                    test: TextTest::In(more),
                    negated: false,
                },
            ) => {
                texts.extend(more);
                let test = TextTest::In(texts);
                Test::Text {
                    test,
                    negated: false,
                }
            }
            _ => return None,
        };
        Some(Self { column, test })
    }

    fn and(self, other: Self) -> Option<Self> {
        let column = self.column;
        let test = match (self.test, other.test) {
            _ if column != other.column => return None,
            (Test::Ints(one), Test::Ints(other)) => Test::Ints(one.and(&other)),
            (Test::Floats(low), Test::Floats(high)) if !low.negated && !high.negated => {
                // As BETWEEN has it: a lower bound, then an upper one.
                if low.high != f64::INFINITY || high.low != f64::NEG_INFINITY {
                    return None;
                }
                Test::Floats(FloatTest {
                    high: high.high,
                    high_in: high.high_in,
                    ..low
                })
            }
            (
                Test::Text {
                    test: TextTest::Between(low @ Some(_), None),
                    negated: false,
                },
                Test::Text {
                    test: TextTest::Between(None, high @ Some(_)),
                    negated: false,
                },
            ) => Test::Text {
                test: TextTest::Between(low, high),
                negated: false,
            },
            _ => return None,
        };
        Some(Self { column, test })
    }

    fn not(self) -> Option<Self> {
        let test = match self.test {
            Test::Ints(ranges) => Test::Ints(ranges.not()),
            Test::Floats(test) => Test::Floats(FloatTest {
                negated: !test.negated,
                ..test
            }),
            Test::Text { test, negated } => Test::Text {
                test,
                negated: !negated,
            },
            Test::Null(null) => Test::Null(!null),
        };
        Some(Self { test, ..self })
    }

    /// The conditions that hold for every row that passes a filter of DataFusion's, as far as they can be seen.
    pub(super) fn hints(
        filter: &dyn PhysicalExpr,
        column: &impl Fn(usize) -> Option<(usize, Kind)>,
        hints: &mut Vec<Self>,
    ) {
        if let Some(dynamic) = filter.downcast_ref::<physical::DynamicFilterPhysicalExpr>() {
            if let Ok(current) = dynamic.current() {
                Self::hints(&*current, column, hints);
            }
        } else if let Some(binary) = filter.downcast_ref::<physical::BinaryExpr>() {
            if *binary.op() == Operator::And {
                Self::hints(&**binary.left(), column, hints);
                Self::hints(&**binary.right(), column, hints);
            } else if let Some(literal) = binary.right().downcast_ref::<physical::Literal>()
                && let Some(at) = binary.left().downcast_ref::<physical::Column>()
                && let Some(column) = column(at.index())
            {
                hints.extend(Self::compare(column, *binary.op(), literal.value()));
            }
        } else if let Some(list) = filter.downcast_ref::<physical::InListExpr>()
            && !list.negated()
            && let Some(at) = list.expr().downcast_ref::<physical::Column>()
            && let Some(column) = column(at.index())
        {
            let values = list.list().iter().map(|item| {
                let literal = item.downcast_ref::<physical::Literal>()?;
                Some(literal.value().clone())
            });
            if let Some(values) = values.collect::<Option<Vec<_>>>() {
                hints.extend(Self::one_of(column, &values, false));
            }
        }
    }
}

/// The column that an expression shows, perhaps as a wider number.
fn strip(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        // Comparing as doubles what is kept as floats, and texts in one form or another: the values are the same.
        Expr::Cast(cast) => {
            use datafusion::arrow::datatypes::DataType;
            match cast.field.data_type() {
                DataType::Float64 | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                    strip(&cast.expr)
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn int_of(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int64(value) => *value,
        ScalarValue::UInt64(value) => i64::try_from((*value)?).ok(),
        ScalarValue::Int32(value) => value.map(i64::from),
        ScalarValue::UInt32(value) => value.map(i64::from),
        _ => None,
    }
}

fn float_of(value: &ScalarValue) -> Option<f64> {
    match value {
        ScalarValue::Float64(value) => *value,
        ScalarValue::Float32(value) => value.map(f64::from),
        _ => None,
    }
}

fn text_of(value: &ScalarValue) -> Option<&str> {
    match value {
        ScalarValue::Utf8(value) | ScalarValue::Utf8View(value) | ScalarValue::LargeUtf8(value) => {
            value.as_deref()
        }
        _ => None,
    }
}

/// What LIKE with this pattern asks, if it is one of the simple ones.
fn pattern_test(pattern: &str, escape: Option<char>) -> Option<TextTest> {
    if pattern.contains(['_', '\\']) || escape.is_some_and(|escape| pattern.contains(escape)) {
        return None;
    }
    let parts: Vec<&str> = pattern.split('%').collect();
    match parts[..] {
        [whole] => Some(TextTest::In(HashSet::from([whole.to_owned()]))),
        [start, end] => Some(TextTest::Ends(start.to_owned(), end.to_owned())),
        ["", part, ""] => Some(TextTest::Contains(part.to_owned())),
        _ => None,
    }
}
