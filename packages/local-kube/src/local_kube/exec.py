"""`exec`, which this cluster never does.

A command from the network would run with its owner's rights on the whole machine; the provider's own way to end its
XCom sidecar, for one, is to signal every shell of the user. So the two requests that Airflow sends to that sidecar are
recognised and answered in kind, and everything else is refused.
"""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute

from local_kube.refusals import RefusalError, not_found

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from starlette.requests import Request
    from starlette.routing import BaseRoute
    from starlette.websockets import WebSocket

    from local_kube.kubelet import Kubelet
    from local_kube.records import Document
    from local_kube.store import Store

SIDECAR = "airflow-xcom-sidecar"
RESULT = "/airflow/xcom/return.json"
EMPTY = "__airflow_xcom_result_empty__"
"""What the provider understands as "the workload returned nothing"."""
PROTOCOL = "v4.channel.k8s.io"
STDIN, STDOUT, STATUS = b"\x00", b"\x01", b"\x03"
CHUNK = 32 * 1024
GRACE_SECONDS = 5
REFUSAL = "the local cluster executes nothing in its containers: they are processes of your own machine"


class ExecApi:
    """Answers the XCom sidecar's two commands, and refuses all others."""

    def __init__(self, store: Store, kubelet: Kubelet) -> None:
        self._store = store
        self._kubelet = kubelet

    @property
    def routes(self) -> list[BaseRoute]:
        """The paths that are served."""
        path = "/api/v1/namespaces/{namespace}/pods/{name}/exec"
        return [WebSocketRoute(path, self.converse), Route(path, self.refuse, methods=["GET", "POST"])]

    async def refuse(self, _: Request) -> None:
        """POST, or GET without a websocket: kubectl's older way."""
        raise RefusalError(403, REFUSAL)

    async def converse(self, websocket: WebSocket) -> None:
        """GET with a websocket: the Python client's way."""
        try:
            pod = self._sidecar_of(websocket)
        except RefusalError as refusal:
            await websocket.send_denial_response(JSONResponse(refusal.status, refusal.code))
            return
        command = websocket.query_params.getlist("command")
        await websocket.accept(subprotocol=PROTOCOL)
        if reads_result(command):
            result = _content(self._kubelet.container(pod, SIDECAR).place(RESULT))
            for at in range(0, len(result), CHUNK):
                await websocket.send_bytes(STDOUT + result[at : at + CHUNK])
        elif ends_sidecar(await _typed(websocket)):
            self._kubelet.container(pod, SIDECAR).attempts[-1].stop(GRACE_SECONDS, signal.SIGINT)
        await websocket.send_bytes(STATUS + json.dumps({"metadata": {}, "status": "Success"}).encode())
        await websocket.close()

    def _sidecar_of(self, websocket: WebSocket) -> Document:
        name = websocket.path_params["name"]
        pod = self._store.pods.get((websocket.path_params["namespace"], name))
        if pod is None:
            raise not_found("pods", name)
        command = websocket.query_params.getlist("command")
        if websocket.query_params.get("container") != SIDECAR or not (reads_result(command) or command == ["/bin/sh"]):
            raise RefusalError(403, REFUSAL)
        if not self._kubelet.container(pod, SIDECAR).attempts:
            raise RefusalError(400, f'container "{SIDECAR}" in pod "{name}" is waiting to start')
        return pod


def reads_result(command: Sequence[str]) -> bool:
    """Whether a command is the one that prints what the workload returned."""
    return [*command[:2]] == ["/bin/sh", "-c"] and len(command) == 3 and f"cat {RESULT}" in command[2]  # noqa: PLR2004


def ends_sidecar(line: str) -> bool:
    """Whether a line typed into the sidecar's shell is the one that ends it."""
    return line.strip().startswith("kill -2 ")


def _content(file: Path) -> bytes:
    content = file.read_bytes() if file.is_file() else b""
    return content or EMPTY.encode()


async def _typed(websocket: WebSocket) -> str:
    """The first line that the client types."""
    message = await websocket.receive()
    data: bytes = message.get("bytes") or (message.get("text") or "").encode()
    return data.removeprefix(STDIN).decode(errors="replace")
