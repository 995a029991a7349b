"""The HTTP server of the BigQuery emulator: it calls the functions of local-bigquery's API without FastAPI.

FastAPI and uvicorn take several times as long for a request as the emulator itself.
"""

from __future__ import annotations

import inspect
import json
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, get_type_hints
from urllib.parse import parse_qs, unquote, urlsplit

from fastapi import Response
from local_bigquery.api import datasets, jobs, projects, tables
from local_bigquery.errors import from_exception, invalid_payload, not_implemented
from local_bigquery.resource import Resource
from pydantic import TypeAdapter, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "/bigquery/v2"
ROUTES = [route for module in (projects, datasets, tables, jobs) for route in module.router.routes]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            status, answer = self._answer(body)
        except Exception as raised:
            error = from_exception(raised)
            status, answer = error.code, json.dumps(error.response()).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _any

    def _answer(self, body: bytes) -> tuple[int, bytes]:
        url = urlsplit(self.path)
        for route in ROUTES:
            if self.command in route.methods and (found := route.path_regex.match(url.path.removeprefix(PREFIX))):
                break
        else:
            raise not_implemented(f"{self.command} {url.path}")
        given = {name: unquote(value) for name, value in found.groupdict().items()}
        given |= parse_qs(url.query) | {"if_match": self.headers.get("If-Match")}
        answer = route.endpoint(**{name: read(given, body) for name, read in _arguments(route.endpoint)})
        status = route.status_code or 200
        if isinstance(answer, Response):
            return status, bytes(answer.body)
        if isinstance(answer, Resource):
            return status, answer.model_dump_json(by_alias=True, exclude_unset=True).encode()
        return status, b"" if answer is None else json.dumps(answer).encode()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@cache
def _arguments(endpoint: Callable[..., Any]) -> list[tuple[str, Callable[[dict[str, Any], bytes], Any]]]:
    """Return how the arguments of a function of the API are read from a request."""
    types = get_type_hints(endpoint)
    found: list[tuple[str, Callable[[dict[str, Any], bytes], Any]]] = []
    for name, parameter in inspect.signature(endpoint).parameters.items():
        alias = getattr(parameter.default, "alias", None) or name
        default = getattr(parameter.default, "default", parameter.default)
        read = _body if name == "body" else partial(_parameter, alias, default)
        found.append((name, partial(read, TypeAdapter(types[name]))))
    return found


def _body(kind: TypeAdapter[Any], _: dict[str, Any], body: bytes) -> Any:
    try:
        return kind.validate_json(body)
    except ValidationError as error:
        raise invalid_payload(error.errors()[0]) from error


def _parameter(alias: str, default: Any, kind: TypeAdapter[Any], given: dict[str, Any], _: bytes) -> Any:
    value = given.get(alias)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return default if value is None else kind.validate_python(value)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
