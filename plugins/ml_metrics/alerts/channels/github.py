"""GitHub issues: one for each test, commented when something changes, closed when it is well, opened again when not."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from ml_metrics.alerts.channels.http import ask
from ml_metrics.alerts.compose import one_line
from ml_metrics.alerts.mail import file_name
from ml_metrics.alerts.message import Occasion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.alerts.message import Message

HOST = "https://api.github.com"
LABEL = "ml-metrics"
PAGE = 100


@dataclass(frozen=True, slots=True)
class GitHubIssues:
    """The issues of one repository, by a token that may write them."""

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
        """Bring the test's issue to what the message says. The same message twice is one comment."""
        conversation = _Conversation(self, message, timeout)
        issue = conversation.find()
        if issue is None:
            if message.occasion is Occasion.RECOVERED:
                return "the test has no issue to close"
            return str(conversation.open()["html_url"])
        if not conversation.has_told(issue):
            conversation.comment(issue)
        conversation.set_state(issue, "closed" if message.occasion is Occasion.RECOVERED else "open")
        return str(issue["html_url"])


@dataclass(frozen=True, slots=True)
class _Conversation:
    """The requests about one message."""

    place: GitHubIssues
    message: Message
    timeout: float

    @property
    def title(self) -> str:
        """By which the issue of a test is found again, so it does not say how the test is."""
        return f"ML Metrics: {one_line(self.message.test)}"

    @property
    def mark(self) -> str:
        """By which a message is found again. Only letters that a comment in HTML may hold."""
        return f"<!-- ml-metrics {re.sub(r'-+', '-', file_name(self.message.key))} -->"

    def find(self) -> dict[str, Any] | None:
        """The newest issue about this test, open or closed."""
        query = {"labels": LABEL, "state": "all", "sort": "created", "direction": "desc"}
        for issue in self._all("issues", query):
            if issue.get("title") == self.title and "pull_request" not in issue:
                return issue
        return None

    def has_told(self, issue: dict[str, Any]) -> bool:
        """Whether this message is there already."""
        if self.mark in (issue.get("body") or ""):
            return True
        comments = self._all(f"issues/{issue['number']}/comments", {})
        return any(self.mark in (comment.get("body") or "") for comment in comments)

    def open(self) -> dict[str, Any]:
        """A new issue."""
        body = {"title": self.title, "body": self._words(), "labels": [LABEL]}
        made: dict[str, Any] = self._ask("POST", "issues", body)
        return made

    def comment(self, issue: dict[str, Any]) -> None:
        """Say it in the issue."""
        self._ask("POST", f"issues/{issue['number']}/comments", {"body": self._words()})

    def set_state(self, issue: dict[str, Any], state: str) -> None:
        """Close it, or open it again."""
        if issue.get("state") != state:
            self._ask("PATCH", f"issues/{issue['number']}", {"state": state})

    def _words(self) -> str:
        """The message's plain text in a fence that it cannot end: what stands there is shown, never understood."""
        longest = max((len(run) for run in re.findall("`+", self.message.text)), default=0)
        fence = "`" * max(3, longest + 1)
        links = " · ".join(f"[{fact.name}](<{fact.link}>)" for fact in self.message.links)
        return f"{fence}text\n{self.message.text.strip()}\n{fence}\n\n{links}\n\n{self.mark}\n"

    def _all(self, what: str, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        """Every entry of a list, page by page."""
        page = 1
        while True:
            found = self._ask("GET", f"{what}?{urlencode({**query, 'per_page': PAGE, 'page': page})}")
            yield from found
            if len(found) < PAGE:
                return
            page += 1

    def _ask(self, method: str, what: str, body: dict[str, Any] | None = None) -> Any:
        return ask(
            method,
            f"{self.place.host}/repos/{quote(self.place.repository)}/{what}",
            service="GitHub",
            timeout=self.timeout,
            body=body,
            headers={
                "Authorization": f"Bearer {self.place.token}",
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
