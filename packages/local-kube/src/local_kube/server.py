"""The server's own process: `python -m local_kube.server --root FOLDER`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import logging
import os
import secrets
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from local_kube import discovery, job_admission, secret_admission, services
from local_kube.access import Gate
from local_kube.api import PodsApi
from local_kube.errors import ClusterError
from local_kube.exec import ExecApi
from local_kube.garbage import Garbage
from local_kube.job_controller import JobController
from local_kube.job_ledger import JobLedger
from local_kube.kinds import CONFIG_MAP, JOB, SECRET, SERVICE
from local_kube.kubeconfig import Address, read_address, write_address
from local_kube.kubelet import Kubelet
from local_kube.machine import Machine
from local_kube.objects import Objects
from local_kube.objects_api import ObjectsApi, Rules
from local_kube.options import ServerOptions, add_node_arguments, node_of
from local_kube.refusals import RefusalError
from local_kube.store import Store
from local_kube.tls import Certificate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import Request
    from starlette.responses import Response

LAST_REQUESTS_SECONDS = 1.0
HANDOVER_SECONDS = 3.0
log = logging.getLogger(__name__)


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--image-folder", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--idle-seconds", type=float, default=0)
    parser.add_argument("--detach", action="store_true", help="return when the server answers, and leave it running")
    add_node_arguments(parser)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    options = ServerOptions(
        arguments.root, arguments.image_folder, node_of(arguments), arguments.port, arguments.idle_seconds
    )
    try:
        serve(options, _detach() if arguments.detach else lambda: None)
    except ClusterError as error:
        sys.exit(str(error))


def serve(options: ServerOptions, when_ready: Callable[[], None]) -> None:
    """Serve in this process until SIGTERM, SIGINT or idleness."""
    options.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    with alone(options.root):
        asyncio.run(_serve(options, when_ready))


@contextlib.contextmanager
def alone(root: Path) -> Iterator[None]:
    """Hold the root's lock: two servers would run every pod twice. One that is just ending is waited for."""
    handle = os.open(root / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + HANDOVER_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as error:
            if time.monotonic() > until:
                os.close(handle)
                message = "another local cluster is serving this folder; `ml-metrics cluster stop` ends it"
                raise ClusterError(f"{root}: {message}") from error
            time.sleep(0.05)
    os.ftruncate(handle, 0)
    os.write(handle, str(os.getpid()).encode())
    try:
        yield
    finally:
        os.close(handle)


async def _serve(options: ServerOptions, when_ready: Callable[[], None]) -> None:
    store = Store(options.root)
    objects = Objects(options.root)
    kubelet = Kubelet(store, objects, options.image_folder, options.node)
    garbage = Garbage(store, objects, kubelet)
    jobs = JobController(store, objects, kubelet, JobLedger(options.root / "ledgers", objects.all(JOB.one)), garbage)
    rules = {
        SECRET: Rules(secret_admission.admitted),
        CONFIG_MAP: Rules(),
        SERVICE: Rules(services.admitted),
        # the one kind whose dependents stay unless a client says otherwise: Kubernetes keeps an old promise there
        JOB: Rules(job_admission.admitted, job_admission.changed, jobs.advance, "Orphan"),
    }
    before = read_address(options.root)
    token = before.token if before else secrets.token_urlsafe(32)
    routes = [
        Route("/readyz", _ready),
        *discovery.routes(),
        *PodsApi(store, kubelet, Machine(store, options.node)).routes,
        *ExecApi(store, kubelet).routes,
        *(route for kind, rule in rules.items() for route in ObjectsApi(store, objects, garbage, kind, rule).routes),
    ]
    application = Starlette(routes=routes, exception_handlers=HANDLERS)
    gate = Gate(application, token)
    certificate = Certificate.below(options.root)
    listener = _listen(options.port or (before.port if before else 0), required=bool(options.port))
    port = listener.getsockname()[1]
    config = uvicorn.Config(
        gate,
        log_level="warning",
        lifespan="off",
        ws="websockets-sansio",
        ssl_certfile=certificate.server,
    )
    server = _Server(config, gate, kubelet)
    loop = asyncio.get_running_loop()
    for stop in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(stop, server.end)
    kubelet.adopt()
    address = Address(port, token, os.getpid(), options.image_folder)
    write_address(options.root, address, certificate.authority.read_bytes())
    log.info("serving %s on 127.0.0.1:%d", options.root, port)

    def busy() -> bool:
        return bool(kubelet.active or jobs.active or gate.open_requests)

    chores = [
        kubelet.keep_house(),
        jobs.look_after_all(),
        _watch_idleness(options.idle_seconds, gate, busy, server),
    ]
    tasks = [asyncio.create_task(chore) for chore in chores]
    listener.listen()  # from here on a client may connect: it is served as soon as the loop turns
    when_ready()
    await server.serve([listener])
    for task in tasks:
        task.cancel()


def _detach() -> Callable[[], None]:
    """Go on as a child that belongs to nobody; the process that was started ends when the child says it is ready."""
    ready, told = os.pipe()
    if os.fork():
        os.close(told)
        os._exit(0 if os.read(ready, 1) else 1)
    os.close(ready)
    os.setsid()

    def tell() -> None:
        os.write(told, b"1")
        os.close(told)

    return tell


class _Server(uvicorn.Server):
    """Uvicorn with an end of our own: the API goes on answering until every pod is over."""

    def __init__(self, config: uvicorn.Config, gate: Gate, kubelet: Kubelet) -> None:
        super().__init__(config)
        self._gate = gate
        self._kubelet = kubelet
        self._ending: asyncio.Task[None] | None = None

    def end(self) -> None:
        """End the pods, then the server; asked again, end at once."""
        if self._ending is not None:
            self.should_exit = True
        else:
            self._ending = asyncio.create_task(self._end())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let open requests end, for a moment. Idle connections are not waited for: over TLS they would linger."""
        for listener in sockets or []:
            listener.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._gate.quiet.wait(), LAST_REQUESTS_SECONDS)

    async def _end(self) -> None:
        await self._kubelet.shut_down()
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _watch_idleness(seconds: float, gate: Gate, busy: Callable[[], bool], server: uvicorn.Server) -> None:
    quiet_since = time.monotonic()
    while seconds:
        await asyncio.sleep(min(1, seconds / 4))
        if busy():
            quiet_since = time.monotonic()
        if time.monotonic() - max(quiet_since, gate.last_request) > seconds:
            log.info("nothing to do for %g s: stopping", seconds)
            server.should_exit = True
            return


def _listen(port: int, *, required: bool) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        if required:
            listener.close()
            raise ClusterError(f"127.0.0.1:{port} cannot be served: {error.strerror}; choose another port") from error
        listener.bind(("127.0.0.1", 0))
    return listener


async def _ready(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusalError)  # noqa: S101  (starlette's handlers are registered by class)
    return JSONResponse(error.status, error.code)


async def _refuse_path(request: Request, error: Exception) -> Response:
    code = getattr(error, "status_code", 404)
    refusal = RefusalError(code, f"{request.method} {request.url.path} is not served by the local cluster")
    return JSONResponse(refusal.status, code)


async def _fail(_: Request, error: Exception) -> Response:
    refusal = RefusalError(500, f"the local cluster failed: {type(error).__name__}: {error}; its server.log says where")
    return JSONResponse(refusal.status, refusal.code)


HANDLERS = {RefusalError: _refuse, 404: _refuse_path, 405: _refuse_path, Exception: _fail}


if __name__ == "__main__":
    main()
