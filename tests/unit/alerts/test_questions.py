"""The question about a change: what it says, when it is due, and what an answer stores."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ml_metrics.airflow import warehouse
from ml_metrics.airflow.callbacks import check_unanswered, incident_to_ask_about, question_about, store_answer
from ml_metrics.alerts import Act, levels_of
from ml_metrics.core.errors import NothingToAskError
from ml_metrics.core.model import JobStatus, Metric, Run, Workload
from ml_metrics.warehouse import StoredMessage, run_record

TEST, NOON, KEY = "nightly", datetime(2026, 1, 2, 12, tzinfo=UTC), "message 1"
RUNS = [Run(TEST, "dag of nightly", f"run {number}", "local") for number in (1, 2)]
LOSS, SLOW, JOB = "out_of_bounds:loss", "change_point:step_time", "job_status:failure"
SENTENCES = ("loss 2, must be below 1 (99 % worse)", "[here](http://evil.example) <b>@all</b>")


@pytest.fixture(autouse=True)
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs: the first has a loss, the second a step time as well."""
    monkeypatch.setenv("AIRFLOW__ML_METRICS__WAREHOUSE_FILE", str(tmp_path / "warehouse.db"))
    monkeypatch.setenv("AIRFLOW__ML_METRICS__DASHBOARD_URL", "https://airflow.example/ml-metrics")
    metrics = (
        [Metric("loss", 2.0, "loss", "final")],
        [Metric(name, 2.0, name, "final") for name in ("loss", "step_time")],
    )
    with warehouse() as opened:
        for run, values, hour in zip(RUNS, metrics, (10, 11), strict=True):
            workload = Workload(JobStatus.SUCCESS, ended_at=NOON.replace(hour=hour))
            opened.load(run_record(run, workload, values, [], {}))


def report(*reasons: str, run: Run = RUNS[0], hour: int = 12) -> None:
    with warehouse() as opened:
        at = NOON.replace(hour=hour)
        opened.incidents.report(TEST, run.key, incident=KEY, fingerprint=str(reasons), reasons=reasons, at=at)
        subject = "[ML Metrics] nightly failed: loss 2, must be below 1 (+1 more)"
        mail = StoredMessage(KEY, run.key, TEST, "vision", "broken", "h", at, (), subject, SENTENCES)
        opened.messages.add(mail)


def test_the_question_says_what_broke_by_how_much_and_since_when() -> None:
    report(LOSS)
    assert incident_to_ask_about(TEST) == KEY
    asked = question_about(TEST, KEY)
    assert (asked.dag_id, asked.levels) == ("dag of nightly", {"loss": RUNS[0].key})
    assert asked.subject == "nightly failed: loss 2, must be below 1 (+1 more)"
    first, second, _, facts, _, *answers = asked.body.splitlines()
    assert first == r"- loss 2, must be below 1 \(99 % worse\)"
    assert second == r"- \[here\]\(http\://evil.example\) \<b\>\@all\</b\>"
    run, page = RUNS[0].key, "https://airflow.example/ml-metrics"
    assert facts == (
        f"Since 2026-01-02 12:00 UTC. · [First bad run]({page}/run?run={run}) · "
        f"[The incident]({page}/inbox?test=nightly&run={run})"
    )
    assert [one.split("**")[1] for one in answers] == ["Accept the new level", "It is a regression", "Measure again"]


def test_the_question_says_what_broke_however_many_messages_came_later() -> None:
    report(LOSS)
    with warehouse() as opened:
        (first,) = opened.messages.since(NOON, TEST)
        for number in range(100):
            later = NOON + timedelta(hours=number)
            opened.messages.add(replace(first, message=f"later {number}", timestamp=later, reasons=("later",)))
    assert question_about(TEST, KEY).body.startswith(r"- loss 2, must be below 1 \(99 % worse\)")


def test_each_metric_has_the_first_run_of_the_incident_with_a_value() -> None:
    report(JOB, LOSS)
    report(LOSS, SLOW, "missing:gone", run=RUNS[1], hour=13)
    assert question_about(TEST, KEY).levels == {"loss": RUNS[0].key, "step_time": RUNS[1].key}


@pytest.mark.parametrize("reasons", [(), (JOB,), ("out_of_bounds:never_recorded",), ("missing:loss",)])
def test_nobody_is_asked_where_nothing_could_be_accepted(reasons: tuple[str, ...]) -> None:
    if reasons:
        report(*reasons)
    with pytest.raises(NothingToAskError):
        incident_to_ask_about(TEST)
    with pytest.raises(NothingToAskError):
        question_about(TEST, KEY)


def test_an_accepted_level_is_the_row_that_the_inbox_makes() -> None:
    report(LOSS, SLOW)
    report(LOSS, SLOW, JOB, run=RUNS[1], hour=13)
    asked = question_about(TEST, KEY).document()
    check_unanswered(asked)
    done = store_answer(asked, Act.ACCEPT, by="uma", reason=" a larger model ")
    assert done == "uma accepted the level of loss, step_time"
    with warehouse() as opened:
        found = {(one.metric, one.run_key, one.accepted_by, one.reason) for one in opened.acceptances.of_test(TEST)}
    assert found == {
        ("loss", RUNS[0].key, "uma", "a larger model"), ("step_time", RUNS[1].key, "uma", "a larger model"),
    }  # fmt: skip
    assert store_answer(asked, Act.ACCEPT, by="uma", reason="") == done, "a try that was killed is repeated"
    with pytest.raises(NothingToAskError, match="the new level is accepted"):
        check_unanswered(asked)
    with pytest.raises(NothingToAskError, match="the new level is accepted"):
        incident_to_ask_about(TEST)


def test_a_regression_is_the_row_that_the_inbox_makes() -> None:
    report(LOSS)
    asked = json.loads(json.dumps(question_about(TEST, KEY).document()))  # a task hands it on to the next
    assert store_answer(asked, Act.REGRESSION, by="uma", reason="x" * 2000) == "uma says that it is a regression"
    with warehouse() as opened:
        incident = opened.incidents.find_open(TEST)
    assert incident is not None
    assert (incident.is_regression, incident.assessed_by) == (True, "uma")
    with pytest.raises(NothingToAskError, match="uma has said what the incident is"):
        check_unanswered(asked)


def test_a_closed_incident_takes_no_answer() -> None:
    report(LOSS)
    asked = question_about(TEST, KEY).document()
    with warehouse() as opened:
        opened.incidents.close(TEST, RUNS[1].key)
    for do in (lambda: check_unanswered(asked), lambda: store_answer(asked, Act.ACCEPT, by="uma", reason="")):
        with pytest.raises(NothingToAskError, match="the incident is closed"):
            do()
    with warehouse() as opened:
        assert opened.acceptances.of_test(TEST) == []


def test_levels_are_looked_up_once_for_each_run_that_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    report(LOSS)
    report(LOSS, JOB, run=RUNS[1], hour=13)
    with warehouse() as opened:
        incident = opened.incidents.find_open(TEST)
        assert incident is not None
        looked: list[str] = []
        place = type(opened.runs).place
        monkeypatch.setattr(type(opened.runs), "place", lambda self, key: (looked.append(key), place(self, key))[1])
        levels_of(opened, incident)
    assert looked == [RUNS[0].key]
