"""Google Cloud Error Reporting: an event for each problem, grouped by test and metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.message import MessageKind, Reason
from ml_metrics.alerts.render import cut, printable
from ml_metrics.core.deadline import Deadline, within
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.core.http import Client

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.alerts.message import Message


HOST = "https://clouderrorreporting.googleapis.com"
SERVICE = "Error Reporting"
MAX_TEXT, MAX_NAME = 8000, 500
"""The service accepts 64 KiB in all."""


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
        """Report the problems. Recovered errors are resolved there by hand."""
        if message.kind not in {MessageKind.BROKEN, MessageKind.WORSE, MessageKind.OVERDUE, MessageKind.WARNING}:
            return f"nothing to report: {message.kind}"
        return within(timeout, SERVICE, lambda deadline: self._report(message, deadline))

    def _report(self, message: Message, deadline: Deadline) -> str:
        token = self._token()
        client = Client(SERVICE, deadline, {"Authorization": f"Bearer {token}"}, (token,))
        address = f"{self.host}/v1beta1/projects/{self.project}/events:report"
        # further problems are counted in one event more: each event is a request
        reasons = message.reasons[:20]
        if more := len(message.reasons) - len(reasons):
            reasons = (*reasons, Reason("more", f"{more:,} more problems of test {message.test} are not listed here"))
        for reason in reasons:
            client.send("POST", address, event(message, reason))
        return f"{len(reasons)} events in project {self.project}"

    def _token(self) -> str:
        try:
            return self.token()
        except Exception as error:  # noqa: BLE001  (google.auth raises many unrelated errors)
            reason = f"Google Cloud gave no access token ({type(error).__name__})"
            raise UndeliveredError(reason, transient=True) from None


def event(message: Message, reason: Reason) -> dict[str, Any]:
    """Return the body for `events.report`. Events without a stack trace are grouped by location: test and problem."""
    kind, _, metric = reason.name.partition(":")
    sentence = cut(reason.sentence, MAX_TEXT, escape=printable)
    test = cut(message.test, MAX_NAME, escape=printable)
    link = next((fact.link for fact in message.links if fact.name == "logs"), "")
    return {
        "message": f"{sentence} ||| Logs for this run: {link}" if link and len(link) < MAX_TEXT else sentence,
        "serviceContext": {"service": f"ml-metrics:{test}"},
        "context": {
            "reportLocation": {
                "filePath": test,
                "lineNumber": 1,
                "functionName": cut(metric or kind, MAX_NAME, escape=printable),
            },
            "user": cut(message.owner, MAX_NAME, escape=printable),
        },
    }
