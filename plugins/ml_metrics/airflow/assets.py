"""The assets of tests: a run that passes is an event of its test's asset, with the digest of its image.

The gate has an alias as its outlet, since an outlet that is an asset would have an event whenever the gate succeeds:
also for trials and for runs without a condition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

from ml_metrics.core.model import Outcome
from ml_metrics.core.values import digest_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.core.model import Run
    from ml_metrics.pipeline import RunState


ASSET = "ml_metrics/passed/"


def passed_asset(test: str) -> Asset:
    """Return the asset of a test. Each of its runs that passes is an event, with the image's digest in `extra`.

    Put it into the schedule of a DAG: `schedule=passed_asset("a") | passed_asset("b")`. The event is repeated if the
    task `assert_success` is cleared, so let `green_tests` decide what is green.
    """
    # for a scheme that begins with "x-", Airflow does not import the asset modules of all providers
    return Asset(name=f"{ASSET}{test}", uri=f"x-ml-metrics://passed/{test}")


def passed_alias(test: str) -> AssetAlias:
    return AssetAlias(name=f"{ASSET}{test}")


def emit_passed(run: Run, state: RunState, context: Mapping[str, Any]) -> bool:
    """Add the event of a run that passed, and return whether it has one. Trials and unjudged runs have none."""
    judgement, workload = state.judgement, state.workload
    if state.trial or judgement is None or judgement.outcome is not Outcome.PASS:
        return False
    extra = {
        "digest": digest_in(workload.image_digest or ""),
        "image": workload.image or "",
        "run": run.key,
        "run_id": run.run_id,
    }
    context["outlet_events"][passed_alias(run.test)].add(passed_asset(run.test), extra=extra)
    return True
