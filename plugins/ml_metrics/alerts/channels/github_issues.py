"""The part of GitHub's REST API about issues. An answer of another shape is an `UndeliveredError`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote, urlencode

from ml_metrics.alerts.channels.channel import UndeliveredError
from ml_metrics.alerts.channels.http import TooLongError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.alerts.channels.http import Answer, Client

SERVICE = "GitHub"
PAGE_SIZES = (64, 32, 16, 8)
"""If a page is too long to be read, a smaller one is requested from the same place on. Each divides the one before."""
LAST_PAGES = 4
"""Comments before the last pages are not read: a message is not sent again after five days."""


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue."""

    number: int
    state: str
    address: str
    body: str
    comments: int


@dataclass(frozen=True, slots=True)
class Repository:
    """The issues of a repository."""

    client: Client
    host: str
    name: str
    """`owner/name`."""

    def find(self, label: str, title: str) -> Issue | None:
        """Return the newest issue with this label and title, open or closed.

        GitHub's search is not used: it finds an issue only some time after it was opened.
        """
        # by creation: a page that moves in the meantime repeats an issue, but leaves none out
        query = {"labels": label, "state": "all", "sort": "created", "direction": "desc"}
        for entry in self._all("issues", query):
            if entry.get("title") == title and "pull_request" not in entry:
                return _issue(entry)
        return None

    def comments(self, issue: Issue) -> Iterator[str]:
        """Yield the newest comments, oldest first."""
        size = PAGE_SIZES[0]
        first = max(0, issue.comments // size - LAST_PAGES + 1) * size
        for entry in self._all(f"issues/{issue.number}/comments", {}, first):
            yield str(entry.get("body") or "")

    def open(self, title: str, body: str, label: str) -> Issue:
        """Open an issue and return it."""
        answer = self._request("POST", "issues", {"title": title, "body": body, "labels": [label]})
        return _issue(answer.content)

    def comment(self, issue: Issue, body: str) -> None:
        """Add a comment."""
        self._request("POST", f"issues/{issue.number}/comments", {"body": body}, read=False)

    def set_state(self, issue: Issue, state: str) -> None:
        """Close or reopen an issue."""
        if issue.state != state:
            self._request("PATCH", f"issues/{issue.number}", {"state": state}, read=False)

    def _all(self, path: str, query: dict[str, str], first: int = 0) -> Iterator[dict[str, Any]]:
        """Yield every entry of a list from a position on."""
        position, sizes = first, list(PAGE_SIZES)
        while True:
            size = sizes[0]
            page = urlencode({**query, "per_page": size, "page": position // size + 1})
            try:
                answer = self._request("GET", f"{path}?{page}")
            except TooLongError:
                if len(sizes) == 1:
                    raise
                del sizes[0]
                continue
            if not isinstance(answer.content, list) or not all(isinstance(one, dict) for one in answer.content):
                _unexpected("a list")
            yield from answer.content
            link = answer.headers.get("link")
            if not answer.content or (len(answer.content) < size if link is None else 'rel="next"' not in link):
                return
            position += size

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None, *, read: bool = True) -> Answer:
        return self.client.send(method, f"{self.host}/repos/{quote(self.name)}/{path}", body, read=read)


def _issue(entry: Any) -> Issue:
    if not isinstance(entry, dict) or not isinstance(entry.get("number"), int):
        _unexpected("an issue")
    comments = entry.get("comments")
    return Issue(
        number=entry["number"],
        state=str(entry.get("state") or ""),
        address=str(entry.get("html_url") or f"issue {entry['number']}"),
        body=str(entry.get("body") or ""),
        comments=comments if isinstance(comments, int) else 0,
    )


def _unexpected(wanted: str) -> NoReturn:
    raise UndeliveredError(f"{SERVICE} answered, but not with {wanted}", transient=True)
