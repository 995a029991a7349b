"""The tags of an image, from a registry at the wire: pages, tokens, and servers that hang or lie."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from ml_metrics.errors import ConfigError
from ml_metrics.experiments import registry
from servers.channels import Answer, Request, Service, http_service

TAGS = ["v1.9", "v1.10", "nightly-20260102", "nightly-20251231"]


@pytest.fixture
def service() -> Iterator[Service]:
    with http_service() as running:
        yield running


def host(service: Service) -> str:
    return service.url.removeprefix("http://")


def test_tags_come_in_pages_and_are_ordered_by_their_numbers(service: Service) -> None:
    def answer(request: Request) -> Answer:
        if "last=" in request.path:
            return Answer(200, {"name": "team/app", "tags": TAGS[2:]})
        link = {"Link": '</v2/team/app/tags/list?last=v1.10&n=1000>; rel="next"'}
        return Answer(200, {"name": "team/app", "tags": [*TAGS[:2], "no tag!", 7]}, link)

    service.answer = answer
    name, tags = registry.tags_of(f"{host(service)}/team/app:v1.9@sha256:{'0' * 64}")
    assert name == f"{host(service)}/team/app"
    assert tags == ["nightly-20251231", "nightly-20260102", "v1.9", "v1.10"]
    assert [one.path.partition("?")[0] for one in service.requests] == ["/v2/team/app/tags/list"] * 2


def test_an_anonymous_token_is_asked_for_where_the_registry_wants_one(service: Service) -> None:
    def answer(request: Request) -> Answer:
        if request.path.startswith("/token"):
            return Answer(200, {"token": "abc"})
        if request.headers.get("Authorization") == "Bearer abc":
            return Answer(200, {"tags": ["1", "2"]})
        return Answer(401, None, {"WWW-Authenticate": f'Bearer realm="{service.url}/token",service="registry"'})

    service.answer = answer
    assert registry.tags_of(f"{host(service)}/app")[1] == ["1", "2"]
    assert "scope=repository%3Aapp%3Apull" in service.requests[1].path


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(404), "does not know this image"),
        (Answer(500), "answers 500"),
        (Answer(307, None, {"Location": "http://127.0.0.1:1/elsewhere"}), "answers 307"),
        (Answer(200, ["no object"]), "is no JSON object"),
        (Answer(200, {"tags": []}), "has no tags"),
        (Answer(200, {"tags": None}), "has no tags"),
        (Answer(401, None, {"WWW-Authenticate": 'Basic realm="x"'}), "asks for a login"),
        (Answer(401, None, {"WWW-Authenticate": 'Bearer realm="http://10.0.0.1/token"'}), "asks for a login"),
        (Answer(200, {"tags": ["1"]}, {"Link": '<https://elsewhere.example/v2>; rel="next"'}), "on another host"),
    ],
)
def test_what_a_registry_answers_instead(service: Service, answer: Answer, reason: str) -> None:
    service.answers(answer)
    with pytest.raises(ConfigError, match=reason):
        registry.tags_of(f"{host(service)}/app:1")


def test_a_registry_that_hangs(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "SECONDS", 0.2)
    service.answers(Answer(200, {"tags": ["1"]}, delay=3))
    started = time.monotonic()
    with pytest.raises(ConfigError, match=r"cannot be listed"):
        registry.tags_of(f"{host(service)}/app:1")
    assert time.monotonic() - started < 3


def test_what_is_no_name_of_an_image() -> None:
    with pytest.raises(ConfigError, match="no name of an image"):
        registry.tags_of("../../etc")
