"""The errors of this package: one for callers in Python, one for clients of the API."""

from __future__ import annotations

from http import HTTPStatus

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    500: "InternalError",
}


class ClusterError(Exception):
    """The cluster cannot be started, reached or stopped. The message gives the reason and what to do."""


class ApiError(Exception):
    """A request that is answered with an error: a `Status` object with Kubernetes' codes, reasons and wording."""

    def __init__(self, code: int, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason or REASONS.get(code) or HTTPStatus(code).phrase.replace(" ", "")

    @property
    def status(self) -> dict[str, object]:
        """The body of the response."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.code,
        }


def not_found(kind: str, name: str) -> ApiError:
    """Return the error for an object that does not exist."""
    return ApiError(404, f'{kind} "{name}" not found')
