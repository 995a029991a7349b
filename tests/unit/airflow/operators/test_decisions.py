"""The task that starts a question, and the one that waits for its answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import airflow.sdk.exceptions
import pytest
from airflow._shared.module_loading import import_string
from airflow.providers.standard.triggers.hitl import HITLTrigger
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR
from airflow.sdk.exceptions import TaskAwaitingInput
from airflow.triggers.base import TriggerEvent

from ml_metrics import ConfigError, TestDefinition, accelerator_test
from ml_metrics.airflow.operators import wait_for_decision
from ml_metrics.airflow.operators.answer_trigger import AnswerTrigger
from ml_metrics.airflow.operators.run import folder_of
from ml_metrics.airflow.operators.tasks import AskForDecision, _questions, has_asked, is_shown, mark_shown
from ml_metrics.airflow.operators.wait_for_decision import LONGEST, MOST_TRIES, WaitForDecision
from ml_metrics.airflow.versions import AirflowFailException, AirflowSkipException, DagRunTriggerException, TaskDeferred
from ml_metrics.alerts import Act, Question
from ml_metrics.config.loading import load_file
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.core.errors import NothingToAskError, WarehouseError
from ml_metrics.core.values import short_hash
from ml_metrics.pipeline.experiments import DECIDE, again_run_id, question_run_id
from ml_metrics.pipeline.experiments.run_ids import AGAIN

TEST = TestDefinition(name="t", image="i", command=("c",), decide=True)
QUESTION = Question("t", "dag of t", "message 1", {"loss": "run 1"}, "t failed: loss 2", "- loss 2")
ASKED = QUESTION.document()
TI = UUID("00000000-0000-5000-8000-000000000000")


def context(run_id: str = "incident__t__1", *, paused: bool = False, **dag_run: Any) -> dict[str, Any]:
    run = {"conf": {"test": "t", "incident": "message 1"}, "run_after": datetime.now(UTC), **dag_run}
    ti = SimpleNamespace(id=TI, dag_id="t", run_id=run_id, get_dag=lambda _: SimpleNamespace(is_paused=paused))
    return {"dag_run": SimpleNamespace(dag_id="t", run_id=run_id, **run), "ti": ti}


class Waiting:
    """The waiting task, and what it did."""

    def __init__(self) -> None:
        self.settled = ""
        self.broken = False
        self.stored: list[tuple[Any, ...]] = []
        self.task = WaitForDecision(
            task_id="decide",
            question_about=self.question_about,
            check_unanswered=self.check_unanswered,
            store_answer=self.store_answer,
        )

    def question_about(self, test: str, incident: str) -> Question:
        assert (test, incident) == ("t", "message 1")
        self.check_unanswered(ASKED)
        return QUESTION

    def check_unanswered(self, document: Any) -> None:
        assert document == ASKED
        if self.broken:
            raise WarehouseError("locked")
        if self.settled:
            raise NothingToAskError(self.settled)

    def store_answer(self, document: Any, answer: str, *, by: str, reason: str) -> str:
        self.check_unanswered(document)
        self.stored.append((answer, by, reason))
        return "done"

    def answered(self, act: Act, given: dict[str, Any] | None = None, **event: Any) -> Any:
        who = {"id": "7", "name": "uma"}
        made = {"chosen_options": [act.label], "params_input": {"why": "a larger model"}, "responded_by_user": who}
        return self.task.execute_complete(given or context(), {**made, **event}, ASKED)


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What Airflow is asked to show."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(wait_for_decision, "upsert_hitl_detail", lambda **detail: found.append(detail))
    _questions().write(short_hash("t"), {"incident": "message 1"})
    return found


@pytest.fixture(autouse=True)
def _storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path))


def test_a_person_is_asked_and_the_worker_is_left(waiting: Waiting, asked: list[dict[str, Any]]) -> None:
    with pytest.raises(TaskAwaitingInput) as left:
        waiting.task.execute(context())
    (detail,) = asked
    assert (detail["ti_id"], detail["subject"], detail["body"]) == (TI, "t failed: loss 2", "- loss 2")
    assert detail["options"] == ["Accept the new level", "It is a regression", "Measure again"]
    assert list(detail["params"]) == ["why"]
    assert (left.value.method_name, left.value.kwargs) == ("execute_complete", {"question": ASKED})
    assert left.value.timeout == wait_for_decision.CHECKED_EVERY


def test_a_later_try_does_not_ask_again_and_lets_the_scheduler_catch_up(
    waiting: Waiting, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow would remove the answer, which may be there: Airflow itself tries again if an answer comes at once."""
    with pytest.raises(TaskAwaitingInput):
        waiting.task.execute(context())
    with pytest.raises(TaskDeferred) as left:
        waiting.task.execute(context())
    assert (left.value.method_name, left.value.kwargs) == ("execute_complete", {"question": ASKED})
    trigger: Any = left.value.trigger
    assert type(trigger) is AnswerTrigger
    assert trigger.not_before - time.time() == pytest.approx(wait_for_decision.SCHEDULER_SECONDS, abs=5)

    monkeypatch.setattr(wait_for_decision, "reaches_triggerer", lambda: False)
    with pytest.raises(TaskDeferred) as left:
        waiting.task.execute(context())
    assert type(left.value.trigger) is HITLTrigger, "on Cloud Composer without the wheel"
    assert len(asked) == 1
    with pytest.raises(TaskAwaitingInput):
        waiting.task.execute(context("incident__t__1__2"))
    assert len(asked) == 2, "the question after another measurement"


def test_the_triggerer_makes_the_trigger_again_and_it_looks_when_it_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    path, options = AnswerTrigger(
        not_before=time.time() + 9, ti_id=TI, options=["a"], params={}, timeout_datetime=None
    ).serialize()
    again = import_string(path)(**options)
    assert (type(again), again.serialize()) == (AnswerTrigger, (path, options))
    seen: list[str] = []

    async def at_once(_: HITLTrigger) -> AsyncIterator[TriggerEvent]:
        seen.append("looked")
        yield TriggerEvent("answer")

    async def slept(seconds: float) -> None:
        seen.append("waited" if seconds > 5 else "did not wait")

    monkeypatch.setattr(HITLTrigger, "run", at_once)
    monkeypatch.setattr(asyncio, "sleep", slept)

    async def events() -> list[TriggerEvent]:
        return [event async for event in again.run()]

    for due, word in ((0.0, "waited"), (60.0, "did not wait")):
        again.not_before -= due
        assert asyncio.run(events()) == [TriggerEvent("answer")]
        assert seen == [word, "looked"]
        seen.clear()


def test_before_airflow_3_3_the_triggerer_looks_for_the_answer(
    waiting: Waiting, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(airflow.sdk.exceptions, "TaskAwaitingInput")
    with pytest.raises(TaskDeferred) as left:
        waiting.task.execute(context())
    name, trigger = left.value.trigger.serialize()
    assert name.endswith("hitl.HITLTrigger")
    assert (trigger["ti_id"], trigger["options"], trigger["defaults"]) == (TI, asked[0]["options"], None)
    assert timedelta(0) < trigger["timeout_datetime"] - datetime.now(UTC) <= wait_for_decision.CHECKED_EVERY
    assert (left.value.method_name, left.value.kwargs) == ("execute_complete", {"question": ASKED})


@pytest.mark.parametrize("act", [Act.ACCEPT, Act.REGRESSION])
def test_an_answer_is_stored_by_the_name_of_the_person(waiting: Waiting, act: Act) -> None:
    assert waiting.answered(act) == "done"
    assert waiting.stored == [(act, "uma", "a larger model")]


def test_an_answer_without_a_name_or_a_reason_is_stored(waiting: Waiting) -> None:
    waiting.answered(Act.ACCEPT, params_input=None, responded_by_user=None)
    assert waiting.stored == [(Act.ACCEPT, "somebody", "")]


def test_measuring_again_starts_one_run(waiting: Waiting) -> None:
    with pytest.raises(DagRunTriggerException) as started:
        waiting.answered(Act.RERUN)
    run = started.value
    assert (run.trigger_dag_id, run.dag_run_id, run.conf) == ("dag of t", again_run_id("incident__t__1"), {})
    assert run.skip_when_already_exists
    assert run.note.startswith("uma decided to measure again (")
    assert waiting.stored == []


def test_a_paused_test_is_not_measured_again(waiting: Waiting) -> None:
    with pytest.raises(AirflowFailException, match="dag of t is paused: unpause it, and clear this task"):
        waiting.answered(Act.RERUN, context(paused=True))


TIMEOUT = {"error": "no answer", "error_type": "timeout"}


def test_it_waits_on_while_the_question_is_open(waiting: Waiting, asked: list[dict[str, Any]]) -> None:
    for broken in (False, True):  # a warehouse that is down settles nothing
        waiting.broken = broken
        with pytest.raises(TaskAwaitingInput) as left:
            waiting.task.execute_complete(context(), TIMEOUT, ASKED)
        assert left.value.kwargs == {"question": ASKED}
    assert asked == [], "asking again would remove an answer that was given meanwhile"


def test_it_ends_when_the_question_is_settled_elsewhere(waiting: Waiting, asked: list[dict[str, Any]]) -> None:
    waiting.settled = "the incident is closed"
    with pytest.raises(AirflowSkipException, match="no longer needed: the incident is closed"):
        waiting.task.execute_complete(context(), TIMEOUT, ASKED)
    for act in (Act.ACCEPT, Act.RERUN):
        with pytest.raises(AirflowSkipException, match="the answer changes nothing: the incident is closed"):
            waiting.answered(act)
    with pytest.raises(AirflowSkipException, match="there is nothing to ask"):
        waiting.task.execute(context())
    assert (waiting.stored, asked) == ([], [])


def test_a_question_is_withdrawn_after_two_weeks(waiting: Waiting) -> None:
    old = context(run_after=datetime.now(UTC) - LONGEST - timedelta(minutes=1))
    with pytest.raises(AirflowSkipException, match="nobody has answered for 14 days"):
        waiting.task.execute_complete(old, TIMEOUT, ASKED)


def test_an_answer_is_kept_while_the_warehouse_is_away(waiting: Waiting) -> None:
    waiting.broken = True
    with pytest.raises(TaskDeferred) as left:
        waiting.answered(Act.ACCEPT)
    assert left.value.method_name == "carry_out"
    kept = dict(left.value.kwargs or {})
    assert kept["tries"] == 2
    with pytest.raises(AirflowFailException, match="the answer of uma is not stored: locked"):
        waiting.task.carry_out(context(), **{**kept, "tries": MOST_TRIES})
    waiting.broken = False
    assert waiting.task.carry_out(context(), **kept, event=None) == "done"
    assert waiting.stored == [(Act.ACCEPT, "uma", "a larger model")]


def test_what_cannot_be_used_fails(waiting: Waiting) -> None:
    with pytest.raises(AirflowFailException, match="cannot be used: why is too long"):
        waiting.task.execute_complete(context(), {"error": "why is too long", "error_type": "validation"}, ASKED)
    with pytest.raises(AirflowFailException, match="'perhaps' is not one of Accept the new level"):
        waiting.answered(Act.ACCEPT, chosen_options=["perhaps"])


@pytest.mark.parametrize(
    "conf",
    [None, {}, {"test": 7}, {"test": "../t", "incident": "x"}, {"test": "u", "incident": "message 1"}],
)
def test_a_run_that_a_user_starts_asks_nothing(waiting: Waiting, asked: list[dict[str, Any]], conf: Any) -> None:
    with pytest.raises(AirflowFailException, match="no test has asked this"):
        waiting.task.execute(context(conf=conf))
    assert asked == []


def test_a_triggerer_that_fails_is_no_answer(waiting: Waiting, asked: list[dict[str, Any]]) -> None:
    with pytest.raises(TaskAwaitingInput):
        waiting.task.resume_execution(TRIGGER_FAIL_REPR, {"error": "Trigger failure"}, context())
    assert asked == [], "asking again would remove an answer that was given meanwhile"


@pytest.fixture
def ask() -> AskForDecision:
    return AskForDecision(task_id="ask_for_decision", test=TEST, incident_to_ask_about=lambda _: "message 1")


def test_one_run_asks_about_an_incident(ask: AskForDecision) -> None:
    ids = set()
    for run in ("scheduled__1", "scheduled__2"):
        with pytest.raises(DagRunTriggerException) as started:
            ask.execute(context(run))
        assert (started.value.trigger_dag_id, started.value.skip_when_already_exists) == (DECIDE, True)
        assert started.value.conf == {"test": "t", "incident": "message 1"}
        ids.add(started.value.dag_run_id)
    assert ids == {question_run_id("t", "message 1", "manual__1")}
    mark_shown("t", "message 1", "x")
    with pytest.raises(DagRunTriggerException):
        ask.execute(context())
    assert is_shown("t", "x"), "a later run of the test does not make the question be written again"
    assert has_asked("t", "message 1")
    assert not has_asked("t", "message 2")
    with pytest.raises(DagRunTriggerException) as started:
        ask.execute(context(f"{AGAIN}1"))
    assert started.value.dag_run_id not in ids, "a person wanted to measure again, and still has to decide"
    assert question_run_id("t", "message 2", "manual__1") not in ids


def test_nobody_is_asked_about_a_trial_or_without_a_change(ask: AskForDecision) -> None:
    with pytest.raises(AirflowSkipException, match="ml-metrics-decide is paused"):
        ask.execute(context(paused=True))

    def nothing(test: str) -> str:
        raise NothingToAskError(f"no incident of {test} is open")

    ask.incident_to_ask_about = nothing
    with pytest.raises(AirflowSkipException, match="there is no question: no incident of t is open"):
        ask.execute(context())
    given = context()
    folder_of("t", given).write("run", {"trial": ["image"]})
    with pytest.raises(AirflowSkipException, match="a trial"):
        ask.execute(given)


def test_a_setting_that_is_wrong_is_an_error(ask: AskForDecision) -> None:
    def wrong(test: str) -> str:
        raise ConfigError(f"the warehouse of {test} has no address")

    ask.incident_to_ask_about = wrong
    with pytest.raises(AirflowFailException, match="has no address"):
        ask.execute(context())


def test_only_a_test_that_wants_it_has_the_task_and_it_follows_the_gate() -> None:
    dag = accelerator_test(TEST)
    task = dag.get_task("ask_for_decision")
    assert (task.upstream_task_ids, task.is_teardown, task.on_failure_fail_dagrun) == ({"assert_success"}, True, False)
    assert not accelerator_test(TEST.model_copy(update={"decide": False})).has_task("ask_for_decision")


def test_a_test_without_rows_has_no_question(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(
        "name: t\nimage: i\ncommand: [c]\ndecide: true\nmetric_collection_config: {write_to_bigquery: false}\n"
    )
    with pytest.raises(InvalidFileError, match=r"t.yaml:5: .*`decide` needs the rows of runs"):
        load_file(str(file))
