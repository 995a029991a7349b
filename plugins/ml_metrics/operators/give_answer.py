"""The last task of a comparison or a search: it shows the answer, and fails if a build should stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from ml_metrics.airflow_versions import AirflowFailException
from ml_metrics.errors import ConfigError, UnreadableInputError
from ml_metrics.experiments.journal import read_result
from ml_metrics.operators.run_trials import key_of
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMENT, JUNIT = "comment", "junit"
"""The XComs that a build reads: the Markdown comment, and JUnit XML."""


class GiveAnswer(BaseOperator):
    """Push the comment, and fail if a metric is worse or there is no answer."""

    def execute(self, context: Mapping[str, Any]) -> str:
        """Return the answer."""
        settings = Settings.load()
        try:
            result = read_result(settings.storage_root, key_of(context, settings))
        except (ConfigError, UnreadableInputError) as error:
            raise AirflowFailException(str(error)) from error
        comment, answer = str(result[COMMENT]), str(result["answer"])
        for name, text in ((COMMENT, comment), (JUNIT, str(result[JUNIT]))):
            if text:
                context["ti"].xcom_push(key=name, value=text)
        for line in comment.splitlines():
            self.log.info("%s", line)
        if result["failed"]:
            raise AirflowFailException(answer)
        return answer
