//! Packs points and spans into bodies: each is a complete `Export...ServiceRequest` of at most
//! [`POINTS_MAX`] of one kind and [`BODY_BYTES_MAX`] bytes.

use std::fmt::Debug;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::exponential::Exponential;
use crate::input::otlp::messages::{
    Buckets, HistogramPoint, Histograms, Metric, NumberPoint, Numbers, OfResource, OfScope,
    Request, Resource, Scope, Span,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) start_ms: u64,
    pub(super) end_ms: u64,
}

impl Interval {
    /// Returns start and time of a point that counts from `start_ms` on, nanoseconds.
    pub(super) const fn times(&self, start_ms: u64) -> (u64, u64) {
        (start_ms * 1_000_000, self.end_ms * 1_000_000)
    }
}

impl Exponential {
    /// Creates a point with the histogram's scale and counts.
    pub(super) fn point(&self) -> HistogramPoint {
        let positive = Buckets {
            offset: self.offset,
            counts: self.counts.clone(),
        };
        HistogramPoint {
            scale: self.scale,
            zero_count: self.zero,
            positive: Some(positive),
            ..HistogramPoint::default()
        }
    }
}

/// Packs points, and then spans, into bodies.
#[derive(Debug)]
pub(super) struct Bodies<'a> {
    resource: &'a Resource,
    is_delta: bool,
    is_packed: bool,
    metrics: Vec<Metric>,
    spans: Vec<Span>,
    points: usize,
    bytes: usize,
    done: Vec<Body>,
}

impl<'a> Bodies<'a> {
    /// Creates an empty packer.
    pub(super) fn new(resource: &'a Resource, is_delta: bool, is_packed: bool) -> Self {
        Self {
            resource,
            is_delta,
            is_packed,
            metrics: Vec::new(),
            spans: Vec::new(),
            points: 0,
            bytes: 0,
            done: Vec::new(),
        }
    }

    fn temporality(&self) -> i32 {
        if self.is_delta { 1 } else { 2 }
    }

    /// Begins the points of a histogram.
    pub(super) fn begin_histogram(&mut self, name: &str, description: &str) {
        let histograms = Histograms {
            points: Vec::new(),
            temporality: self.temporality(),
        };
        self.metrics.push(Metric {
            exponential_histogram: Some(histograms),
            ..metric(name, description, "s")
        });
    }

    /// Begins the points of a sum or a gauge.
    pub(super) fn begin_sum(&mut self, name: &str, description: &str, unit: &str, grows: bool) {
        let mut metric = metric(name, description, unit);
        match grows {
            false => metric.gauge = Some(Numbers::default()),
            true => {
                metric.sum = Some(Numbers {
                    points: Vec::new(),
                    temporality: self.temporality(),
                    is_monotonic: true,
                });
            }
        }
        self.metrics.push(metric);
    }

    /// Adds a point to the histogram begun last.
    pub(super) fn histogram(&mut self, point: HistogramPoint) {
        self.make_room(point.encoded_len());
        let metric = self.metrics.last_mut();
        if let Some(of) = metric.and_then(|it| it.exponential_histogram.as_mut()) {
            of.points.push(point);
        }
    }

    /// Adds a point to the sum or gauge begun last.
    pub(super) fn number(&mut self, point: NumberPoint) {
        self.make_room(point.encoded_len());
        let metric = self.metrics.last_mut();
        if let Some(of) = metric.and_then(|it| it.sum.as_mut().or(it.gauge.as_mut())) {
            of.points.push(point);
        }
    }

    /// Adds a span; no point may follow it.
    pub(super) fn span(&mut self, span: Span) {
        if self.spans.is_empty() {
            self.end_body();
            self.metrics.clear();
        }
        self.make_room(span.encoded_len());
        self.spans.push(span);
    }

    fn make_room(&mut self, bytes: usize) {
        // Preceded by its field number and length.
        let bytes = bytes + 6;
        if self.points == POINTS_MAX || self.bytes + bytes > BODY_BYTES_MAX - (64 << 10) {
            self.end_body();
        }
        self.points += 1;
        self.bytes += bytes;
    }

    /// Closes the body; the metric begun last continues in the next one.
    fn end_body(&mut self) {
        let next = self.metrics.last().map(|last| {
            let mut next = last.clone();
            let numbers = next.sum.iter_mut().chain(&mut next.gauge);
            numbers.for_each(|it| it.points.clear());
            let histograms = next.exponential_histogram.iter_mut();
            histograms.for_each(|it| it.points.clear());
            next
        });
        let mut metrics = std::mem::replace(&mut self.metrics, next.into_iter().collect());
        metrics.retain(|it| {
            let numbers = it.sum.iter().chain(&it.gauge).map(|it| it.points.len());
            let histograms = it.exponential_histogram.iter().map(|it| it.points.len());
            numbers.chain(histograms).sum::<usize>() > 0
        });
        let points = std::mem::take(&mut self.points) as u64;
        self.bytes = 0;
        if points == 0 {
            return;
        }
        let spans = std::mem::take(&mut self.spans);
        let (signal, mut bytes) = match spans.is_empty() {
            true => (Signal::Metrics, self.encoded(metrics)),
            false => (Signal::Traces, self.encoded(spans)),
        };
        if self.is_packed {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            // Writing to a Vec cannot fail.
            let _ = packed.write_all(&bytes);
            bytes = packed.finish().unwrap_or_default();
        }
        self.done.push(Body {
            signal,
            bytes,
            points,
        });
    }

    fn encoded<T: Message + Default + Debug>(&self, items: Vec<T>) -> Vec<u8> {
        let scope = Scope {
            name: "pinbad".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let of_scope = OfScope {
            scope: Some(scope),
            items,
        };
        let of_resource = OfResource {
            resource: Some(self.resource.clone()),
            scopes: vec![of_scope],
        };
        let request = Request {
            resources: vec![of_resource],
        };
        request.encode_to_vec()
    }

    /// Returns all bodies.
    pub(super) fn end(mut self) -> Vec<Body> {
        self.end_body();
        self.done
    }
}

/// Creates a metric with its OpenTelemetry name: `pinbad_request_duration` becomes
/// `pinbad.request.duration`.
fn metric(name: &str, description: &str, unit: &str) -> Metric {
    let name = match name.strip_prefix("pinbad_") {
        Some(rest) if rest.starts_with("request_") || rest.starts_with("timer_") => {
            rest.replacen('_', ".", 1)
        }
        rest => rest.unwrap_or(name).to_owned(),
    };
    Metric {
        name: format!("pinbad.{name}"),
        description: description.to_owned(),
        unit: unit.to_owned(),
        ..Metric::default()
    }
}
