//! `/api/v1/sql` in a build without the feature `sql`.

use axum::http::StatusCode;

use crate::http::error::Problem;

/// Answers a statement in the address.
pub(in crate::http) async fn query() -> Problem {
    run().await
}

/// Answers a statement in the body.
pub(in crate::http) async fn run() -> Problem {
    let how = "/api/v1/reports/{name} sorts and filters";
    let why = format!("this program was built without SQL (feature `sql`); {how}");
    Problem::new(StatusCode::NOT_IMPLEMENTED, why)
}
