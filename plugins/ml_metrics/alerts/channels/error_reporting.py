"""Google Cloud Error Reporting: an event for each reason, grouped by test and metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.channels.channel import UndeliveredError
from ml_metrics.alerts.channels.http import ask
from ml_metrics.alerts.message import Occasion

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.alerts.message import Message, Reason

HOST = "https://clouderrorreporting.googleapis.com"


@dataclass(frozen=True, slots=True)
class ErrorReporting:
    """A project of Google Cloud."""

    project: str
    token: Callable[[], str]
    """Makes an access token; it is asked for each message, for tokens live an hour."""
    host: str = HOST
    name: str = "error_reporting"
    secrets: tuple[str, ...] = ()

    def send(self, message: Message, timeout: float) -> str:
        """Report every reason. What is well again is resolved there by a person."""
        if message.occasion is Occasion.RECOVERED:
            return "nothing to report: the test is well again"
        token = self._token()
        for reason in message.reasons:
            ask(
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
        except Exception as error:  # noqa: BLE001  (the library of Google's logins has many families of errors)
            why = f"Google Cloud gave no access token ({type(error).__name__})"
            raise UndeliveredError(why, passing=True) from None


def event(message: Message, reason: Reason) -> dict[str, Any]:
    """What `events.report` takes. Events without a stack trace are grouped by their place: the test and the reason."""
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
