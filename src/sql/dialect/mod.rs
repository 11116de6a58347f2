//! MySQL's dialect, translated for DataFusion.
//!
//! The stages: `lex` splits a text into sqlparser's tokens, `tokens` prepares them for its parser
//! (`grammar`), `rewrite` turns MySQL's forms into DataFusion's. While DataFusion plans, `coercion`
//! gives operators MySQL's semantics for the types at hand, and `analysis` corrects the rest over
//! the plan. Everything works on one statement and is bounded by its length and by `sql::limits`.

pub(crate) mod analysis;
pub(crate) mod coercion;
pub(crate) mod context;
pub(crate) mod grammar;
pub(crate) mod lex;
pub(crate) mod rewrite;
pub(crate) mod tokens;

pub use lex::take_statement;
