"""The methods of Google's Monitoring and Logging that goodput uses, as gRPC servers on loopback for the real clients.

They reject what the services reject: too many series or entries at once, a series twice in a request, points that are
too close in time, and pages that are too long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.cloud.logging_v2 import types as logging_types
from google.cloud.monitoring_v3 import types as monitoring_types
from google.protobuf.empty_pb2 import Empty

Answer = Callable[[Any, Any], Any]


@contextmanager
def serving(service: str, methods: dict[str, tuple[Any, Answer]]) -> Iterator[str]:
    """Serve methods, each given by the type of its request and a function that answers; yield the address."""
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            answer,
            request_deserializer=request.deserialize,
            response_serializer=lambda found: (
                found.SerializeToString() if isinstance(found, Empty) else type(found).serialize(found)
            ),
        )
        for name, (request, answer) in methods.items()
    }
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


class Monitoring:
    """The state of the Monitoring service."""

    def __init__(self, *, seconds_apart: float = 5.0) -> None:
        self.series: list[Any] = []
        self.requests = 0
        self.seconds_apart = seconds_apart
        self._last: dict[str, float] = {}

    @contextmanager
    def served(self) -> Iterator[str]:
        methods = {
            "CreateTimeSeries": (monitoring_types.CreateTimeSeriesRequest, self.create),
            "ListTimeSeries": (monitoring_types.ListTimeSeriesRequest, self.list),
        }
        with serving("google.monitoring.v3.MetricService", methods) as address:
            yield address

    def create(self, request: Any, context: grpc.ServicerContext) -> Empty:
        self.requests += 1
        keys = [_key(series) for series in request.time_series]
        if not 0 < len(keys) <= 200:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{len(keys)} series in a request")
        if len(set(keys)) < len(keys):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Field timeSeries had duplicate entries")
        for key, series in zip(keys, request.time_series, strict=True):
            moment = series.points[0].interval.end_time.timestamp()
            if moment < self._last.get(key, 0.0) + self.seconds_apart:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Points must be written in order and not too often")
            self._last[key] = moment
        self.series += request.time_series
        return Empty()

    def list(self, request: Any, context: grpc.ServicerContext) -> Any:
        del context
        wanted = re.findall(r'metric\.type\s*=\s*"([^"]*)"', request.filter)
        found = [series for series in self.series if not wanted or series.metric.type in wanted]
        return monitoring_types.ListTimeSeriesResponse(time_series=found)


def _key(series: Any) -> str:
    return str((series.metric.type, sorted(series.metric.labels.items()), sorted(series.resource.labels.items())))


class Logging:
    """The state of the Logging service."""

    def __init__(self) -> None:
        self.entries: dict[tuple[Any, ...], Any] = {}
        self.refusals: list[grpc.StatusCode] = []
        """The answers to the next requests."""
        self.lose_answers = 0
        """The number of next writes that are stored and then answered with an error."""
        self.filters: list[str] = []

    @contextmanager
    def served(self) -> Iterator[str]:
        methods = {
            "WriteLogEntries": (logging_types.WriteLogEntriesRequest, self.write),
            "ListLogEntries": (logging_types.ListLogEntriesRequest, self.list),
        }
        with serving("google.logging.v2.LoggingServiceV2", methods) as address:
            yield address

    def write(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._refuse(context)
        if not 0 < len(request.entries) <= 1000:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{len(request.entries)} entries in a request")
        for entry in request.entries:
            entry.log_name = entry.log_name or request.log_name
            entry.insert_id = entry.insert_id or f"given-{len(self.entries):08d}"
            self.entries.setdefault((entry.log_name, entry.timestamp.rfc3339(), entry.insert_id), entry)
        if self.lose_answers:
            self.lose_answers -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "the connection was lost")
        return logging_types.WriteLogEntriesResponse()

    def list(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._refuse(context)
        request.page_size = min(request.page_size, 1000)  # as the service does
        self.filters.append(request.filter)
        found = [entry for entry in self.entries.values() if matches(entry, request.filter)]
        found.sort(key=lambda entry: (_nanoseconds(entry.timestamp.rfc3339()), entry.insert_id))
        first = int(request.page_token or 0)
        last = first + (request.page_size or 50)
        token = str(last) if last < len(found) else ""
        return logging_types.ListLogEntriesResponse(entries=found[first:last], next_page_token=token)

    def _refuse(self, context: grpc.ServicerContext) -> None:
        if self.refusals:
            context.abort(self.refusals.pop(0), "refused for the test")


_TERM = re.compile(r'([A-Za-z_.]+)\s*(=|<=|>=|<|>)\s*("(?:[^"\\]|\\.)*"|[^\s()]+)')


def matches(entry: Any, query: str) -> bool:
    """Return whether an entry matches a filter of comparisons, AND, OR and parentheses."""
    terms: list[bool] = []

    def term(match: re.Match[str]) -> str:
        terms.append(_compares(entry, *match.groups()))
        return f"terms[{len(terms) - 1}]"

    expression = _TERM.sub(term, query).replace(" AND ", " and ").replace(" OR ", " or ")
    assert re.fullmatch(r"(terms\[\d+\]| and | or |[() ])*", expression), query
    return bool(eval(expression, {"terms": terms}))


def _compares(entry: Any, field: str, operator: str, wanted: str) -> bool:
    text = re.sub(r"\\(.)", r"\1", wanted[1:-1]) if wanted.startswith('"') else wanted
    payload = type(entry).pb(entry).json_payload.fields
    value: Any
    if field == "logName":
        value = entry.log_name
    elif field == "severity":
        value = {200: "INFO"}.get(int(entry.severity), "")
    elif field == "insertId":
        value = entry.insert_id
    elif field == "timestamp":
        value, text = _nanoseconds(entry.timestamp.rfc3339()), _nanoseconds(text)
    else:
        key = field.removeprefix("jsonPayload.")
        if key not in payload:
            return False
        value = payload[key].string_value
    less, equal = value < text, value == text
    return {"=": equal, "<": less, ">": not less and not equal, "<=": less or equal, ">=": not less}[operator]


def _nanoseconds(moment: str) -> str:
    """Return a time of RFC 3339 in UTC, with a fixed length so that texts compare like times."""
    date, _, rest = moment.replace("+00:00", "Z").removesuffix("Z").partition(".")
    return f"{date}.{rest:0<9}"
