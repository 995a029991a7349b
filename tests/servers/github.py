"""The part of GitHub's REST API about issues, with its documented requests and responses."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from servers.channels import Answer, Request, Service

ISSUES = "/repos/owner/repo/issues"
MAX_BODY = 65_536
TOO_LONG = Answer(
    422,
    {
        "message": "Validation Failed",
        "errors": [{"resource": "Issue", "code": "custom", "field": "body", "message": "body is too long"}],
    },
)


class GitHub:
    """The issues of one repository, behind a service on loopback."""

    def __init__(self, service: Service) -> None:
        self.issues: list[dict[str, Any]] = []
        self.states: list[tuple[str, int]] = []
        self.links = True
        """Whether lists have the header `Link`, as GitHub's have."""
        service.answer = self.answer

    def add(self, body: dict[str, Any]) -> dict[str, Any]:
        number = len(self.issues) + 1
        self.issues.append({**body, "number": number, "state": "open", "comments": []})
        return self.issues[-1]

    def answer(self, request: Request) -> Answer:
        place = urlsplit(request.path)
        if request.method == "POST" and len(request.body["body"]) > MAX_BODY:
            return TOO_LONG
        if place.path == ISSUES:
            return self.answer_about_issues(request)
        found = re.fullmatch(rf"{ISSUES}/(\d+)(/comments)?", place.path)
        if found is None:
            return Answer(404, {"message": "Not Found"})
        issue = self.issues[int(found[1]) - 1]
        if found[2]:
            return self.answer_about_comments(request, issue["comments"])
        issue["state"] = request.body["state"]
        self.states.append((issue["state"], issue["number"]))
        return Answer(200, shown(issue))

    def answer_about_issues(self, request: Request) -> Answer:
        if request.method == "POST":
            return Answer(201, shown(self.add(request.body)))
        (label,) = parse_qs(urlsplit(request.path).query)["labels"]
        return self.page([shown(one) for one in reversed(self.issues) if label in one["labels"]], request)

    def answer_about_comments(self, request: Request, comments: list[str]) -> Answer:
        if request.method == "POST":
            comments.append(request.body["body"])
            return Answer(201, {"id": len(comments), "body": request.body["body"]})
        return self.page([{"body": body} for body in comments], request)

    def page(self, found: list[dict[str, Any]], request: Request) -> Answer:
        query = {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}
        size, number = min(int(query["per_page"]), 100), int(query["page"])
        here = found[(number - 1) * size : number * size]
        if not self.links or number * size >= len(found):
            return Answer(200, here)
        return Answer(200, here, {"Link": f'<https://elsewhere.invalid/?page={number + 1}>; rel="next"'})


def shown(issue: dict[str, Any]) -> dict[str, Any]:
    address = f"https://github.com/owner/repo/issues/{issue['number']}"
    return {**issue, "comments": len(issue["comments"]), "html_url": address}
