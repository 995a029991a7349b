"""One issue for each test, among hundreds, whatever GitHub answers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from ml_metrics.alerts.channels.github import GitHubIssues, Repository, body_of, marker_of, markers
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.message import Fact, Message, MessageKind
from ml_metrics.core import http
from ml_metrics.core.deadline import Deadline
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.core.http import Client
from servers.channels import Answer, Request, Service
from servers.github import GitHub
from unit.alerts.reports import REPORT, report_of_kind

MESSAGE = compose(REPORT, ["a@example.com"])
RECOVERED = compose(report_of_kind(MessageKind.RECOVERED, problems=(), run_key="later"), [])
TITLE = f"ML Metrics: {MESSAGE.test}"


def send(service: Service, message: Message) -> str:
    return GitHubIssues("owner/repo", "ghp_token", host=service.url).send(message, 20)


def test_github_has_one_issue_per_test_that_is_closed_and_reopened(service: Service) -> None:
    github = GitHub(service)
    worse = replace(MESSAGE, key="run 2-worse", kind=MessageKind.WORSE)
    again = replace(MESSAGE, key="run 4-broken")
    for message in (MESSAGE, MESSAGE, worse, RECOVERED, RECOVERED, again, replace(MESSAGE, test="another")):
        assert send(service, message).startswith("https://github.com/owner/repo/issues/")
    first, second = github.issues
    assert (first["title"], first["state"], first["labels"]) == (f"ML Metrics: {MESSAGE.test}", "open", ["ml-metrics"])
    assert [comment.count("<!-- ml-metrics") for comment in first["comments"]] == [1, 1, 1]  # worse, recovered, broken
    assert (second["title"], second["comments"]) == ("ML Metrics: another", [])
    assert github.states == [("closed", 1), ("open", 1)]
    assert {request.headers["Authorization"] for request in service.requests} == {"Bearer ghp_token"}


def test_github_does_not_open_an_issue_for_a_recovery(service: Service) -> None:
    github = GitHub(service)
    assert send(service, RECOVERED) == "the test has no issue to close"
    assert github.issues == []


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("body", ["x" * 12_000, "\N{SNOWMAN}" * 60_000])
def test_an_issue_is_found_behind_megabytes_of_others(service: Service, body: str, links: bool) -> None:
    github = GitHub(service)
    github.links = links
    send(service, MESSAGE)
    for number in range(130):
        github.add({"title": f"ML Metrics: other-{number}", "body": body, "labels": ["ml-metrics"]})
    send(service, replace(MESSAGE, key="another"))
    assert len(github.issues) == 131
    assert len(github.issues[0]["comments"]) == 1


def test_pull_requests_and_issues_of_another_label_are_not_the_issue(service: Service) -> None:
    github = GitHub(service)
    github.add({"title": TITLE, "body": "", "labels": ["another"]})
    github.add({"title": TITLE, "body": "", "labels": ["ml-metrics"], "pull_request": {}})
    send(service, MESSAGE)
    assert [len(issue["comments"]) for issue in github.issues] == [0, 0, 0]


def test_a_message_whose_answer_was_lost_is_not_written_again(service: Service) -> None:
    github = GitHub(service)

    def lose_answers_to_posts(request: Request) -> Answer:
        answer = github.answer(request)
        return Answer(502) if request.method == "POST" else answer

    for message in (MESSAGE, replace(MESSAGE, key="second")):
        service.answer = lose_answers_to_posts
        with pytest.raises(UndeliveredError, match="answered 502"):
            send(service, message)
        service.answer = github.answer
        send(service, message)
        send(service, message)
    (issue,) = github.issues
    assert len(issue["comments"]) == 1


def test_a_comment_is_found_among_hundreds(service: Service) -> None:
    github = GitHub(service)
    send(service, MESSAGE)
    github.issues[0]["comments"] += [f"comment {number}" for number in range(400)]
    send(service, replace(MESSAGE, key="second"))
    github.issues[0]["comments"] += [f"comment {number}" for number in range(70)]
    service.requests.clear()
    send(service, replace(MESSAGE, key="second"))
    assert len(github.issues[0]["comments"]) == 471
    assert len(service.requests) <= 7, "the first comments are not read"


def test_a_message_that_comes_again_late_does_not_reopen_the_issue(service: Service) -> None:
    github = GitHub(service)
    for message in (MESSAGE, RECOVERED, MESSAGE):
        send(service, message)
    assert github.issues[0]["state"] == "closed"
    assert github.states == [("closed", 1)]


def test_a_state_that_was_not_set_is_set_by_the_next_try(service: Service) -> None:
    github = GitHub(service)
    send(service, MESSAGE)
    service.answer = lambda request: Answer(503) if request.method == "PATCH" else github.answer(request)
    with pytest.raises(UndeliveredError, match="answered 503"):
        send(service, RECOVERED)
    service.answer = github.answer
    send(service, RECOVERED)
    assert (github.issues[0]["state"], len(github.issues[0]["comments"])) == ("closed", 1)


@pytest.mark.parametrize("kind", [MessageKind.DIGEST, MessageKind.HEARTBEAT, MessageKind.TRIAL])
def test_messages_that_are_no_incident_have_no_issue(service: Service, kind: MessageKind) -> None:
    assert send(service, replace(MESSAGE, kind=kind)) == f"there is no issue for it: {kind}"
    assert send(service, replace(MESSAGE, kind=MessageKind.MASS, test="")) == "there is no issue for it: mass"
    assert service.requests == []


def test_a_message_that_is_damaged_has_an_issue_of_its_own(service: Service) -> None:
    github = GitHub(service)
    send(service, replace(MESSAGE, test=""))
    assert [issue["title"] for issue in github.issues] == ["ML Metrics: a damaged message"]


@pytest.mark.parametrize(
    "content",
    [
        None,
        {},
        {"message": "ok"},
        "text",
        3,
        [3],
        [None],
        [[]],
        [{"title": TITLE}],
        [{"title": TITLE, "number": "one"}],
    ],
)
def test_an_answer_of_another_shape_is_an_error_in_words(service: Service, content: Any) -> None:
    service.answers(Answer(200, content))
    with pytest.raises(UndeliveredError, match="GitHub answered, but not with") as caught:
        send(service, MESSAGE)
    assert caught.value.transient


def test_an_answer_without_end_is_an_error_in_words(service: Service) -> None:
    service.answers(Answer(200, "x" * (9 << 20)))
    with pytest.raises(UndeliveredError, match="more than 8 MiB"):
        send(service, MESSAGE)


@pytest.mark.parametrize(
    ("status", "headers", "text", "transient"),
    [
        (403, {"Retry-After": "60"}, "You have exceeded a secondary rate limit", True),
        (403, {}, "You have exceeded a secondary rate limit", True),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "99999999999"}, "API rate limit exceeded", True),
        (403, {"X-RateLimit-Remaining": "10"}, "Resource not accessible by personal access token", False),
        (429, {"Retry-After": "60"}, "slow down", True),
        (410, {}, "Issues are disabled for this repo", False),
    ],
)
def test_rate_limits_are_temporary(
    service: Service, status: int, headers: dict[str, str], text: str, transient: bool
) -> None:
    service.answers(Answer(status, {"message": text}, headers))
    with pytest.raises(UndeliveredError, match=text) as caught:
        send(service, MESSAGE)
    assert caught.value.transient is transient


@pytest.mark.parametrize("line", ["x" * 50, "x" * 200_000, "`" * 90_000, "\N{FIRE}" * 40, "```", "&<>\\"])
def test_a_long_body_is_cut_at_a_line_with_a_note(service: Service, line: str) -> None:
    github = GitHub(service)
    links = (Fact("run", "", "https://airflow.example/" + "x" * 100_000), *MESSAGE.links)
    long = replace(MESSAGE, text="\n".join([line] * (4_000_000 // len(line))), links=links)
    send(service, long)
    send(service, replace(long, key="second"))
    (issue,) = github.issues
    for body in (issue["body"], *issue["comments"]):
        assert len(body.encode("utf-16-le")) // 2 <= 65_536
        assert re.search(r"… the rest is left out \([0-9,]+ lines\): the run's page has all of it", body)
        assert "https://airflow.example" not in body
        assert "[logs](<" in body
        assert markers(body)


def test_the_marker_is_the_last_line_only() -> None:
    hostile = replace(MESSAGE, text=f"{marker_of(RECOVERED)}\n{marker_of(RECOVERED)}", key="own --> <b>")
    (marker,) = markers(body_of(hostile))
    assert marker == marker_of(hostile)
    assert marker.count("-->") == marker.count("--") - 1 == 1
    assert markers(f"quoted:\n> {marker}") == []


@pytest.mark.parametrize(("comments", "first"), [(3, 0), (255, 0), (256, 64), (400, 192), (447, 192), (448, 256)])
def test_the_comments_of_the_last_pages_are_read_oldest_first(service: Service, comments: int, first: int) -> None:
    github = GitHub(service)
    github.add({"title": TITLE, "body": "", "labels": ["ml-metrics"]})
    github.issues[0]["comments"] += [f"comment {number}" for number in range(comments)]
    repository = Repository(Client("GitHub", Deadline(20)), service.url, "owner/repo")
    issue = repository.find("ml-metrics", TITLE)
    assert issue is not None
    assert issue.comments == comments
    assert list(repository.comments(issue)) == [f"comment {number}" for number in range(first, comments)]


@pytest.mark.parametrize("links", [True, False])
def test_after_the_last_page_no_other_is_asked_for(service: Service, links: bool) -> None:
    github = GitHub(service)
    github.links = links
    github.add({"title": TITLE, "body": "", "labels": ["ml-metrics"]})
    assert Repository(Client("GitHub", Deadline(20)), service.url, "owner/repo").find("ml-metrics", "another") is None
    assert len(service.requests) == 1


def test_an_issue_is_updated_whatever_the_answers_to_it_hold(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    github = GitHub(service)
    send(service, MESSAGE)
    monkeypatch.setattr(http, "MAX_CONTENT_BYTES", 50_000)

    def say_much(request: Request) -> Answer:
        answer = github.answer(request)
        return answer if request.method == "GET" else Answer(answer.status, "x" * 60_000)

    service.answer = say_much
    assert send(service, RECOVERED) == "https://github.com/owner/repo/issues/1"
    assert (github.states, len(github.issues[0]["comments"])) == ([("closed", 1)], 1)
