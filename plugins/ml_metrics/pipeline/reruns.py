"""Which suspicious runs are run again: as many as the budget of a night allows.

The two reruns of a run are claimed before they are counted, so two tests that are judged at once never both take what
is left of the budget, and a night that has begun is decided. A rerun that is good gives the other one back.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.config.conditions import NIGHT_RUNS
from ml_metrics.config.policy import current_policy
from ml_metrics.core.settings import Settings
from ml_metrics.store.documents import Documents
from ml_metrics.store.markers import file_name

if TYPE_CHECKING:
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.model import Run
    from ml_metrics.judge import Judgement
    from ml_metrics.pipeline.run_state import RunState
    from ml_metrics.warehouse import Warehouse


CLAIMS = "reruns"
"""The folder of documents that claim reruns: their names are the second, which of the two, and the key of the run."""
NIGHT = timedelta(days=1)
RERUNS = NIGHT_RUNS - 1
"""So many are always allowed: a share of a few runs is less than one."""


def with_reruns(
    test: TestDefinition, run: Run, state: RunState, judgement: Judgement, warehouse: Warehouse
) -> Judgement:
    """The judgement of a run whose suspicious metrics state whether the test is run again for them."""
    from ml_metrics.judge import confirming_run, run_again

    rerun, origin = test.regression_test_config.rerun, run_again(run.run_id)
    if rerun is None or state.trial:
        return judgement
    broken = {verdict.metric for verdict in judgement.verdicts if verdict.broken}
    suspicious = [each for each in judgement.unconfirmed if each.metric not in broken]
    following = confirming_run(run.run_id, suspicious)
    if following is None:
        if origin:
            _give_back(f"{RERUNS - 1}-{replace(run, run_id=origin).key}")  # the second one
        return judgement
    key = replace(run, run_id=run_again(following.run_id)).key
    refused = _refused(test, run, state) or _over_budget(key, warehouse, rerun.at_most)
    kept = tuple(each for each in judgement.unconfirmed if not refused or each.metric in broken)
    again = f"run again as run {suspicious[0].broken + 1} of {NIGHT_RUNS} of this night"
    what, names = f"not run again: {refused}" if refused else again, {each.metric for each in suspicious}
    verdicts = tuple(
        replace(verdict, reason=f"{verdict.reason}; {verdict.watched.beyond:.1f} deviations worse: {what}")
        if verdict.watched and verdict.metric in names
        else verdict
        for verdict in judgement.verdicts
    )
    return replace(judgement, verdicts=verdicts, unconfirmed=kept)


def _refused(test: TestDefinition, run: Run, state: RunState) -> str:
    """Why a suspicious run is not run again; empty if nothing speaks against it."""
    now = datetime.now(UTC)
    if test.quarantine is not None and test.quarantine.holds(now):
        return "the test is quarantined"
    if run.run_id.startswith("backfill"):
        return "it is a run of a backfill"
    if state.workload.ended_at is not None and now - state.workload.ended_at > NIGHT:
        return "it ended more than a day ago"
    return "" if current_policy().reruns else "the policy does not allow it"


def _over_budget(key: str, warehouse: Warehouse, percent: float) -> str:
    """Claim both reruns of a run, if all of a day are at most as many as allowed. A claim stays what it is."""
    claims, now = _claims(), datetime.now(UTC)
    allowed = max(RERUNS, math.floor(warehouse.runs.runs_since(now - NIGHT) * percent / 100))
    if any(name.endswith(f"-{key}") for name in claims.names()):
        return ""
    for number in range(RERUNS):
        claims.write(f"{_second(now)}-{number}-{key}", {})
    for name in claims.names():
        if name < _second(now - NIGHT):
            claims.remove(name)
    if len(claims.names()) <= allowed:
        return ""
    _give_back(key)
    return "the budget of reruns is spent"


def _give_back(key: str) -> None:
    for name in (claims := _claims()).names():
        if name.endswith(f"-{key}"):
            claims.remove(name)


def _claims() -> Documents:
    """The reruns of a deployment in the last day, those included that may not be needed."""
    settings = Settings.load()
    return Documents.of_deployment(settings.storage_root, CLAIMS, file_name(settings.deployment))


def _second(moment: datetime) -> str:
    return f"{int(moment.timestamp()):011}"
