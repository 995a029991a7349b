"""Measure a small server over its load: one client after the other is added, and each step is a point of a curve.

The server answers each request after some arithmetic, one request at a time, so that it is saturated from a few clients
on. `--slow PERCENT` makes the arithmetic longer, as a change of the software would.

Writes sweep.jsonl into $MODEL_DIR: a line for each number of clients. Standard library only.
"""

import argparse
import hashlib
import http.client
import json
import os
import statistics
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CLIENTS = (1, 2, 3, 4, 6, 8, 12)
WORK = 3_000


class Handler(BaseHTTPRequestHandler):
    """Answers with a digest that takes a while."""

    protocol_version = "HTTP/1.1"
    work = WORK
    busy = threading.Semaphore(2)
    wbufsize = -1

    def do_GET(self) -> None:
        with self.busy:
            digest = b""
            for _ in range(self.work):
                digest = hashlib.sha256(digest).digest()
        self.send_response(200)
        self.send_header("Content-Length", str(len(digest)))
        self.end_headers()
        self.wfile.write(digest)

    def log_message(self, *_: object) -> None:
        pass


def client(port: int, until: float, times: list[float]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    while time.monotonic() < until:
        begin = time.perf_counter()
        connection.request("GET", "/")
        connection.getresponse().read()
        times.append(time.perf_counter() - begin)
    connection.close()


def measured(port: int, clients: int, seconds: float) -> dict[str, float]:
    times: list[float] = []
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=client, args=(port, until, times)) for _ in range(clients)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - begin
    cuts = statistics.quantiles(times, n=100)
    return {
        "concurrency": clients,
        "requests": len(times),
        "throughput": len(times) / took,
        "latency_p50_ms": 1000 * cuts[49],
        "latency_p99_ms": 1000 * cuts[98],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=16.0, help="of all points together")
    parser.add_argument("--slow", type=float, default=0.0, help="by how many percent the work of a request is longer")
    options = parser.parse_args()
    Handler.work = round(WORK * (1 + options.slow / 100))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    measured(port, 2, 1.0)  # the warm-up is no point
    path = Path(os.environ.get("MODEL_DIR", ".")) / "sweep.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for clients in CLIENTS:
            point = measured(port, clients, options.seconds / len(CLIENTS))
            print(json.dumps(point), flush=True)
            file.write(json.dumps(point) + "\n")
    server.shutdown()


if __name__ == "__main__":
    main()
