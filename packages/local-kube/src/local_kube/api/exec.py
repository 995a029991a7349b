"""`exec`, which the cluster rejects.

A command from a client would run with the server owner's rights on the whole machine. For example, the command with
which Airflow ends its XCom sidecar would signal every shell of the user. The two commands that Airflow sends to that
sidecar are recognised and answered without running them, and so is `/bin/sh -c SCRIPT ml-metrics-fault-3 signal KILL`
(or `pause STOPPED AT_WORK AGAIN`, or `memory BYTES`): the container gets the signal, stands still now and then, or ends
as one that needs too much memory, at most once for each name. Every other command is rejected.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute

from local_kube.errors import ApiError, not_found

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from starlette.requests import Request
    from starlette.routing import BaseRoute
    from starlette.websockets import WebSocket

    from local_kube.json_files import Document
    from local_kube.pods.kubelet import Kubelet
    from local_kube.state.store import Store

SIDECAR = "airflow-xcom-sidecar"
RESULT = "/airflow/xcom/return.json"
EMPTY_RESULT = "__airflow_xcom_result_empty__"
"""The marker for "the workload returned nothing" in Airflow's provider."""
PROTOCOL = "v4.channel.k8s.io"
STDIN, STDOUT, STATUS = b"\x00", b"\x01", b"\x03"
CHUNK_BYTES = 32 * 1024
MAX_RESULT_BYTES = 64 * 1024**2
GRACE_SECONDS = 5
FAULT = re.compile(r"ml-metrics-fault-[0-9]{1,3}")
NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,3})?")
ORDER_SECONDS = 5.0
"""How long a container may take to get an order: its supervisor looks for one ten times a second."""
REJECTION = "the local cluster executes nothing in its containers: they are processes of your own machine"


class ExecApi:
    """Answers the two commands for the XCom sidecar, and signals; rejects all others."""

    def __init__(self, store: Store, kubelet: Kubelet) -> None:
        self._store = store
        self._kubelet = kubelet

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes of `exec`."""
        path = "/api/v1/namespaces/{namespace}/pods/{name}/exec"
        return [WebSocketRoute(path, self.stream), Route(path, self.reject, methods=["GET", "POST"])]

    async def reject(self, _: Request) -> None:
        """POST, or GET without a websocket, as older versions of kubectl send."""
        raise ApiError(403, REJECTION)

    async def stream(self, websocket: WebSocket) -> None:
        """GET with a websocket, as the Python client and kubectl send."""
        command = websocket.query_params.getlist("command")
        order = order_in(command)
        try:
            if order is not None:
                await self._order(websocket, command[3], order)
            else:
                pod = self._pod_with_sidecar(websocket)
        except ApiError as error:
            await websocket.send_denial_response(JSONResponse(error.status, error.code))
            return
        await websocket.accept(subprotocol=PROTOCOL)
        if order is not None:
            pass
        elif reads_result(command):
            result = _result(self._kubelet.container(pod, SIDECAR).host_path(RESULT))
            for start in range(0, len(result), CHUNK_BYTES):
                await websocket.send_bytes(STDOUT + result[start : start + CHUNK_BYTES])
        elif ends_sidecar(await _first_line(websocket)):
            self._kubelet.container(pod, SIDECAR).attempts[-1].stop(GRACE_SECONDS, signal.SIGINT)
        await websocket.send_bytes(STATUS + json.dumps({"metadata": {}, "status": "Success"}).encode())
        await websocket.close()

    async def _order(self, websocket: WebSocket, fault: str, order: Document) -> None:
        """Give an order to the supervisor of a container, and wait until it is obeyed."""
        pod, name = self._pod(websocket), websocket.query_params.get("container") or ""
        if name not in {one["name"] for one in pod["spec"]["containers"]}:
            raise ApiError(400, f"container {name} is not valid for pod {pod['metadata']['name']}")
        attempts = self._kubelet.container(pod, name).attempts
        if not attempts or attempts[-1].state()["phase"] != "running":
            raise ApiError(400, f'container "{name}" in pod "{pod["metadata"]["name"]}" is not running')
        given = attempts[-1].order(fault, order)
        until = asyncio.get_running_loop().time() + ORDER_SECONDS
        while given.exists() and attempts[-1].state()["phase"] == "running":
            if asyncio.get_running_loop().time() > until:
                raise ApiError(500, f'container "{name}" did not obey within {ORDER_SECONDS:g} seconds')
            await asyncio.sleep(ORDER_SECONDS / 250)

    def _pod(self, websocket: WebSocket) -> Document:
        name = websocket.path_params["name"]
        pod = self._store.pods.get((websocket.path_params["namespace"], name))
        if pod is None:
            raise not_found("pods", name)
        return pod

    def _pod_with_sidecar(self, websocket: WebSocket) -> Document:
        pod, name = self._pod(websocket), websocket.path_params["name"]
        command = websocket.query_params.getlist("command")
        if websocket.query_params.get("container") != SIDECAR or not (reads_result(command) or command == ["/bin/sh"]):
            raise ApiError(403, REJECTION)
        if not self._kubelet.container(pod, SIDECAR).attempts:
            raise ApiError(400, f'container "{SIDECAR}" in pod "{name}" is waiting to start')
        return pod


def reads_result(command: Sequence[str]) -> bool:
    """Return whether a command is the one that prints the workload's result."""
    return [*command[:2]] == ["/bin/sh", "-c"] and len(command) == 3 and f"cat {RESULT}" in command[2]


def order_in(command: Sequence[str]) -> Document | None:
    """What a command orders a container to do as a fault; None if it is another command."""
    if [*command[:2]] != ["/bin/sh", "-c"] or not FAULT.fullmatch("".join(command[3:4])):
        return None
    match command[4:]:
        case ["signal", "KILL" | "TERM" as name]:
            return {"signal": int(signal.Signals[f"SIG{name}"])}
        case ["pause", *numbers] if len(numbers) == 3 and all(map(NUMBER.fullmatch, numbers)):
            return {"pause": [float(one) for one in numbers]}
        case ["memory", _]:
            return {"memory": True}
    return None


def ends_sidecar(line: str) -> bool:
    """Return whether a line for the sidecar's shell is the one that ends the sidecar."""
    return line.strip().startswith("kill -2 ")


def _result(file: Path) -> bytes:
    """Return the file that a workload wrote. A link could lead to what only the server can read."""
    content = b""
    with suppress(OSError):
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as opened:
            if stat.S_ISREG(os.fstat(handle).st_mode):
                content = opened.read(MAX_RESULT_BYTES)
    return content or EMPTY_RESULT.encode()


async def _first_line(websocket: WebSocket) -> str:
    """Return the first line that the client sends to the shell's standard input."""
    message = await websocket.receive()
    data: bytes = message.get("bytes") or (message.get("text") or "").encode()
    return data.removeprefix(STDIN).decode(errors="replace")
