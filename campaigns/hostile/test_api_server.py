"""A whole Airflow with hostile tests beside an innocent one: its API server and its pages answer everybody."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import psutil
import pytest

from airflow_home import Home
from campaigns.hostile.attack import Attack
from campaigns.hostile.deeds import HONEST, command
from campaigns.hostile.secrets_of_others import WORD, leaks
from standalone_airflow import Standalone, standalone, wait_until

Begin = Callable[[str], Attack]
pytestmark = [pytest.mark.e2e]
TAGS = 100_000
PATTERN = "^(a+)+$"
MAX_PAGE_BYTES = 8 << 20
GIB = 1 << 30


@pytest.fixture(scope="module")
def airflow(home: Home) -> Iterator[Standalone]:
    variables = pytest.MonkeyPatch()
    variables.setenv("AIRFLOW_CONN_SMTP_DEFAULT", f"smtp://user:{WORD}@127.0.0.1:9/")
    variables.setenv("AIRFLOW_VAR_API_KEY", WORD)
    home.add_test("innocent", command=command(*HONEST))
    home.add_test("tags", command=command({"do": "tags", "at": "t.jsonl", "prefix": "tag", "count": TAGS}))
    home.add_test("files", command=command(*HONEST, {"do": "files", "at": "sub/x", "count": 200_000}))
    home.add_test("pattern", command=["true"], params={"p": {"default": "a", "pattern": PATTERN}})
    home.add_test("by-hand", command=["sleep", "0"], params={"p": "1"})
    home.add_test("long-tag", command=["true"], tags=["x" * 120])
    try:
        with standalone(home) as running:
            yield running
    finally:
        variables.undo()


def page(airflow: Standalone, path: str) -> httpx.Response:
    """Return a page of the dashboard as a user's browser gets it."""
    return httpx.get(
        f"{airflow.url}/ml-metrics{path}", cookies={"_token": airflow.token}, timeout=60, follow_redirects=True
    )


def test_pages_after_a_hundred_thousand_tags(airflow: Standalone, home: Home, attack: Begin) -> None:
    ends = {}
    for test in ("innocent", "tags", "files"):
        airflow.unpause(test)
        ends[test] = airflow.trigger(test, run="attack")
    with attack("S9 pages of a run with 100,000 tags or 200,000 files") as tried:
        for test, run in ends.items():
            airflow.wait_until_ended(test, run)
        with home.warehouse() as warehouse:
            (job,) = warehouse.runs.newest("tags")
            rows = len(warehouse.metrics.of_run(job.uuid))
            tried.variant("rows of the run", held=rows <= 6000, reached=rows)
            innocents = {row.metric for row in warehouse.metrics.of_run(warehouse.runs.newest("innocent")[0].uuid)}
            tried.variant("the innocent run", held="loss_final" in innocents, reached=innocents)
        for path in ("/", "/?by=runs", "/test?test=tags", "/test?test=innocent", f"/run?run={job.uuid}",
                     "/compare?tests=*&metrics=*"):  # fmt: skip
            try:
                answer = page(airflow, path)
                held = (
                    answer.status_code == 200
                    and len(answer.content) < MAX_PAGE_BYTES
                    and "login" not in str(answer.url)
                )
                tried.variant(path, held=held, reached=(answer.status_code, len(answer.content), str(answer.url)))
            except httpx.HTTPError as error:
                tried.variant(path, held=False, reached=repr(error))
        memory = max(_memory(process) for process in psutil.Process(airflow.process.pid).children(recursive=True))
        tried.variant("memory of the API server", held=memory < GIB, reached=f"{memory >> 20} MiB")


def _memory(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss) if "api" in " ".join(process.cmdline()) else 0
    except psutil.Error:
        return 0


def test_a_run_with_a_pattern_of_exponential_time(airflow: Standalone, attack: Begin) -> None:
    """While a run is asked for whose parameter would take years to match, everybody else is answered."""
    airflow.wait_until_parsed("pattern")
    with attack("S5 a POST of a run whose parameter takes years to match") as tried:
        for value in ("a" * 40 + "b", "a" * 4000 + "!", ["a" * 40 + "b"], "a" * 40 + "\n\n"):
            body = {"conf": {"p": value}, "logical_date": None}
            sent = threading.Thread(target=_post, args=(airflow, body), daemon=True)
            sent.start()
            time.sleep(0.5)
            try:
                answer = httpx.get(f"{airflow.url}/api/v2/version", timeout=15)
                tried.variant(f"{value!r:.60}", held=answer.status_code == 200, reached=answer.status_code)
            except httpx.HTTPError as error:
                tried.variant(f"{value!r:.60}", held=False, reached=repr(error))
            sent.join(60)


def _post(airflow: Standalone, body: dict[str, object]) -> None:
    headers = {"Authorization": f"Bearer {airflow.token}"}
    with httpx.Client(headers=headers, timeout=60) as client:
        client.post(f"{airflow.url}/api/v2/dags/pattern/dagRuns", content=json.dumps(body))


def test_image_and_command_by_hand(airflow: Standalone, home: Home, attack: Begin) -> None:
    airflow.unpause("by-hand")
    marker = home.path / "marker-of-a-command"
    with attack("S7 image and command in the conf of a run, through the API") as tried:
        confs: tuple[dict[str, object], ...] = (
            {"command": ["touch", str(marker)]}, {"image": "another/image:1"},
            {"command": ["touch", str(marker)], "trial": "yes"}, {"p": "{{ conn.smtp_default.password }}"},
        )  # fmt: skip
        for number, conf in enumerate(confs):
            body = {"conf": conf, "logical_date": None, "dag_run_id": f"r{number}"}
            answer = airflow.client.post("/api/v2/dags/by-hand/dagRuns", json=body)
            state = airflow.wait_until_ended("by-hand", f"r{number}") if answer.status_code < 400 else "refused"
            held = not marker.exists() and (state != "success" or "p" in conf)
            tried.variant(f"{conf}", held=held, reached=state)


def test_every_test_has_its_dag_and_no_secret_is_anywhere(airflow: Standalone, home: Home, attack: Begin) -> None:
    with attack("canaries in an Airflow with hostile tests") as tried:
        for test in ("innocent", "tags", "files", "pattern", "by-hand", "long-tag"):
            wait_until(
                lambda test=test: airflow.client.get(f"/api/v2/dags/{test}").status_code == 200, f"{test} is there"
            )
            tried.variant(test, held=True)
        tried.none("files", leaks(home.path))
