"""GitHub issues: one for each test, with a comment for each change, closed on recovery and reopened on failure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.alerts.channels.deadline import Deadline, within
from ml_metrics.alerts.channels.github_issues import SERVICE, Repository
from ml_metrics.alerts.channels.github_text import body_of, marker_of, markers, title_of
from ml_metrics.alerts.channels.http import Client
from ml_metrics.alerts.message import NOTICES, MessageKind

if TYPE_CHECKING:
    from ml_metrics.alerts.channels.github_issues import Issue
    from ml_metrics.alerts.message import Message

HOST = "https://api.github.com"
LABEL = "ml-metrics"
WITHOUT_ISSUE = {MessageKind.TRIAL, MessageKind.ANSWER, MessageKind.DIGEST, MessageKind.HEARTBEAT}


@dataclass(frozen=True, slots=True)
class GitHubIssues:
    """The issues of one repository."""

    repository: str
    """`owner/name`."""
    token: str = field(repr=False)
    host: str = HOST
    name: str = "github"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The token."""
        return (self.token,)

    def send(self, message: Message, timeout: float) -> str:
        """Update the test's issue. The same message twice is one comment."""
        if message.kind in WITHOUT_ISSUE or (message.kind in NOTICES and not message.test):
            return f"there is no issue for it: {message.kind}"
        return within(timeout, SERVICE, lambda deadline: self._update(message, deadline))

    def _update(self, message: Message, deadline: Deadline) -> str:
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        repository = Repository(Client(SERVICE, deadline, headers, self.secrets), self.host, self.repository)
        title = title_of(message)
        issue = repository.find(LABEL, title)
        if issue is None:
            if message.kind is MessageKind.RECOVERED:
                return "the test has no issue to close"
            return repository.open(title, body_of(message), LABEL).address
        _add(message, issue, repository)
        return issue.address


def _add(message: Message, issue: Issue, repository: Repository) -> None:
    """Add a comment and set the state of the issue, unless a later message has done so already."""
    marker = marker_of(message)
    written = [*markers(issue.body), *(one for body in repository.comments(issue) for one in markers(body))]
    if marker not in written:
        repository.comment(issue, body_of(message))
    elif written[-1] != marker:
        return
    repository.set_state(issue, "closed" if message.kind is MessageKind.RECOVERED else "open")
