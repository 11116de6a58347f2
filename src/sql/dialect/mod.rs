//! MySQL's dialect: what its users write, made into what DataFusion plans.
//!
//! In this order: `lex` cuts a text into tokens, `normalise` leaves out what means nothing here and puts values in their
//! places, `grammar` reads the rest, `rewrite` turns MySQL's forms into DataFusion's, and while DataFusion plans, `typed`
//! makes operators do what MySQL's do with the types at hand. All of it works on the text of one statement and is bounded by
//! its length and by the limits in `normalise`.

pub(crate) mod grammar;
pub(crate) mod lex;
pub(crate) mod normalise;
pub(crate) mod rewrite;
pub(crate) mod typed;

pub use lex::split;
