//! MySQL's dialect: what its users write, made into what DataFusion plans.
//!
//! In this order: `lex` cuts a text into sqlparser's tokens, `tokens` makes them what its parser (`grammar`) reads, `rewrite`
//! turns MySQL's forms into DataFusion's, while DataFusion plans, `coercion` makes operators do what MySQL's do with the types
//! at hand, and `analysis` puts the rest right over the plan. All of it works on one statement and is bounded by its length and by `sql::limits`.

pub(crate) mod analysis;
pub(crate) mod coercion;
pub(crate) mod context;
pub(crate) mod grammar;
pub(crate) mod lex;
pub(crate) mod rewrite;
pub(crate) mod tokens;

pub use lex::split;
