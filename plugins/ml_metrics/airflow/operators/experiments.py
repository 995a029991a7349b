"""The task of a comparison or a search: it starts one trial after the other, and waits for each in the triggerer.

The task holds no worker while a trial runs. The journal records each trial, so if a try is killed or the scheduler
restarts, no trial is lost and none is started twice.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from ml_metrics.airflow.connections import warehouse
from ml_metrics.airflow.operators.tasks import states_of
from ml_metrics.airflow.storage_mark import check_storage
from ml_metrics.airflow.versions import TRIGGER_FAIL_REPR, AirflowFailException, checked, is_paused, run_to_trigger
from ml_metrics.core.errors import ConfigError, FileMissingError, MlMetricsError, UnreadableInputError
from ml_metrics.core.kinds import kind_of
from ml_metrics.core.model import Run
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import printable
from ml_metrics.core.units import quantity
from ml_metrics.pipeline import RunState
from ml_metrics.pipeline.experiments import BISECT, COMPARE, conf_of, open_journal, read_result, trial_run, values_of
from ml_metrics.store.run_folder import RunFolder, listing_limits, writer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ml_metrics.pipeline.experiments import Experiment, Journal


ENDED = ["success", "failed"]
"""The states of runs that have ended."""
LOST = timedelta(hours=6)
"""After this time in the triggerer, the task itself checks whether the run of a trial still exists."""


@checked
class RunTrials(BaseOperator):
    """Run the trials of an experiment, and write its result.

    Args:
        poll_seconds: how often the triggerer asks whether a trial has ended.
    """

    def __init__(self, *, poll_seconds: float = 5.0, **options: Any) -> None:
        super().__init__(**options)
        self.poll_seconds = poll_seconds

    def execute(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """Continue from the journal. Invalid input fails at once, because a retry would fail in the same way."""
        try:
            return self._run_trials(context)
        except (ConfigError, UnreadableInputError) as error:
            raise AirflowFailException(str(error)) from error

    def execute_complete(self, context: Mapping[str, Any], event: Any = None) -> dict[str, Any]:
        """Continue once a trial has ended. Airflow calls its own method after a triggered run by this name."""
        return self.execute(context)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Any) -> Any:
        """Continue even if the triggerer failed: the task checks again whether the trial has ended."""
        if next_method == TRIGGER_FAIL_REPR:
            return self.execute(context)
        return super().resume_execution(next_method, next_kwargs, context)

    def _run_trials(self, context: Mapping[str, Any]) -> dict[str, Any]:
        settings, ti = Settings.load(), context["ti"]
        check_storage(settings)
        experiment, journal = _begun(context, settings)
        if not journal.trials:
            self.log.info("planned: %s", printable(experiment.planned(partial(past_values, experiment.test))))
        while (version := experiment.next_version(journal.trials)) is not None:
            self._wait(ti, experiment, journal, version)
            run = Run(experiment.test, experiment.test, journal.next_run_id, settings.deployment)
            folder = RunFolder.of(run, settings.storage_root, listing_limits(settings))

            def has_written(document: str, run: Run = run) -> bool:
                task = writer_of(document)
                return states_of(ti, run.dag_id, run.run_id, [task])[task] == "success"

            journal = journal.add(trial_run(version, RunState(folder, has_written)))
            ended = journal.trials[-1]
            shown = ended.reason or ", ".join(
                f"{name} {quantity(value, kind_of(name).unit)}" for name, value in list(ended.values.items())[:5]
            )
            count = f"run {len(journal.trials)} of at most {experiment.most_runs}"
            self.log.info("%s", printable(f"{count}: {version}: {ended.state.value}: {shown}"))
        result = experiment.result(journal.trials)
        journal.write(result)
        return result.as_document()

    def _wait(self, ti: Any, experiment: Experiment, journal: Journal, version: str) -> None:
        """Return if the next trial has ended; otherwise leave the worker, after starting it if it was not started."""
        dag_id, run_id = experiment.test, journal.next_run_id
        if ti.get_dr_count(dag_id=dag_id, run_ids=[run_id], states=ENDED):
            return
        if ti.get_dr_count(dag_id=dag_id, run_ids=[run_id]):
            from airflow.providers.standard.triggers.external_task import DagStateTrigger

            trigger = DagStateTrigger(dag_id, ENDED, run_ids=[run_id], poll_interval=self.poll_seconds)  # type: ignore[arg-type]
            self.defer(trigger=trigger, method_name="execute_complete", timeout=LOST)
        if is_paused(ti, dag_id):
            raise ConfigError(f"the DAG {dag_id} is paused: unpause it, and clear this task, which then continues")
        self.log.info("%s", printable(f"run {len(journal.trials) + 1} of at most {experiment.most_runs}: {version}"))
        raise run_to_trigger(
            dag_id,
            run_id,
            conf_of(experiment.parameter, version, experiment.next_node(journal.trials)),
            note=f"A trial of {printable(version)} for {self.dag_id} {ti.run_id}",
            skip_when_already_exists=False,
            wait_for_completion=True,
            allowed_states=ENDED,
            poke_interval=self.poll_seconds,
            deferrable=True,
        )


def past_values(test: str) -> dict[str, list[float]]:
    """Return the newest values of all metrics of a test, oldest first; none if the warehouse cannot be read."""
    try:
        with warehouse() as opened:
            return values_of(opened, test)
    except MlMetricsError:
        return {}


def key_of(context: Mapping[str, Any], settings: Settings) -> str:
    dag_run = context["dag_run"]
    return Run(dag_run.dag_id, dag_run.dag_id, dag_run.run_id, settings.deployment).key


def _begun(context: Mapping[str, Any], settings: Settings) -> tuple[Experiment, Journal]:
    """Return the experiment and its journal. The candidates of a search are listed once: a registry may add others."""
    # numpy, without which DAG files are parsed
    from ml_metrics.pipeline.experiments import Places, TestSearch, comparison_of, search_of

    form, key, places = context["params"], key_of(context, settings), Places(settings, warehouse)
    dag_id = context["dag_run"].dag_id
    if dag_id == COMPARE:
        comparison = comparison_of(form, places)
        return comparison, open_journal(settings.storage_root, key, comparison.question(), settings.deployment)
    if dag_id != BISECT:
        raise ConfigError(f"DAG {dag_id} is neither {COMPARE} nor {BISECT}")
    try:
        journal = open_journal(settings.storage_root, key)
    except FileMissingError:
        search = search_of(form, places)
        return search, open_journal(settings.storage_root, key, search.question(), settings.deployment)
    return TestSearch.from_question(journal.question), journal


COMMENT, JUNIT = "comment", "junit"
"""The XComs that a build reads: the Markdown comment, and JUnit XML."""


class GiveAnswer(BaseOperator):
    """Push the comment, send the answer, and fail if a metric is worse or there is no answer.

    Args:
        post_answer: sends the answer, and returns a sentence about that.
    """

    def __init__(
        self, *, post_answer: Callable[[str, Mapping[str, Any], str, tuple[str, str]], str], **options: Any
    ) -> None:
        super().__init__(**options)
        self.post_answer = post_answer

    def execute(self, context: Mapping[str, Any]) -> str:
        settings = Settings.load()
        key = key_of(context, settings)
        try:
            result = read_result(settings.storage_root, key)
        except (ConfigError, UnreadableInputError) as error:
            raise AirflowFailException(str(error)) from error
        comment, answer = str(result[COMMENT]), str(result["answer"])
        for name, text in ((COMMENT, comment), (JUNIT, str(result[JUNIT]))):
            if text:
                context["ti"].xcom_push(key=name, value=text)
        for line in comment.splitlines():
            self.log.info("%s", line)
        dag_run, test = context["dag_run"], str(context["params"].get("test") or "")
        asked = dag_run.run_id, str(getattr(dag_run, "triggering_user_name", None) or "")
        self.log.info("%s", printable(self.post_answer(key, result, test, asked)))
        if result["failed"]:
            raise AirflowFailException(answer)
        return answer
