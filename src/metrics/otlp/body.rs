//! Packs points and spans into bodies: each is a complete `Export...ServiceRequest` of at most
//! [`POINTS_MAX`] of one kind and [`BODY_BYTES_MAX`] bytes.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use prometheus_client::registry::Unit;
use prost::Message;
use prost::encoding::message;

use crate::input::otlp::messages::{
    Metric, OWN_SCOPE, OfResource, OfScope, Points, Resource, Scope,
};

/// The content of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Metrics,
    Traces,
}

/// Maximum number of points or spans in a body.
const POINTS_MAX: usize = 2_000;
/// Maximum size of a body before compression, bytes.
const BODY_BYTES_MAX: usize = 4 << 20;

/// A body ready to send.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) signal: Signal,
    pub(super) bytes: Vec<u8>,
    /// Points or spans.
    pub(super) points: u64,
}

/// Time span of points, milliseconds since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) start_ms: u64,
    pub(super) end_ms: u64,
}

/// The kind of a metric's points, with the number of their field in `Metric`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Gauge = 5,
    Sum = 7,
    Histogram = 10,
}

/// Returns a unit's name in OpenTelemetry.
pub(super) const fn unit_name(unit: Option<&Unit>) -> Option<&'static str> {
    match unit {
        Some(Unit::Seconds) => Some("s"),
        Some(Unit::Bytes) => Some("By"),
        _ => None,
    }
}

/// Packs points, and then spans, into bodies.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    resource: Resource,
    is_delta: bool,
    is_packed: bool,
    /// Metrics with the encoded points of the open body.
    metrics: Vec<(Metric, Kind, Vec<Vec<u8>>)>,
    spans: Vec<Vec<u8>>,
    points: usize,
    bytes: usize,
    done: Vec<Body>,
}

impl Bodies {
    /// Creates an empty packer.
    pub(super) fn new(resource: Resource, is_delta: bool, is_packed: bool) -> Self {
        Self { resource, is_delta, is_packed, ..Self::default() }
    }

    /// Begins a metric and returns its number.
    pub(super) fn metric(&mut self, name: String, help: &str, unit: &str, kind: Kind) -> usize {
        let metric = Metric { name, description: help.to_owned(), unit: unit.to_owned() };
        self.metrics.push((metric, kind, Vec::new()));
        self.metrics.len() - 1
    }

    /// Adds a point to a metric.
    pub(super) fn point(&mut self, metric: usize, point: &impl Message) {
        let point = self.encoded(point);
        self.metrics[metric].2.push(point);
    }

    /// Adds a span; no point may follow it.
    pub(super) fn span(&mut self, span: &impl Message) {
        if self.spans.is_empty() {
            self.end_body();
        }
        let span = self.encoded(span);
        self.spans.push(span);
    }

    /// Encodes a point or span, for which there is room in the open body then.
    fn encoded(&mut self, item: &impl Message) -> Vec<u8> {
        let item = item.encode_to_vec();
        // Preceded by its field number and length.
        let bytes = item.len() + 6;
        if self.points == POINTS_MAX || self.bytes + bytes > BODY_BYTES_MAX - (64 << 10) {
            self.end_body();
        }
        self.points += 1;
        self.bytes += bytes;
        item
    }

    fn end_body(&mut self) {
        let points = std::mem::take(&mut self.points) as u64;
        self.bytes = 0;
        if points == 0 {
            return;
        }
        let temporality = if self.is_delta { 1 } else { 2 };
        let mut items = std::mem::take(&mut self.spans);
        let signal = if items.is_empty() { Signal::Metrics } else { Signal::Traces };
        for (metric, kind, points) in self.metrics.iter_mut().filter(|it| !it.2.is_empty()) {
            let points = Points {
                points: std::mem::take(points),
                temporality: if *kind == Kind::Gauge { 0 } else { temporality },
                is_monotonic: *kind == Kind::Sum,
            };
            let mut item = metric.encode_to_vec();
            message::encode(*kind as u32, &points, &mut item);
            items.push(item);
        }
        let scope =
            Scope { name: OWN_SCOPE.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let of_resource = OfResource {
            resource: Some(self.resource.clone()),
            scopes: vec![OfScope { scope: Some(scope), items }],
        };
        let mut bytes = Vec::new();
        message::encode(1, &of_resource, &mut bytes);
        if self.is_packed {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            // Writing to a Vec cannot fail.
            let _ = packed.write_all(&bytes);
            bytes = packed.finish().unwrap_or_default();
        }
        self.done.push(Body { signal, bytes, points });
    }

    /// Returns all bodies.
    pub(super) fn end(mut self) -> Vec<Body> {
        self.end_body();
        self.done
    }
}
