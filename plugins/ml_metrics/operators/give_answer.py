"""The last task of a comparison or a search: it publishes the answer, and fails if a build should stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from ml_metrics.airflow_versions import AirflowFailException
from ml_metrics.errors import ConfigError, UnreadableInputError
from ml_metrics.experiments.journal import read_result
from ml_metrics.operators.run_trials import key_of
from ml_metrics.settings import Settings
from ml_metrics.values import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
        """Return the answer."""
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
