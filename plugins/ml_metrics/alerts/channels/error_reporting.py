"""Google Cloud Error Reporting: an event for each problem, grouped by test and metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ml_metrics.alerts.channels.channel import JsonService
from ml_metrics.alerts.message import Message, MessageKind, Reason
from ml_metrics.alerts.render import cut, printable
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.core.text import counted

HOST = "https://clouderrorreporting.googleapis.com"
MAX_TEXT, MAX_NAME = 8000, 500
"""The service accepts 64 KiB in all."""


@dataclass(frozen=True, slots=True)
class ErrorReporting(JsonService):
    """A project of Google Cloud. Recovered errors are resolved there by hand."""

    project: str
    token: Callable[[], str]
    """Returns an access token. It is called for each message because a token expires after an hour."""
    host: str = HOST
    name: str = "error_reporting"
    secrets: tuple[str, ...] = ()
    service: ClassVar[str] = "Error Reporting"

    def requests(self, message: Message) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
        if message.kind not in {MessageKind.BROKEN, MessageKind.WORSE, MessageKind.OVERDUE, MessageKind.WARNING}:
            return f"nothing to report: {message.kind}", []
        # further problems are counted in one event more: each event is a request
        reasons = message.reasons[:20]
        if more := len(message.reasons) - len(reasons):
            hidden = f"not listed here: {counted(more, 'more problem')} of test {message.test}"
            reasons = (*reasons, Reason("more", hidden))
        address = f"{self.host}/v1beta1/projects/{self.project}/events:report"
        where = f"{len(reasons)} events in project {self.project}"
        return where, [(address, event(message, reason)) for reason in reasons]

    def credentials(self) -> tuple[dict[str, str], tuple[str, ...]]:
        try:
            token = self.token()
        except Exception as error:  # noqa: BLE001  (google.auth raises many unrelated errors)
            reason = f"Google Cloud gave no access token ({type(error).__name__})"
            raise UndeliveredError(reason, transient=True) from None
        return {"Authorization": f"Bearer {token}"}, (token,)


def event(message: Message, reason: Reason) -> dict[str, Any]:
    """The body for `events.report`. Events without a stack trace are grouped by location: test and problem."""
    kind, _, metric = reason.name.partition(":")
    sentence = cut(reason.sentence, MAX_TEXT, escape=printable)
    test, owner, place = (cut(one, MAX_NAME, escape=printable) for one in (message.test, message.owner, metric or kind))
    link = next((fact.link for fact in message.links if fact.name == "logs"), "")
    return {
        "message": f"{sentence} ||| Logs for this run: {link}" if link and len(link) < MAX_TEXT else sentence,
        "serviceContext": {"service": f"ml-metrics:{test}"},
        "context": {"reportLocation": {"filePath": test, "lineNumber": 1, "functionName": place}, "user": owner},
    }
