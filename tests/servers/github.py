"""The part of GitHub's REST API about issues, with its documented requests and responses."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from servers.channels import Answer, Request, Service

ISSUES = "/repos/owner/repo/issues"


class GitHub:
    """The issues of one repository, behind a service on loopback."""

    def __init__(self, service: Service) -> None:
        self.issues: list[dict[str, Any]] = []
        self.states: list[tuple[str, int]] = []
        service.answer = self.answer

    def add(self, body: dict[str, Any]) -> dict[str, Any]:
        number = len(self.issues) + 1
        self.issues.append({**body, "number": number, "state": "open", "comments": []})
        return self.issues[-1]

    def answer(self, request: Request) -> Answer:
        place = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(place.query).items()}
        if place.path == ISSUES:
            if request.method == "POST":
                return Answer(201, shown(self.add(request.body)))
            labelled = [one for one in reversed(self.issues) if query["labels"] in one["labels"]]
            return Answer(200, [shown(one) for one in page(labelled, query)])
        found = re.fullmatch(rf"{ISSUES}/(\d+)(/comments)?", place.path)
        if found is None:
            return Answer(404, {"message": "Not Found"})
        issue = self.issues[int(found[1]) - 1]
        if found[2] and request.method == "POST":
            issue["comments"].append(request.body["body"])
            return Answer(201, {"id": len(issue["comments"]), "body": request.body["body"]})
        if found[2]:
            return Answer(200, page([{"body": body} for body in issue["comments"]], query))
        issue["state"] = request.body["state"]
        self.states.append((issue["state"], issue["number"]))
        return Answer(200, shown(issue))


def shown(issue: dict[str, Any]) -> dict[str, Any]:
    address = f"https://github.com/owner/repo/issues/{issue['number']}"
    return {**issue, "comments": len(issue["comments"]), "html_url": address}


def page(found: list[dict[str, Any]], query: dict[str, str]) -> list[dict[str, Any]]:
    size, number = int(query["per_page"]), int(query["page"])
    return found[(number - 1) * size : number * size]
