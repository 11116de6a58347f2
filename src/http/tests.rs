//! The front end over a real socket, over a catalog of known requests.
//!
//! Most questions go through ureq, a client that knows nothing of this server; what no proper client would send goes
//! through [`Server::raw`]. Each file below holds one kind of promise.

pub(super) mod harness;

/// Rows, columns, sorting, filters, formats, making and dropping.
mod reports;

/// Raw requests: every search parameter, and one request in full.
mod requests;

/// Methods, hosts, origins, bodies, heads, slow and too many clients, the stop.
mod refusals;

/// Who has not logged in, TLS that does not come about, one peer with many connections; headers that every answer has.
mod strangers;

/// The OpenAPI document against what the routes do.
mod openapi;
