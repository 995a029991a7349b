"""The script with which a build starts a comparison in Airflow, and the workflows that call it."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ml_metrics.airflow.product_dags import product_dag
from ml_metrics.pipeline.experiments import COMPARE
from servers.channels import Answer, Request, Service, http_service

FOLDER = Path(__file__).parents[4] / "deploy" / "ci"
RUNS = f"/api/v2/dags/{COMPARE}/dagRuns"
FIELDS = ["test=t", "base=app:1", "candidate=2", 'metrics=["loss"]']


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with http_service() as running:
        monkeypatch.setenv("AIRFLOW_URL", f"{running.url}/")
        monkeypatch.setenv("AIRFLOW_TOKEN", "secret")
        yield running


def run_script(monkeypatch: pytest.MonkeyPatch, *argv: str) -> Any:
    script = runpy.run_path(str(FOLDER / "experiment.py"))
    monkeypatch.setitem(script["main"].__globals__, "POLL_SECONDS", 0.01)
    return script["main"](argv[0], argv[1:])


@pytest.mark.parametrize(("state", "code"), [("success", 0), ("failed", 1)])
def test_the_comment_is_printed_and_the_state_is_the_exit_code(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state: str, code: int
) -> None:
    states = iter(["queued", "running", "", state])

    def answer(request: Request) -> Answer:
        if request.method == "POST":
            return Answer(200, {"dag_run_id": "manual__1+00:00"})
        if request.path.endswith("/xcomEntries/comment"):
            return Answer(200, {"value": "**1 worse**"})
        now = next(states)
        return Answer(200, {"state": now}) if now else Answer(503)

    service.answer = answer
    assert run_script(monkeypatch, COMPARE, *FIELDS) == code
    assert capsys.readouterr().out == "**1 worse**\n"
    first, last = service.requests[0], service.requests[-1]
    assert (first.path, first.headers["Authorization"]) == (RUNS, "Bearer secret")
    assert first.body["conf"] == {"test": "t", "base": "app:1", "candidate": "2", "metrics": ["loss"]}
    assert last.path == f"{RUNS}/manual__1%2B00%3A00/taskInstances/give_answer/xcomEntries/comment"


def test_a_run_without_an_answer(service: Service, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    service.answers(Answer(200, {"dag_run_id": "r"}), Answer(200, {"state": "failed"}), Answer(404))
    assert run_script(monkeypatch, COMPARE, *FIELDS) == 1
    assert "ended as failed without an answer" in capsys.readouterr().out


def test_an_airflow_that_stays_away(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.answers(Answer(200, {"dag_run_id": "r"}), Answer(503))
    with pytest.raises(OSError, match="503"):
        run_script(monkeypatch, COMPARE, *FIELDS)
    monkeypatch.setenv("EXPERIMENT_SECONDS", "0")
    service.answers(Answer(200, {"dag_run_id": "r"}))
    with pytest.raises(TimeoutError, match="goes on in Airflow"):
        run_script(monkeypatch, COMPARE, *FIELDS)


@pytest.mark.parametrize("name", ["compare-github.yaml", "compare-cloudbuild.yaml"])
def test_the_workflows_fill_in_fields_of_the_form(name: str) -> None:
    text = (FOLDER / name).read_text()
    steps = yaml.safe_load(text).get("steps") or yaml.safe_load(text)["jobs"]["compare"]["steps"]
    command = steps[-1].get("run") or steps[-1]["args"][-1]
    words = command.replace("\\\n", " ").replace('"', "").replace("'", "").split()
    fields = {word.partition("=")[0] for word in words[words.index(COMPARE) + 1 :] if "=" in word}
    assert fields == {"test", "base", "candidate", "metrics"}
    assert fields <= set(product_dag(COMPARE).params)
