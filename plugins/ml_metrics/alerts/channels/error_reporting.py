"""Google Cloud Error Reporting: an event for each problem, grouped by test and metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.channels.channel import UndeliveredError
from ml_metrics.alerts.channels.http import send_json
from ml_metrics.alerts.message import MessageKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.alerts.message import Message, Reason

HOST = "https://clouderrorreporting.googleapis.com"


@dataclass(frozen=True, slots=True)
class ErrorReporting:
    """A project of Google Cloud."""

    project: str
    token: Callable[[], str]
    """Returns an access token. It is called for each message because a token expires after an hour."""
    host: str = HOST
    name: str = "error_reporting"
    secrets: tuple[str, ...] = ()

    def send(self, message: Message, timeout: float) -> str:
        """Report every problem. Recovered errors are resolved there by hand."""
        if message.kind is MessageKind.RECOVERED:
            return "nothing to report: the test recovered"
        token = self._token()
        for reason in message.reasons:
            send_json(
                "POST",
                f"{self.host}/v1beta1/projects/{self.project}/events:report",
                service="Error Reporting",
                timeout=timeout,
                body=event(message, reason),
                headers={"Authorization": f"Bearer {token}"},
            )
        return f"{len(message.reasons)} events in project {self.project}"

    def _token(self) -> str:
        try:
            return self.token()
        except Exception as error:  # noqa: BLE001  (google.auth raises many unrelated errors)
            reason = f"Google Cloud gave no access token ({type(error).__name__})"
            raise UndeliveredError(reason, transient=True) from None


def event(message: Message, reason: Reason) -> dict[str, Any]:
    """Return the body for `events.report`. Events without a stack trace are grouped by location: test and problem."""
    kind, _, metric = reason.name.partition(":")
    link = next((fact.link for fact in message.links if fact.name == "logs"), "")
    return {
        "message": f"{reason.sentence} ||| Logs for this run: {link}" if link else reason.sentence,
        "serviceContext": {"service": f"ml-metrics:{message.test}"},
        "context": {
            "reportLocation": {"filePath": message.test, "lineNumber": 1, "functionName": metric or kind},
            "user": message.owner,
        },
    }
