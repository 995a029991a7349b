"""GitHub issues: one for each test, with a comment for each change, closed on recovery and reopened on failure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import quote, urlencode

from ml_metrics.alerts.message import Message, MessageKind
from ml_metrics.alerts.render import cut, cut_lines, fitting, one_line, printable
from ml_metrics.core.deadline import Deadline, within
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.core.http import Answer, Client, TooLongError
from ml_metrics.store.markers import file_name

SERVICE = "GitHub"
PAGE_SIZES = (64, 32, 16, 8)
"""If a page is too long to be read, a smaller one is requested from the same place on. Each divides the one before."""


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
        """The newest, open or closed. GitHub's search is not used: it finds an issue only a while after its opening."""
        # by creation: a page that moves in the meantime repeats an issue, but leaves none out
        query = {"labels": label, "state": "all", "sort": "created", "direction": "desc"}
        for entry in self._all("issues", query):
            if entry.get("title") == title and "pull_request" not in entry:
                return _issue(entry)
        return None

    def comments(self, issue: Issue) -> Iterator[str]:
        size = PAGE_SIZES[0]
        # comments before the last four pages are not read: a message is not sent again after five days
        first = max(0, issue.comments // size - 4 + 1) * size
        for entry in self._all(f"issues/{issue.number}/comments", {}, first):
            yield str(entry.get("body") or "")

    def open(self, title: str, body: str, label: str) -> Issue:
        answer = self._request("POST", "issues", {"title": title, "body": body, "labels": [label]})
        return _issue(answer.content)

    def comment(self, issue: Issue, body: str) -> None:
        self._request("POST", f"issues/{issue.number}/comments", {"body": body}, read=False)

    def set_state(self, issue: Issue, state: str) -> None:
        if issue.state != state:
            self._request("PATCH", f"issues/{issue.number}", {"state": state}, read=False)

    def _all(self, path: str, query: dict[str, str], first: int = 0) -> Iterator[dict[str, Any]]:
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


MAX_TEXT = 60_000
"""GitHub rejects a body with more than 65,536 characters; the rest is for links, marker and fence."""
MAX_LINKS_LENGTH, MAX_LINKS = 3000, 10
MARKDOWN = re.compile(r"[\\\[\]<>`!@#*_~|]")
"""What would end a link's text, or start a mention or another link."""
MARKER = re.compile(r"<!-- ml-metrics: \S+ -->")


def title_of(message: Message) -> str:
    """The title of the test's issue. The issue is found by it, so it does not contain the state of the test."""
    # GitHub rejects a longer title
    return cut(f"ML Metrics: {one_line(message.test) or 'a damaged message'}", 256)


def marker_of(message: Message) -> str:
    return f"<!-- ml-metrics: {file_name(message.key)} -->"


def markers(body: str) -> list[str]:
    """The marker of the message in a body: the last line, as the text above may contain others."""
    last = body.rstrip().rpartition("\n")[2].strip()
    return [last] if MARKER.fullmatch(last) else []


def body_of(message: Message) -> str:
    """The plain text in a code fence that the text cannot end, so that GitHub does not render it."""
    text = printable(cut_lines(message.text.strip(), MAX_TEXT))
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    if longest > MAX_LINKS_LENGTH // 10:  # a fence must not be longer than what it holds
        text, longest = text.replace("`", "'"), 0
    fence = "`" * max(3, longest + 1)
    facts = fitting(message.links, limit=MAX_LINKS_LENGTH, most=MAX_LINKS)
    links = " · ".join(f"[{MARKDOWN.sub(' ', one_line(fact.name))}](<{fact.link}>)" for fact in facts)
    return f"{fence}text\n{text}\n{fence}\n\n{links}\n\n{marker_of(message)}\n"


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
        return (self.token,)

    def send(self, message: Message, timeout: float) -> str:
        """Update the test's issue. The same message twice is one comment."""
        if message.kind in WITHOUT_ISSUE or (not message.test and message.kind is not MessageKind.BROKEN):
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
