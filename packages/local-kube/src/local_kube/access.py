"""Who may speak to the cluster: who can read its kubeconfig, and nobody else on this machine."""

from __future__ import annotations

import asyncio
import hmac
import time
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from local_kube.refusals import RefusalError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class Gate:
    """Lets requests with the token through, and knows when the last one came."""

    def __init__(self, application: ASGIApp, token: str) -> None:
        self._application = application
        self._expected = f"Bearer {token}".encode()
        self.last_request = time.monotonic()
        self.open_requests = 0
        self.quiet = asyncio.Event()
        """Set while no request is open."""
        self.quiet.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        headers = dict(scope.get("headers") or [])
        if not hmac.compare_digest(headers.get(b"authorization", b""), self._expected):
            await self._refuse(scope, receive, send)
            return
        self.open_requests += 1
        self.quiet.clear()
        try:
            await self._application(scope, receive, send)
        finally:
            self.open_requests -= 1
            self.last_request = time.monotonic()
            if not self.open_requests:
                self.quiet.set()

    @staticmethod
    async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = RefusalError(401, "Unauthorized: use the token in the cluster's kubeconfig")
        await JSONResponse(refusal.status, 401)(scope, receive, send)
