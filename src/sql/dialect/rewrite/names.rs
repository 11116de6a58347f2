//! Names and values, before anything else is rewritten.
//!
//! Values take the places of placeholders, each item of a SELECT gets the name that MySQL gives it, and all names are put in
//! lower case, because MySQL does not tell cases apart.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LimitClause, Query, Select,
    SelectItem, SetExpr, TableFactor, UnaryOperator, Value, VisitorMut, WindowType,
};

use super::build::{call, null, number, text};
use super::{MARK, ident, lower, to_flow};
use crate::sql::dialect::context::Context;
use crate::sql::dialect::tokens::Items;
use crate::sql::error::SqlError;
use crate::sql::session::Literal;

/// Functions that may be written without their parentheses.
const BARE: [&str; 4] = ["utc_date", "utc_time", "utc_timestamp", "current_user"];

/// What MySQL calls columns: what the plan calls each, and its name.
type Names = Vec<(String, String)>;

/// The names of the columns of a query, as far as they are not the plan's.
#[derive(Debug, Default)]
pub(crate) struct ColumnNames {
    /// Those of the answer's columns that are not `*`, in their order.
    pub(crate) answer: Names,
    /// Those in sub-queries.
    pub(crate) inner: HashMap<String, String>,
}

/// The first pass over a tree.
pub(super) struct NameItems<'a> {
    pub(super) items: &'a Items,
    pub(super) context: &'a Context<'a>,
    pub(super) names: ColumnNames,
    /// How many queries are around this one.
    depth: usize,
}

impl<'a> NameItems<'a> {
    pub(super) fn new(items: &'a Items, context: &'a Context<'a>) -> Self {
        Self {
            items,
            context,
            names: ColumnNames::default(),
            depth: 0,
        }
    }

    /// Names the items of the SELECTs of a query; the names of the first one are those of its columns.
    fn selects(&self, body: &mut SetExpr) -> Names {
        match body {
            SetExpr::Select(select) => {
                without_dual(select);
                name_items(select, self.items)
            }
            SetExpr::SetOperation { left, right, .. } => {
                let names = self.selects(left);
                self.selects(right);
                names
            }
            // Comes by itself later; its names are wanted now.
            SetExpr::Query(query) => self.selects(&mut query.body.clone()),
            _ => Names::new(),
        }
    }

    fn limit(&self, expr: &mut Expr) -> Result<(), SqlError> {
        let Expr::Value(value) = expr else {
            return Ok(());
        };
        let rows = match &value.value {
            Value::Placeholder(_) if self.context.is_preparing() => 1,
            Value::Placeholder(name) => limit(&self.context.value(name)?)?,
            // `LIMIT 18446744073709551615` is how MySQL's users say "all the rest".
            Value::Number(written, _) if written.len() > 18 => i64::MAX as u64,
            _ => return Ok(()),
        };
        *expr = number(rows);
        Ok(())
    }
}

impl VisitorMut for NameItems<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        self.depth += 1;
        let names = self.selects(&mut query.body);
        match self.depth {
            1 => self.names.answer = names,
            _ => {
                for (internal, name) in names {
                    self.names.inner.entry(internal).or_insert(name);
                }
            }
        }
        let rows = match &mut query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                let offset = offset.as_mut().map(|offset| &mut offset.value);
                [limit.as_mut(), offset]
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => [Some(limit), Some(offset)],
            None => [None, None],
        };
        let mut rows = rows.into_iter().flatten();
        to_flow(rows.try_for_each(|expr| self.limit(expr)))
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Identifier(name) if is_bare_call(name) => {
                *expr = call(&name.value.to_lowercase(), Vec::new());
            }
            Expr::Identifier(name) => lower(name),
            Expr::CompoundIdentifier(parts) => {
                // `pinba.request.id`: the tables go by their own names in the plan.
                if parts.len() == 3 {
                    parts.remove(0);
                }
                parts.iter_mut().for_each(lower);
            }
            Expr::Value(value) => {
                if let Value::Placeholder(name) = &value.value {
                    match self.context.value(name) {
                        Ok(value) => *expr = literal(&value),
                        Err(error) => return ControlFlow::Break(error),
                    }
                }
            }
            Expr::Function(function) => {
                match &mut function.over {
                    Some(WindowType::NamedWindow(name)) => lower(name),
                    Some(WindowType::WindowSpec(window)) => {
                        window.window_name.iter_mut().for_each(lower);
                    }
                    None => {}
                }
                // TIMESTAMPDIFF(MINUTE, a, b): the unit is no column.
                let name = function.name.to_string().to_ascii_lowercase();
                if matches!(name.as_str(), "timestampdiff" | "timestampadd")
                    && let FunctionArguments::List(list) = &mut function.args
                    && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(unit))) =
                        list.args.first_mut()
                    && let Expr::Identifier(name) = unit
                {
                    *unit = text(name.value.clone());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_bare_call(name: &Ident) -> bool {
    let mut bare = BARE.iter();
    name.quote_style.is_none() && bare.any(|bare| bare.eq_ignore_ascii_case(&name.value))
}

/// `FROM DUAL` is no FROM.
fn without_dual(select: &mut Select) {
    if let [from] = select.from.as_slice()
        && from.joins.is_empty()
        && let TableFactor::Table { name, .. } = &from.relation
        && name.to_string().eq_ignore_ascii_case("dual")
    {
        select.from.clear();
    }
}

/// Gives each item the name that MySQL gives it, and makes names different that must be.
fn name_items(select: &mut Select, items: &Items) -> Names {
    let written = items
        .get(&select.select_token.0.span.start.column)
        .filter(|written| written.len() == select.projection.len());
    let all = select.projection.iter().any(|item| {
        matches!(
            item,
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)
        )
    });
    let mut taken = HashSet::new();
    let mut names = Names::with_capacity(select.projection.len());
    for (at, item) in select.projection.iter_mut().enumerate() {
        let (expr, name, column) = match item {
            SelectItem::UnnamedExpr(expr) => {
                let column = match &*expr {
                    Expr::Identifier(name) if is_bare_call(name) => None,
                    Expr::Identifier(name) => Some(name),
                    Expr::CompoundIdentifier(parts) => parts.last(),
                    _ => None,
                };
                let name = match (column, written.map(|written| &written[at])) {
                    (Some(column), _) => column.value.clone(),
                    (None, Some(written)) if !written.is_empty() => written.clone(),
                    _ => expr.to_string(),
                };
                (expr.clone(), name, column.is_some())
            }
            SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), alias.value.clone(), false),
            SelectItem::ExprWithAliases { .. }
            | SelectItem::Wildcard(_)
            | SelectItem::QualifiedWildcard(..) => continue,
        };
        let mut internal = name.to_lowercase();
        let free = taken.insert(internal.clone());
        let mark = !free || (column && all);
        if mark {
            internal = format!("{internal}{MARK}{at}");
        }
        names.push((internal.clone(), name));
        if mark || !column {
            let alias = ident(internal);
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    names
}

/// A value as if it had been written.
fn literal(value: &Literal) -> Expr {
    let signed = |negative: bool, digits: String| match negative {
        true => Expr::Nested(Box::new(Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(number(digits)),
        })),
        false => number(digits),
    };
    match value {
        Literal::Null => null(),
        Literal::Int(value) => signed(*value < 0, value.unsigned_abs().to_string()),
        Literal::UInt(value) => number(value),
        Literal::Float(value) if !value.is_finite() => null(),
        Literal::Float(value) => signed(*value < 0.0, format!("{:e}", value.abs())),
        Literal::Text(value) => text(value.clone()),
    }
}

/// A value for LIMIT, which clients give as a number, as a fraction or as a text.
fn limit(value: &Literal) -> Result<u64, SqlError> {
    let rows = match value {
        Literal::Int(value) => u64::try_from(*value).ok(),
        Literal::UInt(value) => Some(*value),
        Literal::Float(value) if *value >= 0.0 && value.fract() == 0.0 => Some(*value as u64),
        Literal::Text(text) => text.trim().parse().ok(),
        Literal::Null | Literal::Float(_) => None,
    };
    let rows = rows.ok_or_else(|| {
        SqlError::wrong_arguments(format!("LIMIT takes a whole number, not {value:?}"))
    })?;
    Ok(rows.min(i64::MAX as u64))
}
