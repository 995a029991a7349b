"""The ids of DAGs that start runs, and of the runs that they start. DAG files import this, so it imports little."""

from __future__ import annotations

import re

from ml_metrics.core.values import short_hash

COMPARE, BISECT = "ml-metrics-compare", "ml-metrics-bisect"
DECIDE = "ml-metrics-decide"
AGAIN = "measure_again__"
"""The prefix of the ids of runs that a person started by answering a question."""
_RUN_ID = re.compile(r"trial__(?P<key>[0-9a-f-]{36})__\d+")


def run_id_of(key: str, number: int) -> str:
    """The same each time the trial is started."""
    return f"trial__{key}__{number}"


def experiment_of(run_id: str) -> str | None:
    found = _RUN_ID.fullmatch(run_id)
    return found["key"] if found else None


def question_run_id(test: str, incident: str, run_id: str) -> str:
    """One for all runs of a test; a run that measures again has its own: the person who wanted it must still decide."""
    asked_by = f"__{short_hash(run_id)}" if run_id.startswith(AGAIN) else ""
    return f"incident__{test}__{short_hash(incident)}{asked_by}"


def again_run_id(question_run_id: str) -> str:
    """The id of the run of a test that the answer to a question starts."""
    return f"{AGAIN}{short_hash(question_run_id)}"
