"""The last task of a comparison or a search: it shows the answer, and fails if a build should stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from ml_metrics.airflow_versions import AirflowFailException
from ml_metrics.errors import ConfigError, MlMetricsError, UnreadableInputError
from ml_metrics.experiments.journal import read_result
from ml_metrics.operators.run_trials import key_of
from ml_metrics.settings import Settings
from ml_metrics.values import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMENT, JUNIT = "comment", "junit"
"""The XComs that a build reads: the Markdown comment, and JUnit XML."""
NOBODY = "nobody is sent the answer: use a mail address as name in Airflow, or set `[ml_metrics] trial_domain`"


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
        self._send(context, settings, result)
        if result["failed"]:
            raise AirflowFailException(answer)
        return answer

    def _send(self, context: Mapping[str, Any], settings: Settings, result: Mapping[str, Any]) -> None:
        """Send the answer to whom it concerns. That it cannot be sent changes no answer."""
        # the templates of messages, without which DAG files are parsed
        from ml_metrics.config.load import load_test
        from ml_metrics.connections import warehouse
        from ml_metrics.notify.answer import send_answer
        from ml_metrics.notify.mail_settings import load_mail_settings

        dag_run, key = context["dag_run"], key_of(context, settings)
        asked = dag_run.run_id, str(getattr(dag_run, "triggering_user_name", None) or "")
        test = str(context["params"].get("test") or "")
        try:
            definition = load_test(settings.config_root, test)
            with warehouse() as opened:
                found = send_answer(
                    key,
                    result,
                    test,
                    asked=asked,
                    readers=definition.emails,
                    mail=load_mail_settings(),
                    warehouse=opened,
                )
        except MlMetricsError as error:
            self.log.warning("%s", printable(f"the answer was not sent: {error}"))
            return
        self.log.info("%s", printable(f"the answer goes to {', '.join(found)}" if found else NOBODY))
