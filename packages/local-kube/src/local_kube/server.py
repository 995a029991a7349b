"""The server's process: `python -m local_kube.server --root FOLDER --image-folder FOLDER`."""

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

from local_kube.api import discovery
from local_kube.api.authentication import TokenAuthentication
from local_kube.api.discovery import NodeObjects
from local_kube.api.exec import ExecApi
from local_kube.api.objects import ObjectsApi, Rules, admit_config_map, admit_secret, admit_service
from local_kube.api.pods import PodsApi
from local_kube.certificate import Certificate
from local_kube.errors import ApiError, ClusterError
from local_kube.jobs import admission as job_admission
from local_kube.jobs.controller import JobController, JobLedger
from local_kube.kinds import CONFIG_MAP, JOB, SECRET, SERVICE
from local_kube.kubeconfig import Address, copy_kubeconfig, read_address, write_address
from local_kube.options import (
    MOUNT_VARIABLE_PREFIX,
    ServerOptions,
    add_confinement_arguments,
    add_node_arguments,
    confinement_from,
    duration,
    node_from,
    port,
)
from local_kube.pods.kubelet import Kubelet
from local_kube.processes import process_tree
from local_kube.state.owner_references import GarbageCollector
from local_kube.state.store import Objects, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import Request
    from starlette.responses import Response

    from local_kube.kinds import Kind

LAST_REQUESTS_SECONDS = 1.0
"""How long the server waits for open requests when it stops."""
HANDOVER_SECONDS = 3.0
"""How long a new server waits for one that is stopping."""
log = logging.getLogger(__name__)


def main() -> None:
    """Serve until stopped by a signal or by idleness."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--image-folder", type=Path, required=True)
    parser.add_argument("--port", type=port, default=0)
    parser.add_argument("--idle-seconds", type=duration, default=0)
    parser.add_argument("--mount-variable-prefix", default=MOUNT_VARIABLE_PREFIX)
    parser.add_argument("--detach", action="store_true", help="return when the server responds, and leave it running")
    add_node_arguments(parser)
    add_confinement_arguments(parser)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    options = ServerOptions(
        arguments.root,
        arguments.image_folder,
        node_from(arguments),
        arguments.port,
        arguments.idle_seconds,
        arguments.mount_variable_prefix,
        confinement_from(arguments),
    )
    try:
        serve(options, _detach() if arguments.detach else lambda: None)
    except ClusterError as error:
        sys.exit(str(error))


def serve(options: ServerOptions, when_ready: Callable[[], None]) -> None:
    """Serve in this process until SIGTERM, SIGINT or idleness."""
    with _files_for_the_owner_only():
        _serve_alone(options, when_ready)


def _serve_alone(options: ServerOptions, when_ready: Callable[[], None]) -> None:
    confined = options.confinement.check()
    process_tree.hide_from_others()
    options.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    with server_lock(options.root):
        if not confined:
            log.warning("containers are not confined: they have your own rights")
        asyncio.run(_serve(options, when_ready, confined=confined))


@contextlib.contextmanager
def _files_for_the_owner_only() -> Iterator[None]:
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)  # of a process that goes on, such as that of a test


@contextlib.contextmanager
def server_lock(root: Path) -> Iterator[None]:
    """Hold the root's lock, because two servers would run every pod twice. Wait for a server that is stopping."""
    handle = os.open(root / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + HANDOVER_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as error:
            if time.monotonic() > until:
                os.close(handle)
                reason = "another local cluster is serving this folder; stop it first, or choose another root"
                raise ClusterError(f"{root}: {reason}") from error
            time.sleep(0.05)
    os.ftruncate(handle, 0)
    os.write(handle, str(os.getpid()).encode())
    try:
        yield
    finally:
        os.close(handle)


async def _serve(options: ServerOptions, when_ready: Callable[[], None], *, confined: bool) -> None:
    store = Store(options.root)
    objects = Objects(options.root)
    kubelet = Kubelet(store, objects, options)
    collector = GarbageCollector(store, objects, kubelet)
    ledger = JobLedger(options.root / "ledgers", objects.all(JOB.singular))
    jobs = JobController(store, objects, kubelet, ledger, collector)
    apis = [ObjectsApi(store, objects, collector, kind, rules) for kind, rules in _rules(jobs).items()]
    routes = [
        Route("/readyz", _ready),
        *discovery.routes(),
        *PodsApi(store, kubelet, NodeObjects(store, options.node)).routes,
        *ExecApi(store, kubelet).routes,
        *(route for api in apis for route in api.routes),
    ]
    application = Starlette(routes=routes, exception_handlers=HANDLERS)
    previous = read_address(options.root)
    token = previous.token if previous else secrets.token_urlsafe(32)
    authenticated = TokenAuthentication(application, token)
    certificate = Certificate.below(options.root)
    listener = _listen(options.port or (previous.port if previous else 0), required=bool(options.port))
    port = listener.getsockname()[1]
    config = uvicorn.Config(
        authenticated, log_level="warning", lifespan="off", ws="websockets-sansio", ssl_certfile=certificate.server
    )
    server = _Server(config, authenticated, kubelet)
    loop = asyncio.get_running_loop()
    for stop in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(stop, server.stop)
    kubelet.adopt()
    address = Address(port, token, os.getpid(), options.image_folder, confined)
    write_address(options.root, address, certificate.authority.read_bytes())
    if options.kubeconfig_copy:
        copy_kubeconfig(options.root, options.kubeconfig_copy)
    log.info("serving %s on 127.0.0.1:%d", options.root, port)

    def busy() -> bool:
        return bool(kubelet.active or jobs.active or authenticated.open_requests)

    idleness = _stop_when_idle(options.idle_seconds, authenticated, busy, server)
    tasks = [asyncio.create_task(coroutine) for coroutine in (kubelet.housekeeping(), jobs.run(), idleness)]
    listener.listen()  # from here on, clients can connect and are served as soon as the event loop runs
    when_ready()
    await server.serve([listener])
    for task in tasks:
        task.cancel()


def _rules(jobs: JobController) -> dict[Kind, Rules]:
    return {
        SECRET: Rules(admit_secret),
        CONFIG_MAP: Rules(admit_config_map),
        SERVICE: Rules(admit_service),
        # the one kind whose dependents stay unless a client requests otherwise, as in Kubernetes
        JOB: Rules(job_admission.admit, job_admission.admit_change, jobs.reconcile, "Orphan"),
    }


def _detach() -> Callable[[], None]:
    """Continue in a child process. The process that was started ends when the child calls the returned function."""
    ready, child_ready = os.pipe()
    if os.fork():
        os.close(child_ready)
        os._exit(0 if os.read(ready, 1) else 1)
    os.close(ready)
    os.setsid()

    def when_ready() -> None:
        os.write(child_ready, b"1")
        os.close(child_ready)

    return when_ready


class _Server(uvicorn.Server):
    """A uvicorn server that keeps responding until every pod has ended."""

    def __init__(self, config: uvicorn.Config, authenticated: TokenAuthentication, kubelet: Kubelet) -> None:
        super().__init__(config)
        self._authenticated = authenticated
        self._kubelet = kubelet
        self._stopping: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Stop the pods, then the server. A second call stops the server at once."""
        if self._stopping is not None:
            self.should_exit = True
        else:
            self._stopping = asyncio.create_task(self._stop())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait briefly for open requests, but not for idle connections, which uvicorn would wait for over TLS."""
        for listener in sockets or []:
            listener.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._authenticated.idle.wait(), LAST_REQUESTS_SECONDS)

    async def _stop(self) -> None:
        await self._kubelet.shut_down()
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to our own handlers."""
        yield


async def _stop_when_idle(
    seconds: float, authenticated: TokenAuthentication, busy: Callable[[], bool], server: uvicorn.Server
) -> None:
    idle_since = time.monotonic()
    while seconds:
        await asyncio.sleep(min(1, seconds / 4))
        if busy():
            idle_since = time.monotonic()
        if time.monotonic() - max(idle_since, authenticated.last_request) > seconds:
            log.info("idle for %g s: stopping", seconds)
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
            message = f"--port: 127.0.0.1:{port} cannot be served: {error.strerror}; choose another port"
            raise ClusterError(message) from error
        listener.bind(("127.0.0.1", 0))
    return listener


async def _ready(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)  # noqa: S101  (starlette's handlers are registered by class)
    return JSONResponse(error.status, error.code)


async def _unknown_path(request: Request, error: Exception) -> Response:
    code = getattr(error, "status_code", 404)
    return await _api_error(
        request, ApiError(code, f"{request.method} {request.url.path} is not supported by local-kube")
    )


async def _internal_error(request: Request, error: Exception) -> Response:
    message = f"local-kube failed: {type(error).__name__}: {error}; server.log in its root has the details"
    return await _api_error(request, ApiError(500, message))


HANDLERS = {ApiError: _api_error, 404: _unknown_path, 405: _unknown_path, Exception: _internal_error}


if __name__ == "__main__":
    main()
