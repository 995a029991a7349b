"""The tasks of a run that follow its workload. Each calls one function of `ml_metrics.pipeline.steps`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from ml_metrics.airflow.assets import emit_passed
from ml_metrics.airflow.connections import warehouse
from ml_metrics.airflow.operators.chosen_operator import remove_leftovers
from ml_metrics.airflow.operators.run import RUN_FOLDER, folder_of, run_of
from ml_metrics.airflow.otel.emit import emit
from ml_metrics.airflow.versions import (
    TRIGGER_FAIL_REPR,
    AirflowFailException,
    AirflowSkipException,
    checked,
    is_paused,
    run_to_trigger,
)
from ml_metrics.core.errors import (
    ConfigError,
    FileMissingError,
    NothingToAskError,
    StorageError,
    UnreadableInputError,
    WarehouseError,
)
from ml_metrics.core.kinds import kind_of
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import counted, logger_of, printable
from ml_metrics.core.units import quantity
from ml_metrics.core.values import short_hash
from ml_metrics.pipeline import RunState, steps
from ml_metrics.pipeline.experiments import BISECT, DECIDE, question_run_id
from ml_metrics.store.documents import Documents
from ml_metrics.store.run_folder import writer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.model import Run


TRIGGERER_PATIENCE = timedelta(minutes=10)
"""How long a task waits for a triggerer that is late or down before it continues without it."""
MEASURED = {"collect_metrics": "metrics", "measure_goodput": "goodput"}
"""The measuring tasks, and the document of each."""
STARTED, INSTEAD = "started", "instead_of_"
"""XComs: in which execution of the run a process of the task ran; that another task did its work. Airflow removes the
XComs of a task when a process of it starts, not when it is cleared."""
log = logger_of(__name__)


class TestTask(BaseOperator):
    """Base of the tasks of a test. They run even if earlier tasks failed: `assert_success` decides."""

    def __init__(self, *, test: TestDefinition, trigger_rule: str = "all_done", **options: Any) -> None:
        super().__init__(trigger_rule=trigger_rule, **options)
        self.test = test

    def execute(self, context: Mapping[str, Any]) -> str:
        """Run the task. Errors in configuration or input fail at once, because a retry would fail in the same way."""
        try:
            return self.perform(context)
        except (ConfigError, UnreadableInputError) as error:
            raise AirflowFailException(str(error)) from error

    def perform(self, context: Mapping[str, Any]) -> str:
        raise NotImplementedError

    def state(self, context: Mapping[str, Any]) -> RunState:
        return RunState(folder_of(self.test.name, context), partial(self.has_written, context))

    def has_written(self, context: Mapping[str, Any], document: str) -> bool:
        """Return whether Airflow states that an earlier task has written a document."""
        task = writer_of(document)
        if task not in self.get_flat_relative_ids(upstream=True):
            return False
        begun = document == "run" and context["ti"].xcom_pull(task_ids=task, key=RUN_FOLDER) is not None
        return begun or self.upstream_states(context)[task] == "success"

    def upstream_states(self, context: Mapping[str, Any]) -> dict[str, str]:
        ti = context["ti"]
        names = [
            task for task in (*steps.TASKS, steps.CONFIRM_RUN) if task in self.get_flat_relative_ids(upstream=True)
        ]
        states = states_of(ti, ti.dag_id, ti.run_id, names)
        judged = states.get("judge_run") == "success"
        instead = [
            name
            for name in MEASURED
            if judged and states.get(name) == "failed" and ti.xcom_pull(task_ids="judge_run", key=f"{INSTEAD}{name}")
        ]
        return {**states, **dict.fromkeys(instead, "success")}


class MeasuringTask(TestTask):
    """Base of the tasks that measure what the workload left.

    If Airflow could not publish such a task, `judge_run` does its work.
    """

    def execute(self, context: Mapping[str, Any]) -> str:
        """Run the task, and show later tasks that a process of it has run, even if it fails."""
        context["ti"].xcom_push(key=STARTED, value=_execution(context))
        return super().execute(context)

    def stand_in(self, context: Mapping[str, Any]) -> str:
        """Do the work of this task in the process of a later one."""
        return self.perform(context)


@checked
class CollectMetrics(MeasuringTask):
    """Aggregate what the workload wrote to the run folder into `metrics.json`.

    If the memory of the workload is not known yet, the task waits for it in the triggerer, and holds no worker.
    """

    _waited = False

    def resume(self, context: Mapping[str, Any], event: Any = None) -> str:
        self._waited = True
        return self.execute(context)

    def stand_in(self, context: Mapping[str, Any]) -> str:
        """Collect now: a later task does not wait."""
        self._waited = True
        return self.perform(context)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Any) -> Any:
        """Continue, also if no triggerer kept the time: a run that misses its memory is better than no run."""
        if next_method == TRIGGER_FAIL_REPR:
            return self.resume(context)
        return super().resume_execution(next_method, next_kwargs, context)

    def perform(self, context: Mapping[str, Any]) -> str:
        moment = None if self._waited else steps.memory_visible_at(self.test, self.state(context))
        if moment is not None:
            from airflow.providers.standard.triggers.temporal import DateTimeTrigger

            self.log.info("the memory of the workload can be read at %s", moment.isoformat(timespec="seconds"))
            timeout = moment - datetime.now(UTC) + TRIGGERER_PATIENCE
            self.defer(trigger=DateTimeTrigger(moment), method_name="resume", timeout=timeout)
        collected = steps.collect(self.test, self.state(context), Settings.load().limits)
        for warning in collected.warnings:
            self.log.warning("%s", printable(warning))
        for note in collected.notes:
            self.log.info("%s", printable(note))
        for metric in collected.metrics:
            self.log.info("%s = %s", printable(metric.name), quantity(metric.value, metric.unit))
        return f"{counted(len(collected.metrics), 'metric')} from {counted(collected.files, 'file')}"


class MeasureGoodput(MeasuringTask):
    """Measure productive and lost time from the goodput log, and write `goodput.json`."""

    def perform(self, context: Mapping[str, Any]) -> str:
        report = steps.measure_goodput(self.test, self.state(context), Settings.load().limits)
        for warning in report.warnings:
            self.log.warning("%s", printable(warning))
        for metric in report.metrics():
            self.log.info("%s = %s", printable(metric.name), quantity(metric.value, metric.unit))
        return report.summary


class JudgeRun(TestTask):
    """Check every metric against its condition and its history, and write `verdicts.json`."""

    def perform(self, context: Mapping[str, Any]) -> str:
        self._measure_instead(context)
        state = self.state(context)
        efficiency = steps.measure_efficiency(self.test, state)
        for warning in efficiency.warnings:
            self.log.warning("%s", printable(warning))
        for name, value in efficiency.values.items():
            self.log.info("%s = %s", name, quantity(value, kind_of(name).unit))
        with warehouse() as open_warehouse:
            run = run_of(self.test.name, context)
            judgement = steps.judge(self.test, run, state, open_warehouse)
        for verdict in judgement.verdicts:
            log = self.log.warning if verdict.broken else self.log.info
            log("%s: %s. %s", verdict.metric, verdict.outcome, verdict.reason)
        _mark(run, state, gate_is_next=True)
        broken = sum(verdict.broken for verdict in judgement.verdicts)
        return f"{len(judgement.verdicts)} verdicts, {broken} broken"

    def _measure_instead(self, context: Mapping[str, Any]) -> None:
        """Do the work of earlier tasks that never ran because the broker was down, so that no number is lost."""
        ti, state = context["ti"], self.state(context)
        tasks = self.dag.task_dict  # a step that the test file turns off is not a task of its DAG
        absent = [name for name, document in MEASURED.items() if name in tasks and state.folder.read(document) is None]
        for name in absent:
            if ti.xcom_pull(task_ids=name, key=STARTED) == _execution(context):
                continue
            self.log.warning("Airflow did not start `%s` in this execution of the run: its work is done here", name)
            measuring: Any = self.dag.get_task(name)
            try:
                measuring.stand_in(context)
            except StorageError:
                raise  # another try may reach the bucket
            except AirflowSkipException:
                pass
            except Exception:  # the run ends as if that task had failed
                self.log.exception("the work of `%s` failed", name)
                continue
            ti.xcom_push(key=f"{INSTEAD}{name}", value=True)


class LoadHistory(TestTask):
    """Write one row of `job_history`, and one row of `metric_history` for each metric, exactly once."""

    def perform(self, context: Mapping[str, Any]) -> str:
        run = run_of(self.test.name, context)
        with warehouse() as open_warehouse:
            record = steps.load(self.test, run, self.state(context), open_warehouse, self.upstream_states(context))
            if not self.test.source:  # no test file shows a test that is written in Python: register it
                from ml_metrics.warehouse import known_test

                try:
                    open_warehouse.known_tests.register(known_test(self.test, file=self.dag.fileloc))
                except WarehouseError as error:
                    self.log.warning("the test is not registered; its next run registers it: %s", error)
        self.log.info("job_history: run %s is %s", run.key, record.job.job_status)
        return f"1 job row and {len(record.metrics)} metric rows for run {run.key}"


class ConfirmRun(TestTask):
    """Start another run of the test, with the same parameters, if a verdict alerts only once it is confirmed."""

    def perform(self, context: Mapping[str, Any]) -> str:
        # it has the same run id however often this task is executed, so it is started once; so have those below
        confirming = steps.confirm(self.test, run_of(self.test.name, context), self.state(context))
        if confirming is None:
            raise AirflowSkipException("no verdict of this run waits for another run of the test")
        ti, dag_run = context["ti"], context["dag_run"]
        if is_paused(ti, ti.dag_id):
            raise AirflowSkipException("the DAG is paused, so no run is started: the next run of the test confirms")
        self.log.info("%s. It is run %s", confirming.note, confirming.run_id)
        raise run_to_trigger(ti.dag_id, confirming.run_id, dag_run.conf or {}, note=confirming.note)


class AssertSuccess(TestTask):
    """Fail, with all reasons, if the workload, a verdict or an earlier task failed. No other task fails the run.

    Before it ends, it writes the message that is due, so that no callback has to decide: Airflow may kill a callback
    at any moment.
    """

    def __init__(self, *, post_message: Callable[[TestDefinition, Run, RunState], Any], **options: Any) -> None:
        super().__init__(**options)
        self.post_message = post_message
        self.decided = False
        """Whether this process has decided which message is due."""
        self.posted: Any = None
        """The message that this process has written; None if none was due."""

    def perform(self, context: Mapping[str, Any]) -> str:
        run, state = run_of(self.test.name, context), self.state(context)
        _mark(run, state)
        # an earlier try may have written a decision; if this process dies, that one must not be read as the result
        state.folder.remove("gate")
        gate = steps.decide(state, self.upstream_states(context))
        self.posted = self.post_message(self.test, run, state)
        self.decided = True
        remove_leftovers(self.test, context, state.folder)
        emit(self.test, run, state, getattr(context["ti"], "context_carrier", None))
        if gate.reasons:
            raise AirflowFailException("; ".join(gate.reasons))
        if self.outlets:
            emit_passed(run, state, context)
        return "every task, the workload and every verdict passed"


def states_of(ti: Any, dag_id: str, run_id: str, tasks: Sequence[str]) -> dict[str, str]:
    """Return the state of each task of a run; "missing" if Airflow has none, since the task never ran."""
    found = ti.get_task_states(dag_id=dag_id, run_ids=[run_id], task_ids=list(tasks)).get(run_id, {})
    return {name: str(found.get(name) or "missing") for name in tasks}


def _execution(context: Mapping[str, Any]) -> str:
    """Return which execution of the run this is: Airflow counts how often a run or some of its tasks were cleared."""
    return f"clear {context['dag_run'].clear_number}"


def _mark(run: Run, state: RunState, *, gate_is_next: bool = False) -> None:
    """Let senders find this run if its gate dies before it has written its message."""
    from ml_metrics.store.markers import Markers

    try:
        markers = Markers.of(Settings.load().storage_root, run.deployment)
        markers.add_run(run.key, state.folder.path, gate_is_next=gate_is_next)
    except StorageError as error:
        log.warning("no sender can find this run if its gate is killed now: %s", error)


ASK_FOR_DECISION = "ask_for_decision"
QUESTIONS = "questions"
"""The folder of documents that state which incident a test asked about last."""


def has_asked(test: str, incident: str) -> bool:
    """Return whether a test has asked about an incident. Users who may start runs could name any other test."""
    return _asked(test).get("incident") == incident


def is_shown(test: str, run_id: str) -> bool:
    """Return whether Airflow shows the question of a run. Writing it again would lose the answer."""
    return _asked(test).get("shown_by") == run_id


def mark_shown(test: str, incident: str, run_id: str) -> None:
    _questions().write(short_hash(test), {"incident": incident, "shown_by": run_id})


class AskForDecision(TestTask):
    """Ask once about each incident. The gate has decided before, and this task changes the result of no run.

    Args:
        incident_to_ask_about: returns the open incident of a test, or raises NothingToAskError.
    """

    def __init__(self, *, incident_to_ask_about: Callable[[str], str], **options: Any) -> None:
        super().__init__(**options)
        self.incident_to_ask_about = incident_to_ask_about

    def perform(self, context: Mapping[str, Any]) -> str:
        if self.state(context).trial:
            raise AirflowSkipException("there is no question about a trial")
        try:
            incident = self.incident_to_ask_about(self.test.name)
        except NothingToAskError as error:
            raise AirflowSkipException(f"there is no question: {error}") from error
        ti = context["ti"]
        if is_paused(ti, DECIDE):
            raise AirflowSkipException(f"there is no question: the DAG {DECIDE} is paused")
        run_id = question_run_id(self.test.name, incident, ti.run_id)
        if not has_asked(self.test.name, incident):
            _questions().write(short_hash(self.test.name), {"incident": incident})
        note = f"{self.test.name}: a person decides about incident {incident}"
        self.log.info("%s, in run %s of %s", note, run_id, DECIDE)
        raise run_to_trigger(DECIDE, run_id, {"test": self.test.name, "incident": incident}, note=note)


def _asked(test: str) -> dict[str, Any]:
    try:
        return _questions().read(short_hash(test))
    except (FileMissingError, UnreadableInputError):
        return {}


def _questions() -> Documents:
    return Documents.of_deployment(Settings.load().storage_root, QUESTIONS)


SEARCH_CAUSE = "search_cause"
ACTIVE = ["queued", "running"]


class SearchCause(TestTask):
    """Start one search for each change, and none while another for the same test or the same versions is running."""

    def perform(self, context: Mapping[str, Any]) -> str:
        from ml_metrics.pipeline.experiments import own_search, remember, running_search

        state, ti = self.state(context), context["ti"]
        if state.trial:
            raise AirflowSkipException("a trial starts no search")
        if self.test.quarantine is not None and self.test.quarantine.holds(datetime.now(UTC)):
            raise AirflowSkipException("the test is quarantined")
        verdicts = state.judgement.verdicts if state.judgement else ()
        root = Settings.load().storage_root
        try:
            with warehouse() as open_warehouse:
                search = own_search(self.test, run_of(self.test.name, context).key, verdicts, open_warehouse)
        except ConfigError as error:
            raise AirflowSkipException(f"no search is started: {error}") from error

        def is_active(run_id: str) -> bool:
            return bool(ti.get_dr_count(dag_id=BISECT, run_ids=[run_id], states=ACTIVE))

        if other := running_search(root, search, is_active):
            raise AirflowSkipException(f"no search is started while {other} is running")
        if is_paused(ti, BISECT):
            raise AirflowSkipException(f"no search is started: the DAG {BISECT} is paused")
        remember(root, search)
        self.log.info("%s. It is run %s of %s", search.note, search.run_id, BISECT)
        raise run_to_trigger(BISECT, search.run_id, search.form, note=search.note)
