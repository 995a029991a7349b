"""GitHub issues: one for each test, with a comment for each change, closed on recovery and reopened on failure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from ml_metrics.alerts.channels.http import send_json
from ml_metrics.alerts.compose import one_line
from ml_metrics.alerts.mail import file_name
from ml_metrics.alerts.message import MessageKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.alerts.message import Message

HOST = "https://api.github.com"
LABEL = "ml-metrics"
PAGE_SIZE = 100


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
        thread = _IssueThread(self, message, timeout)
        issue = thread.find()
        if issue is None:
            if message.kind is MessageKind.RECOVERED:
                return "the test has no issue to close"
            return str(thread.open()["html_url"])
        if not thread.contains_message(issue):
            thread.comment(issue)
        thread.set_state(issue, "closed" if message.kind is MessageKind.RECOVERED else "open")
        return str(issue["html_url"])


@dataclass(frozen=True, slots=True)
class _IssueThread:
    """The requests that deliver one message."""

    channel: GitHubIssues
    message: Message
    timeout: float

    @property
    def title(self) -> str:
        """The title of the test's issue. The issue is found by it, so it does not contain the state of the test."""
        return f"ML Metrics: {one_line(self.message.test)}"

    @property
    def marker(self) -> str:
        """An HTML comment that identifies the message."""
        return f"<!-- ml-metrics {re.sub(r'-+', '-', file_name(self.message.key))} -->"

    def find(self) -> dict[str, Any] | None:
        """Return the newest issue of this test, open or closed."""
        query = {"labels": LABEL, "state": "all", "sort": "created", "direction": "desc"}
        for issue in self._all("issues", query):
            if issue.get("title") == self.title and "pull_request" not in issue:
                return issue
        return None

    def contains_message(self, issue: dict[str, Any]) -> bool:
        """Whether the issue or one of its comments is this message."""
        if self.marker in (issue.get("body") or ""):
            return True
        comments = self._all(f"issues/{issue['number']}/comments", {})
        return any(self.marker in (comment.get("body") or "") for comment in comments)

    def open(self) -> dict[str, Any]:
        """Open an issue and return it."""
        body = {"title": self.title, "body": self._body(), "labels": [LABEL]}
        issue: dict[str, Any] = self._request("POST", "issues", body)
        return issue

    def comment(self, issue: dict[str, Any]) -> None:
        """Add the message as a comment."""
        self._request("POST", f"issues/{issue['number']}/comments", {"body": self._body()})

    def set_state(self, issue: dict[str, Any], state: str) -> None:
        """Close or reopen the issue."""
        if issue.get("state") != state:
            self._request("PATCH", f"issues/{issue['number']}", {"state": state})

    def _body(self) -> str:
        """Return the plain text in a code fence that the text cannot end, so that GitHub does not render it."""
        longest = max((len(run) for run in re.findall("`+", self.message.text)), default=0)
        fence = "`" * max(3, longest + 1)
        links = " · ".join(f"[{fact.name}](<{fact.link}>)" for fact in self.message.links)
        return f"{fence}text\n{self.message.text.strip()}\n{fence}\n\n{links}\n\n{self.marker}\n"

    def _all(self, path: str, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        """Yield every entry of a list, page by page."""
        page = 1
        while True:
            found = self._request("GET", f"{path}?{urlencode({**query, 'per_page': PAGE_SIZE, 'page': page})}")
            yield from found
            if len(found) < PAGE_SIZE:
                return
            page += 1

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return send_json(
            method,
            f"{self.channel.host}/repos/{quote(self.channel.repository)}/{path}",
            service="GitHub",
            timeout=self.timeout,
            body=body,
            headers={
                "Authorization": f"Bearer {self.channel.token}",
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
