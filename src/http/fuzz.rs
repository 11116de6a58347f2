//! Sends requests to the router without a connection: an entry point for URLs and headers that no
//! client would send.
//!
//! Called by the fuzz target of HTTP and by the tests of its corpus, on their own thread; bodies
//! are read to their end, except for endless ones.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, Response, StatusCode};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::answer::endless::Endless;
use super::auth::Peer;
use super::request_checks::header;
use super::routes;
use super::settings::HttpSettings;
use crate::query::catalog::Catalog;

/// Longest body read, in bytes.
const BODY_BYTES_MAX: usize = 64 << 20;

/// The routes and their runtime.
pub(crate) struct Router {
    runtime: Runtime,
    service: TowerToHyperService<axum::Router>,
    _stop: watch::Sender<bool>,
}

impl Router {
    /// A router over a catalog.
    pub(crate) fn new(source: Catalog) -> Self {
        let (stop, stopped) = watch::channel(false);
        let router = routes::router((Arc::new(source), None), &HttpSettings::new(&[]), stopped);
        Self {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .max_blocking_threads(1)
                .build()
                .expect("a runtime"),
            service: TowerToHyperService::new(router),
            _stop: stop,
        }
    }

    /// Status, media type and body of the answer to a request from this machine; no body if the
    /// answer is endless.
    pub(crate) fn ask(&self, mut request: Request<Body>) -> (StatusCode, String, Vec<u8>) {
        request.extensions_mut().insert(Peer(SocketAddr::from((Ipv4Addr::LOCALHOST, 1))));
        self.runtime.block_on(async {
            let answer: Result<Response<Body>, _> = self.service.call(request).await;
            let (parts, body) = answer.expect("the router has no errors").into_parts();
            let media_type = header(&parts.headers, CONTENT_TYPE).unwrap_or_default().to_owned();
            let body = match parts.extensions.get::<Endless>() {
                Some(_) => Vec::new(),
                None => axum::body::to_bytes(body, BODY_BYTES_MAX)
                    .await
                    .expect("a body comes whole")
                    .to_vec(),
            };
            (parts.status, media_type, body)
        })
    }
}
