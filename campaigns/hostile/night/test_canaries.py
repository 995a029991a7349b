"""A canary in every secret, and services that refuse, fail, repeat what they were sent, or stay silent.

Nothing that anybody else may read has a canary in it: logs, mails, documents, rows, the output of commands, pages.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_home import Home
from campaigns.hostile.attack import NOT_RUN, VARIANTS
from campaigns.hostile.night.canaries import CANARIES, environment, forms, seen_below, seen_in
from campaigns.hostile.night.services import ANSWERS, CHANNELS, Server, connections, server, warehouse

pytestmark = [pytest.mark.e2e, pytest.mark.campaign]
needs_airflow = pytest.mark.skipif(not VARIANTS, reason=NOT_RUN)
OWN_FILES = ("airflow.cfg", "airflow.db", "airflow.db-wal", "airflow.db-shm")
"""Airflow's own files, which only its own user reads."""
KEYS_IN_REQUESTS = {"sendgrid", "webhook", "github", "teams", "google-chat", "pagerduty", "opsgenie"}
HTTP_ANSWERS = {"401", "500 that repeats the request", "400 that repeats the request", "silent"}
COMMAND_SECONDS = 200
COMMANDS = (
    ("history", "leaks"),
    ("alerts",),
    ("messages", "--send"),
    ("messages",),
    ("tests",),
    ("validate",),
    ("schema",),
)


@pytest.mark.parametrize("place", sorted(CANARIES))
def test_the_search_would_find_a_canary_in_any_form(place: str, tmp_path: Path) -> None:
    for form in forms(CANARIES[place]):
        (tmp_path / "log").write_text(f"before {form} after")
        assert list(seen_below(tmp_path)), form
        assert list(seen_in("text", f"x{form}x"))
    (tmp_path / "log").write_text("canary, and nothing else")
    assert not list(seen_below(tmp_path))


@pytest.fixture(params=sorted(ANSWERS))
def services(request: pytest.FixtureRequest) -> Iterator[Server]:
    with server(request.param) as started:
        yield started


@needs_airflow
def test_no_channel_shows_its_secret(services: Server, tmp_path: Path) -> None:
    """A failing run whose message no channel can send, and the commands that a person then tries."""
    home = Home.make(tmp_path / "airflow")
    secrets = {
        **environment(connections(services.port)),
        "AIRFLOW__ML_METRICS__CHANNELS": CHANNELS,
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "DEBUG",
    }
    try:
        home.add_test("leaks", command=["sh", "-c", "env; cat /proc/$PPID/environ; exit 3"], emails=["a@example.com"])
        outputs = {test: text for test, (_, text) in home.run_all(["leaks"], **secrets).items()}
        outputs |= commands(home, secrets)
    finally:
        home.stop()
    received = services.received.decode(errors="replace")
    keys = {place for place in KEYS_IN_REQUESTS if any(form in received for form in forms(CANARIES[place]))}
    assert keys == (KEYS_IN_REQUESTS if services.answer in HTTP_ANSWERS else keys), "every service was sent its key"
    assert "ExitCode:3" in "".join(mail.read_text() for mail in home.mails("leaks")), "the run has its mail"
    assert_nothing_seen(services.answer, home, outputs)


@needs_airflow
@pytest.mark.parametrize("services", ["refused", "garbage", "silent"], indirect=True)
def test_no_warehouse_shows_its_password(services: Server, tmp_path: Path) -> None:
    home = Home.make(tmp_path / "airflow")
    secrets = {
        **environment({"ml_metrics_warehouse": warehouse(services.port)}),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "DEBUG",
    }
    try:
        home.add_test("leaks", command=["false"], emails=["a@example.com"])
        # with a server that stays silent, every step waits as long as it may
        done = home.airflow("dags", "test", "leaks", **secrets)
        outputs = {"leaks": done.stdout + done.stderr, **commands(home, secrets)}
    finally:
        home.stop()
    assert_nothing_seen(services.answer, home, outputs)


def commands(home: Home, more: dict[str, str]) -> dict[str, str]:
    """Return the output of the commands that a person tries after a failure."""
    found = {}
    for arguments in COMMANDS:
        done = subprocess.run(
            ["ml-metrics", *arguments],
            env={**home.environment, **more},
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )
        found[" ".join(arguments)] = done.stdout + done.stderr
    return found


def assert_nothing_seen(name: str, home: Home, outputs: dict[str, str]) -> None:
    seen = [one for output, text in outputs.items() for one in seen_in(output, text)]
    seen += seen_below(home.path, apart_from=OWN_FILES)
    assert not seen, f"{name}:\n" + "\n".join(seen[:20])
