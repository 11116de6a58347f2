"""Decodes bodies of OTLP with the classes of opentelemetry-proto: python otlp_decode.py FILE...

Prints a JSON list of points: metric, unit, kind, temporality, attributes, start, time and value; of histograms count, sum, scale,
the number of buckets and their sum. Files whose names end in "traces" have spans: trace, span, parent, span_kind and attributes.
"""
import json
import sys

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def value(any_value):
    return getattr(any_value, any_value.WhichOneof("value"))


points = []
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        body = file.read()
    if path.endswith("traces"):
        for resource_spans in ExportTraceServiceRequest.FromString(body).resource_spans:
            for span in (it for scope in resource_spans.scope_spans for it in scope.spans):
                assert span.start_time_unix_nano <= span.end_time_unix_nano
                points.append({
                    "kind": "span",
                    "trace": span.trace_id.hex(),
                    "span": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "span_kind": span.kind,
                    "attributes": {it.key: value(it.value) for it in span.attributes},
                })
        continue
    request = ExportMetricsServiceRequest.FromString(body)
    for resource_metrics in request.resource_metrics:
        resource = {it.key: value(it.value) for it in resource_metrics.resource.attributes}
        assert resource["service.name"] == "pinbad", resource
        for scope_metrics in resource_metrics.scope_metrics:
            for metric in scope_metrics.metrics:
                kind = metric.WhichOneof("data")
                data = getattr(metric, kind)
                for point in data.data_points:
                    is_histogram = kind == "exponential_histogram"
                    out = {
                        "metric": metric.name,
                        "unit": metric.unit,
                        "kind": kind,
                        "temporality": getattr(data, "aggregation_temporality", 0),
                        "attributes": {it.key: value(it.value) for it in point.attributes},
                        "start": point.start_time_unix_nano,
                        "time": point.time_unix_nano,
                    }
                    if is_histogram:
                        counts = list(point.positive.bucket_counts)
                        assert len(counts) <= 160
                        assert sum(counts) + point.zero_count == point.count
                        out |= {"count": point.count, "sum": point.sum, "scale": point.scale}
                        out |= {"offset": point.positive.offset, "counts": counts}
                    else:
                        out["value"] = getattr(point, point.WhichOneof("value"))
                    points.append(out)
print(json.dumps(points))
