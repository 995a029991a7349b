"""The ids of the DAGs of experiments, and of the runs of trials. DAG files are parsed with this: it imports little."""

from __future__ import annotations

import re

COMPARE, BISECT = "ml-metrics-compare", "ml-metrics-bisect"
_RUN_ID = re.compile(r"trial__(?P<key>[0-9a-f-]{36})__\d+")


def run_id_of(key: str, number: int) -> str:
    """Return the id of the run of a trial, which is the same however often it is started."""
    return f"trial__{key}__{number}"


def experiment_of(run_id: str) -> str | None:
    """Return the key of the experiment that a run is a trial of, or None."""
    found = _RUN_ID.fullmatch(run_id)
    return found["key"] if found else None
