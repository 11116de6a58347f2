//! Limits of a statement before it runs: complexity and nesting of its text, tables behind the
//! names of WITH, copies of expressions, the growth of its plan.

pub(super) mod complexity;
pub(super) mod expression_growth;
pub(super) mod plan_size;
pub(super) mod tables;
