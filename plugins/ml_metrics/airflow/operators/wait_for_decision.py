"""The task that asks a person about a change under Airflow's Required Actions, and carries out the answer.

It holds no worker while it waits. From time to time it checks whether the incident was closed or answered elsewhere,
and then ends by itself.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.providers.standard.triggers.hitl import HITLTrigger
from airflow.sdk import Param

from ml_metrics.airflow.operators.answer_trigger import AnswerTrigger
from ml_metrics.airflow.operators.tasks import has_asked, is_shown, mark_shown
from ml_metrics.airflow.versions import (
    TRIGGER_FAIL_REPR,
    AirflowFailException,
    AirflowSkipException,
    checked,
    is_paused,
    run_to_trigger,
    upsert_hitl_detail,
    wait_for_answer,
)
from ml_metrics.alerts import ANSWERS, Act
from ml_metrics.core.errors import MlMetricsError, NothingToAskError
from ml_metrics.core.extras import reaches_triggerer
from ml_metrics.core.text import printable
from ml_metrics.pipeline.experiments import again_run_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ml_metrics.alerts import Question


CHECKED_EVERY = timedelta(minutes=15)
"""The interval at which a waiting task checks its incident: each check is a short process on a worker."""
SCHEDULER_SECONDS = 30.0
"""A later try looks for the answer after this time, in which a healthy scheduler has read that it waits."""
LONGEST = timedelta(days=14)
"""A question without an answer is withdrawn after this time. The incident stays in the inbox."""
PROCESS_TIMEOUT = timedelta(minutes=13)
STORED_AGAIN_AFTER = timedelta(minutes=5)
MOST_TRIES = 288
"""How often an answer is stored again if the warehouse cannot be reached: for a day."""


@checked
class WaitForDecision(HITLOperator):
    """Ask about the incident that the run's configuration names.

    Args:
        question_about: returns the question about an incident of a test, or raises NothingToAskError if there is none.
        check_unanswered: raises NothingToAskError if a question needs no answer any more.
        store_answer: stores an answer, and returns a sentence about that.
        checked_every: the interval at which the waiting task checks its incident.
    """

    def __init__(
        self,
        *,
        question_about: Callable[[str, str], Question],
        check_unanswered: Callable[[Mapping[str, Any]], None],
        store_answer: Callable[..., str],
        checked_every: timedelta = CHECKED_EVERY,
        **options: Any,
    ) -> None:
        why = Param("", type="string", maxLength=1000, title="Why", description="Is stored with the answer")
        super().__init__(subject="A change", options=[act.label for act in ANSWERS], params={"why": why}, **options)
        self.execution_timeout = PROCESS_TIMEOUT  # of each process: as an option, it would be that of the answer
        self.question_about = question_about
        self.check_unanswered = check_unanswered
        self.store_answer = store_answer
        self.checked_every = checked_every

    def execute(self, context: Any) -> Any:
        """Ask, and leave the worker. A later try does not ask again, since the answer may be there already."""
        question = self._question(context)
        if not is_shown(question.test, context["ti"].run_id):
            self._show(context, question)
            self._wait(context, question.document())
        trigger = self._trigger(context, not_before=time.time() + SCHEDULER_SECONDS)
        self.defer(trigger=trigger, method_name="execute_complete", kwargs={"question": question.document()})

    def execute_complete(self, context: Any, event: dict[str, Any], question: dict[str, Any] | None = None) -> str:
        """Continue once a person has answered, or when it is time to check the incident."""
        asked = question or {}
        if event.get("error_type") == "timeout":
            self._end_if_settled(context, asked)
            self._wait(context, asked)
        if "error" in event:
            raise AirflowFailException(f"the answer cannot be used: {event['error']}")
        chosen = {act.label: act.value for act in ANSWERS}.get(event["chosen_options"][0])
        if chosen is None:
            raise AirflowFailException(f"{event['chosen_options'][0]!r} is not one of {', '.join(self.options)}")
        answer = {
            "act": chosen,
            "by": str((event["responded_by_user"] or {}).get("name") or "somebody"),
            "why": str((event["params_input"] or {}).get("why") or ""),
        }
        return self.carry_out(context, asked, answer)

    def carry_out(
        self, context: Any, question: dict[str, Any], answer: dict[str, str], tries: int = 1, event: Any = None
    ) -> str:
        """Carry out an answer, which is kept until the warehouse has it."""
        del event  # that of the timer
        try:
            if answer["act"] == Act.RERUN:
                self.check_unanswered(question)
                dag_id, ti = str(question["dag_id"]), context["ti"]
                if is_paused(ti, dag_id):
                    raise AirflowFailException(f"the DAG {dag_id} is paused: unpause it, and clear this task")
                note = f"{printable(answer['by'])} decided to measure again ({self.dag_id} {ti.run_id})"
                raise run_to_trigger(dag_id, again_run_id(ti.run_id), {}, note=note)
            done = self.store_answer(question, answer["act"], by=answer["by"], reason=answer["why"])
        except NothingToAskError as error:
            raise AirflowSkipException(f"the answer changes nothing: {error}") from error
        except MlMetricsError as error:
            if tries >= MOST_TRIES:
                raise AirflowFailException(f"the answer of {answer['by']} is not stored: {error}") from error
            from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger

            self.log.warning("the answer of %s is stored later: %s", printable(answer["by"]), error)
            kept = {"question": question, "answer": answer, "tries": tries + 1}
            self.defer(trigger=TimeDeltaTrigger(STORED_AGAIN_AFTER), method_name="carry_out", kwargs=kept)
        self.log.info("%s", printable(done))
        return done

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Any) -> Any:
        """Continue even if the triggerer failed, unless the question is settled."""
        if next_method == TRIGGER_FAIL_REPR:
            self._wait(context, self._question(context).document())
        return super().resume_execution(next_method, next_kwargs, context)

    def _question(self, context: Any) -> Question:
        form = context["dag_run"].conf or {}
        test, incident = str(form.get("test") or ""), str(form.get("incident") or "")
        if not has_asked(test, incident):
            raise AirflowFailException("no test has asked this: only tests with `decide: true` start runs of this DAG")
        try:
            return self.question_about(test, incident)
        except NothingToAskError as error:
            raise AirflowSkipException(f"there is nothing to ask: {error}") from error

    def _show(self, context: Any, question: Question) -> None:
        self.subject, self.body = question.subject, question.body
        upsert_hitl_detail(
            ti_id=context["ti"].id,
            options=self.options,
            subject=self.subject,
            body=self.body,
            params=self.serialized_params,
        )
        mark_shown(question.test, question.incident, context["ti"].run_id)
        self.log.info("%s", printable(f"a person is asked: {question.subject}"))

    def _wait(self, context: Any, question: dict[str, Any]) -> NoReturn:
        wait_for_answer(self, self._trigger(context), {"question": question}, self.checked_every)

    def _trigger(self, context: Any, not_before: float = 0.0) -> HITLTrigger:
        options: dict[str, Any] = {
            "ti_id": context["ti"].id,
            "options": self.options,
            "params": self.serialized_params,
            "timeout_datetime": datetime.now(UTC) + self.checked_every,
        }
        if not_before and reaches_triggerer():
            return AnswerTrigger(not_before=not_before, **options)
        return HITLTrigger(**options)

    def _end_if_settled(self, context: Any, question: dict[str, Any]) -> None:
        if datetime.now(UTC) - context["dag_run"].run_after > LONGEST:
            raise AirflowSkipException(f"nobody has answered for {LONGEST.days} days: the inbox has the incident")
        try:
            self.check_unanswered(question)
        except NothingToAskError as error:
            raise AirflowSkipException(f"an answer is no longer needed: {error}") from error
        except MlMetricsError as error:
            self.log.warning("whether the incident is still open is unknown: %s", error)
