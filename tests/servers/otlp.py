"""A collector of OpenTelemetry on loopback: real OTLP over gRPC and HTTP, decoded by OpenTelemetry's own messages."""

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

REQUESTS: dict[str, Any] = {
    "/v1/traces": trace_service_pb2.ExportTraceServiceRequest,
    "/v1/metrics": metrics_service_pb2.ExportMetricsServiceRequest,
}


@dataclass
class Received:
    """What a collector has accepted."""

    requests: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def spans(self) -> list[Any]:
        """The spans, in order."""
        found = [one for one in self.requests if hasattr(one, "resource_spans")]
        return [
            span
            for request in found
            for of_resource in request.resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        ]

    @property
    def services(self) -> set[str]:
        """The names of the services that sent something."""
        resources = [
            one.resource
            for request in self.requests
            for one in (request.resource_spans if hasattr(request, "resource_spans") else request.resource_metrics)
        ]
        return {attributes(one)["service.name"] for one in resources}

    @property
    def gauges(self) -> dict[tuple[str, ...], Any]:
        """The points of gauges, by name and the values of their attributes."""
        found = {}
        for request in self.requests:
            for of_resource in getattr(request, "resource_metrics", ()):
                for of_scope in of_resource.scope_metrics:
                    for metric in of_scope.metrics:
                        for point in metric.gauge.data_points:
                            found[metric.name, *map(str, attributes(point).values())] = point
        return found


def attributes(of: Any) -> dict[str, Any]:
    """Return the attributes of a span, a point or a resource."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in of.attributes}


class HttpCollector:
    """A collector over HTTP."""

    def __init__(self, status: int = 200) -> None:
        self.received = received = Received()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                received.requests.append(REQUESTS[self.path].FromString(body))
                received.headers.append(dict(self.headers))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


class GrpcCollector:
    """A collector over gRPC. One that hangs accepts the trace of a test's run and never answers.

    It answers Airflow: a whole Airflow waits for its own spans, which is not up to a test.
    """

    def __init__(self, *, hangs: bool = False) -> None:
        self.received = received = Received()
        self.asked, self._stopped = Event(), Event()
        asked, stopped = self.asked, self._stopped

        class Traces(trace_service_pb2_grpc.TraceServiceServicer):
            def Export(self, request: Any, context: Any) -> Any:
                sent = Received([request])
                if hangs and any(span.name.startswith("run ") for span in sent.spans):
                    asked.set()
                    stopped.wait(60)
                received.requests.append(request)
                received.headers.append(dict(context.invocation_metadata()))
                return trace_service_pb2.ExportTraceServiceResponse()

        class Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
            def Export(self, request: Any, context: Any) -> Any:
                received.requests.append(request)
                received.headers.append(dict(context.invocation_metadata()))
                return metrics_service_pb2.ExportMetricsServiceResponse()

        self._server = grpc.server(ThreadPoolExecutor(4))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), self._server)
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(Metrics(), self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"http://127.0.0.1:{port}"
        self._server.start()

    def stop(self) -> None:
        """Stop the server, and answer what hangs."""
        self._stopped.set()
        self._server.stop(None).wait()
