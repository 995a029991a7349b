"""What stands in the UI for a test file that cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

if TYPE_CHECKING:
    from collections.abc import Mapping


class ConfigProblem(BaseOperator):
    """Fail with everything that is wrong with a test file."""

    def __init__(self, *, problem: str, **options: Any) -> None:
        super().__init__(**options)
        self.problem = problem

    def execute(self, context: Mapping[str, Any]) -> NoReturn:  # noqa: ARG002  (Airflow's signature)
        """Say it."""
        raise AirflowFailException(self.problem)
