"""The channel to MLflow: which run it logs to, whatever a workload says, and that repeating it changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace

import pytest

from ml_metrics.alerts.channels.mlflow import Mlflow, metrics_of, tags_of
from ml_metrics.alerts.message import Message, MessageKind, Result, from_text
from ml_metrics.core.errors import UndeliveredError
from servers.channels import Answer, Service, http_service
from servers.mlflow import MlflowService

KEY = "5f0c1a2b-0000-5000-8000-000000000001"
RESULT = Result(
    test="maxtext",
    run_key=KEY,
    run_id="scheduled__2026",
    deployment="prod",
    verdict="fail",
    passed=False,
    reasons="loss: 0.7 is too much",
    link=f"https://airflow/ml-metrics/run?run={KEY}",
    began_at=1_700_000_000_000,
    ended_at=1_700_000_100_000,
    facts={"job_status": "success"},
    metrics={"goodput": 43.0, "cost_usd": 12.5},
    verdicts={"loss": "fail: 0.7 is too much"},
)
DURING, BEFORE = 1_700_000_050_000, 1_690_000_000_000


@pytest.fixture
def service() -> Iterator[Service]:
    with http_service() as running:
        yield running


@pytest.fixture
def server(service: Service) -> MlflowService:
    return MlflowService(service)


def message(result: Result) -> Message:
    return Message(KEY, MessageKind.RESULT, "the result", result.text(), "", ())


def naming(run: str) -> Message:
    return message(replace(RESULT, tracked={"mlflow": run}))


def test_a_run_that_no_workload_named_is_created_once(server: MlflowService) -> None:
    channel = Mlflow(server.service.url)
    where = channel.send(message(RESULT), 5)
    ((run_id, run),) = server.runs.items()
    assert where == f"logged to run {run_id}"
    assert run["info"]["experiment_id"] == server.experiments["ml-metrics"]
    assert (run["info"]["status"], run["info"]["end_time"]) == ("FAILED", RESULT.ended_at)
    assert run["metrics"] == {"ml_metrics/goodput": 43.0, "ml_metrics/cost_usd": 12.5}
    assert run["tags"] == {
        "ml_metrics.run_key": KEY,
        "ml_metrics.test": "maxtext",
        "ml_metrics.deployment": "prod",
        "ml_metrics.verdict": "fail",
        "ml_metrics.reasons": "loss: 0.7 is too much",
        "ml_metrics.link": RESULT.link,
        "ml_metrics.job_status": "success",
        "ml_metrics.verdict.loss": "fail: 0.7 is too much",
    }
    before = deepcopy(server.runs)
    assert channel.send(message(RESULT), 5) == where
    assert server.runs == before


def test_the_run_that_a_workload_named_gets_the_verdicts_and_keeps_its_status(server: MlflowService) -> None:
    server.add_run("abc123", DURING, owner="vision")
    assert Mlflow(server.service.url).send(naming("abc123"), 5) == "logged to run abc123"
    (run,) = server.runs.values()
    assert (run["tags"]["ml_metrics.verdict"], run["tags"]["owner"]) == ("fail", "vision")
    assert run["info"]["status"] == "RUNNING"
    assert Mlflow(server.service.url).send(naming("abc123"), 5) == "logged to run abc123"


@pytest.mark.parametrize(
    "named", ["other", "older", "unknown", "../experiments/delete?experiment_id=0", "", "a" * 65, "x\r\nHost: y"]
)
def test_a_workload_cannot_have_the_run_of_somebody_else_judged(server: MlflowService, named: str) -> None:
    server.add_run("other", DURING, **{"ml_metrics.run_key": "of another run"})
    server.add_run("older", BEFORE)
    before = deepcopy(server.runs)
    Mlflow(server.service.url).send(naming(named), 5)
    own = server.runs.keys() - before.keys()
    assert len(own) == 1
    assert {name: server.runs[name] for name in before} == before
    assert {one.path.partition("?")[0].rpartition("/")[2] for one in server.service.requests} <= {
        "get",
        "search",
        "create",
        "log-batch",
        "update",
    }


BEGAN, ENDED, TWO_MINUTES = RESULT.began_at, RESULT.ended_at, 120_000


@pytest.mark.parametrize(
    ("info", "is_taken"),
    [
        ({"start_time": BEGAN - TWO_MINUTES}, True),
        ({"start_time": BEGAN - TWO_MINUTES - 1}, False),
        ({"start_time": ENDED + TWO_MINUTES}, True),
        ({"start_time": ENDED + TWO_MINUTES + 1}, False),
        ({"start_time": str(DURING)}, True),
        ({"start_time": None}, False),
        ({"lifecycle_stage": "deleted"}, False),
    ],
)
def test_a_named_run_is_taken_if_it_began_with_the_workload_and_is_not_deleted(
    server: MlflowService, info: dict[str, object], is_taken: bool
) -> None:
    server.add_run("abc123", DURING)
    server.runs["abc123"]["info"].update(info)
    assert (Mlflow(server.service.url).send(naming("abc123"), 5) == "logged to run abc123") is is_taken
    assert len(server.runs) == 2 - is_taken
    assert ("ml_metrics.verdict" in server.runs["abc123"]["tags"]) is is_taken


def test_a_run_that_passed_is_finished_and_only_what_is_known_is_a_tag(server: MlflowService) -> None:
    passed = replace(RESULT, passed=True, verdict="pass", reasons="", link="", facts={}, verdicts={}, metrics={})
    Mlflow(server.service.url, experiment="vision").send(message(passed), 5)
    (run,) = server.runs.values()
    assert (run["info"]["status"], run["info"]["experiment_id"]) == ("FINISHED", server.experiments["vision"])
    assert run["info"]["start_time"] == RESULT.began_at
    assert {name.removeprefix("ml_metrics.") for name in run["tags"]} == {"run_key", "test", "deployment", "verdict"}


def test_every_secret_of_a_login_is_named() -> None:
    assert Mlflow("x", "me", "secret").secrets == ("secret", "bWU6c2VjcmV0")
    assert Mlflow("x", password="t0ken").secrets == ("t0ken", "t0ken")
    assert Mlflow("x", "me").secrets == ()


def test_the_token_or_the_login_is_sent_to_the_server_of_the_connection(server: MlflowService) -> None:
    Mlflow(server.service.url, password="t0ken").send(message(RESULT), 5)
    Mlflow(server.service.url, "me", "secret").send(message(RESULT), 5)
    sent = {one.headers.get("Authorization") for one in server.service.requests}
    assert sent == {"Bearer t0ken", "Basic bWU6c2VjcmV0"}
    assert "secret" not in repr(Mlflow(server.service.url, "me", "secret"))


def test_a_server_that_hangs_is_left_after_its_time(service: Service) -> None:
    service.answers(Answer(200, {}, delay=3))
    with pytest.raises(UndeliveredError, match="MLflow took too long") as caught:
        Mlflow(service.url).send(message(RESULT), 0.3)
    assert caught.value.transient


def test_a_failing_server_is_tried_again_before_a_run_is_created(server: MlflowService) -> None:
    server.add_run("abc123", DURING)
    server.service.answers(Answer(503))
    with pytest.raises(UndeliveredError, match="503") as caught:
        Mlflow(server.service.url).send(naming("abc123"), 5)
    assert caught.value.transient
    assert len(server.service.requests) == 1


def test_what_is_no_tracking_server_is_said(service: Service) -> None:
    service.answers(Answer(200, {}))
    with pytest.raises(UndeliveredError, match="is the host of the connection its tracking server"):
        Mlflow(service.url).send(message(RESULT), 5)


def test_a_lost_document_is_said() -> None:
    with pytest.raises(UndeliveredError, match="the document with the result of the run is gone"):
        Mlflow("http://127.0.0.1:1").send(replace(message(RESULT), text="composed from its row"), 5)
    assert from_text('{"another": "document"}') is None


def test_names_and_numbers_fit_what_mlflow_accepts() -> None:
    names = ["loss/train", "../up", "a//b", "x\ny", "\N{FIRE}", "é" * 300, *(f"m{number}" for number in range(2_000))]
    many = replace(RESULT, metrics=dict.fromkeys(names, 1.0), verdicts=dict.fromkeys(names, "fail: " + "x" * 9_000))
    metrics, tags = metrics_of(many), tags_of(many)
    assert len(metrics) == 500
    assert len(tags) <= 100
    keys = [one["key"] for one in metrics]
    assert keys[:5] == [
        "ml_metrics/loss/train",
        "ml_metrics_.._up",
        "ml_metrics_a__b",
        "ml_metrics/x_y",
        "ml_metrics/_",
    ]
    assert max(map(len, keys)) <= 250
    assert max(len(one["value"]) for one in tags) <= 5_000
