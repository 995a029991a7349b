"""The part of a Kubernetes API that says who asks and what they may do, on loopback, in the shapes of 1.33."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class AccessReviews:
    """A cluster with one user."""

    user: str = "tests@p.iam.gserviceaccount.com"
    denied: set[str] = field(default_factory=set)
    """Permissions that the user has not, such as `create pods` or `list nodes`."""
    nodes: list[dict[str, Any]] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    absent: set[str] = field(default_factory=set)
    """Ends of paths that an older cluster does not have."""
    status: int = 200
    """Another status is the answer to every request."""
    page: int = 2
    asked: list[dict[str, Any]] = field(default_factory=list)
    """The attributes of every question."""
    authorization: set[str] = field(default_factory=set)
    hangs: bool = False

    def __post_init__(self) -> None:
        self.released = Event()
        handler = type("Handler", (_Handler,), {"cluster": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        """End the server, also for clients that still wait for an answer."""
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> tuple[int, Any]:
        """Return the status and the document for a request."""
        end = path.rpartition("/")[2]
        if self.status != 200 or end in self.absent:
            return 404 if self.status == 200 else self.status, {"kind": "Status", "message": "the secret hunter2"}
        if path == "/version":
            return 200, {"gitVersion": "v1.33.1-gke.1", "major": "1", "minor": "33"} | dict.fromkeys(
                ("buildDate", "compiler", "gitCommit", "gitTreeState", "goVersion", "platform"), "x"
            )
        if (method, end) == ("POST", "selfsubjectreviews"):
            info = {"username": self.user, "groups": ["system:authenticated"]}
            return 201, {**body, "status": {"userInfo": info}}
        if (method, end) == ("POST", "selfsubjectaccessreviews"):
            wanted = body["spec"]["resourceAttributes"]
            self.asked.append(wanted)
            resource = "/".join(filter(None, (wanted["resource"], wanted.get("subresource"))))
            return 201, {**body, "status": {"allowed": f"{wanted['verb']} {resource}" not in self.denied}}
        return self._list(path, end, query) if method == "GET" else (403, FORBIDDEN)

    def _list(self, path: str, end: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        if path == "/api/v1/nodes" and "list nodes" not in self.denied:
            first = int(query.get("continue", ["0"])[0])
            following = first + self.page
            more = {"continue": str(following)} if following < len(self.nodes) else {}
            return 200, {"kind": "NodeList", "metadata": more, "items": self.nodes[first:following]}
        if end == "jobs" and "list jobs" not in self.denied:
            return 200, {"kind": "JobList", "items": selected(self.jobs, query["labelSelector"][0])}
        return 403, FORBIDDEN


FORBIDDEN = {"kind": "Status", "reason": "Forbidden"}


def selected(objects: list[dict[str, Any]], selector: str) -> list[dict[str, Any]]:
    """Return the objects that have each label of a selector, and none that it denies with `!`."""
    terms = [(term.removeprefix("!"), not term.startswith("!")) for term in selector.split(",")]
    return [one for one in objects if all((key in one["metadata"]["labels"]) is wanted for key, wanted in terms)]


class _Handler(BaseHTTPRequestHandler):
    cluster: AccessReviews
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet for an answer

    def do_GET(self) -> None:
        self._respond()

    def do_POST(self) -> None:
        self._respond()

    def _respond(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        self.cluster.authorization.add(self.headers.get("Authorization", ""))
        if self.cluster.hangs:
            self.cluster.released.wait(30)
            return
        address = urlsplit(self.path)
        method = self.command
        status, document = self.cluster.answer(method, address.path.rstrip("/"), parse_qs(address.query), body)
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Print nothing."""
