"""How the API says no: Kubernetes' `Status` object, with its codes, reasons and wording."""

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


class RefusalError(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: int, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason or REASONS.get(code) or HTTPStatus(code).phrase.replace(" ", "")

    @property
    def status(self) -> dict[str, object]:
        """The answer's body."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.code,
        }


def not_found(kind: str, name: str) -> RefusalError:
    """There is no such object."""
    return RefusalError(404, f'{kind} "{name}" not found')
