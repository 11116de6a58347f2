//! Instruments requests: a statement for each route, from its handler to the last byte of its
//! answer.

use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::MethodRouter;

use super::answer::body::holding;
use super::answer::endless::Endless;
use super::app::App;
use crate::instruments::digests::Statement;
use crate::instruments::registry::registry;
use crate::instruments::{Foreground, Instrument};

/// Wraps the handlers of a path with measurement.
pub(super) fn route(path: &'static str, methods: MethodRouter<Arc<App>>) -> MethodRouter<Arc<App>> {
    let name = if path == "/" { "index" } else { path.trim_matches('/') };
    let instrument = registry().and_then(|it| it.named(format!("statement/http/{name}")));
    let Some(instrument) = instrument else { return methods };
    methods.route_layer(from_fn(move |request: Request, next: Next| {
        answer(instrument, path, request, next)
    }))
}

async fn answer(
    instrument: &'static Instrument,
    path: &'static str,
    request: Request,
    next: Next,
) -> Response {
    let Some(connection) = request.extensions().get::<Arc<Foreground>>().cloned() else {
        return next.run(request).await;
    };
    let work = async {
        let mut event = instrument.begin_in_task();
        event.statement(|| {
            let (method, uri) = (request.method(), request.uri());
            Statement::new(&format!("{method} {uri}"), &format!("{method} {path}"), None)
        });
        let response = next.run(request).await;
        let status = response.status();
        if status.is_client_error() || status.is_server_error() {
            let reason = status.canonical_reason().unwrap_or_default().to_owned();
            event.outcome(|it| it.error = Some((status.as_u16(), "", reason)));
        }
        if !event.is_on() || response.extensions().get::<Endless>().is_some() {
            return response;
        }
        response.map(|body| holding(body, event))
    };
    connection.scope(work).await
}
