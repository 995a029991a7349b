"""Authentication: only requests with the token from the kubeconfig are served."""

from __future__ import annotations

import asyncio
import hmac
import time
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from local_kube.errors import ApiError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class TokenAuthentication:
    """ASGI middleware that checks the bearer token and keeps track of open requests."""

    def __init__(self, application: ASGIApp, token: str) -> None:
        self._application = application
        self._expected = f"Bearer {token}".encode()
        self.last_request = time.monotonic()
        self.open_requests = 0
        self.idle = asyncio.Event()
        """Set while no request is open."""
        self.idle.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        headers = dict(scope.get("headers") or [])
        if not hmac.compare_digest(headers.get(b"authorization", b""), self._expected):
            await self._reject(scope, receive, send)
            return
        self.open_requests += 1
        self.idle.clear()
        try:
            await self._application(scope, receive, send)
        finally:
            self.open_requests -= 1
            self.last_request = time.monotonic()
            if not self.open_requests:
                self.idle.set()

    @staticmethod
    async def _reject(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        error = ApiError(401, "Unauthorized: use the token in the cluster's kubeconfig")
        await JSONResponse(error.status, error.code)(scope, receive, send)
