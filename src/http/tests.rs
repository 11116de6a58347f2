//! The front end over a real socket, over a catalog of known requests.
//!
//! Most requests go through ureq, a client that knows nothing of this server; invalid requests go
//! through [`Server::raw`]. Each file below covers one kind of guarantee.

pub(super) mod harness;

/// Rows, columns, sorting, filters, formats, creating and dropping.
mod reports;

/// Raw requests: every search parameter, and one request in full.
mod requests;

/// Methods, hosts, origins, bodies, heads, slow and too many clients, the stop.
mod refusals;

/// Clients without a login, failed TLS, one peer with many connections; headers of every answer.
mod strangers;

/// The OpenAPI document compared with the routes.
mod openapi;
