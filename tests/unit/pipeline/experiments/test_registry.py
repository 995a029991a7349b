"""The tags of an image, from a registry at the wire: pages, tokens, and servers that hang or lie."""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ml_metrics import ConfigError
from ml_metrics.pipeline.experiments import registry
from servers.channels import Answer, Request, Service, http_service

SECRET = "swordfish"
TAGS = ["v1.9", "v1.10", "nightly-20260102", "nightly-20251231"]


@pytest.fixture(autouse=True)
def logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `docker login` would write."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path / "config.json"


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


def auths(name: str, text: str = f"vera:{SECRET}", **more: object) -> str:
    return json.dumps({"auths": {name: {"auth": base64.b64encode(text.encode()).decode()}}, **more})


@pytest.mark.parametrize("kind", ["Basic", "Bearer"])
def test_a_login_goes_to_its_registry_or_the_token_server_that_it_names(
    service: Service, logins: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    login = f"Basic {base64.b64encode(f'vera:{SECRET}'.encode()).decode()}"

    def answer(request: Request) -> Answer:
        given = request.headers.get("Authorization")
        if request.path.startswith("/token"):
            return Answer(200, {"access_token": "abc"}) if given == login else Answer(401)
        if given == (login if kind == "Basic" else "Bearer abc"):
            return Answer(200, {"tags": ["1", "2"]})
        return Answer(401, None, {"WWW-Authenticate": f'{kind} realm="{service.url}/token",service="registry"'})

    service.answer = answer
    logins.write_text(auths(f"https://{host(service)}/v2/"))
    with caplog.at_level(logging.DEBUG):
        assert registry.tags_of(f"{host(service)}/app")[1] == ["1", "2"]
    assert "Authorization" not in service.requests[0].headers, "only where it is asked for"
    logins.write_text(auths(host(service), "vera:wrong"))
    with pytest.raises(ConfigError, match="the login") as refused:
        registry.tags_of(f"{host(service)}/app")
    assert SECRET not in caplog.text + str(refused.value)
    logins.write_text(auths("other.example.com"))
    with pytest.raises(ConfigError, match="login"):
        registry.tags_of(f"{host(service)}/app")
    assert "Authorization" not in service.requests[-1].headers, "a login of another registry stays here"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "is not the JSON object that `docker login` writes"),
        ("[]", "is not the JSON object"),
        ('{"auths": {"HOST": {"auth": "c3dvcmRmaXNo"}}}', "is no user and password in base64"),
        ('{"auths": {"HOST": {"auth": 7}}}', "is no user and password in base64"),
        ('{"auths": {"HOST": {}}, "credsStore": "pass"}', "is in a keychain, which is not read"),
        ('{"auths": {"HOST": {}}, "credHelpers": {"HOST": "gcloud"}}', "is in a keychain"),
    ],
)
def test_a_login_that_cannot_be_used(service: Service, logins: Path, content: str, reason: str) -> None:
    logins.write_text(content.replace("HOST", host(service)))
    with pytest.raises(ConfigError, match=reason) as raised:
        registry.tags_of(f"{host(service)}/app")
    assert SECRET not in str(raised.value)
    assert not service.requests


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
