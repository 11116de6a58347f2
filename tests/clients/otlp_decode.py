"""Decodes bodies of OTLP with the classes of opentelemetry-proto: python otlp_decode.py FILE...

Prints a JSON list of points: metric, unit, kind, temporality, attributes, start, time and value; of histograms count, sum, scale,
the number of buckets and their sum.
"""
import json
import sys

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest


def value(any_value):
    return getattr(any_value, any_value.WhichOneof("value"))


points = []
for path in sys.argv[1:]:
    request = ExportMetricsServiceRequest()
    with open(path, "rb") as file:
        request.ParseFromString(file.read())
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
