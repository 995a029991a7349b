"""The attributes of a run, under OpenTelemetry's names if there are any, else under `ml_metrics.`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.pages import page_of_run
from ml_metrics.kinds import cost_in
from ml_metrics.otel.periods import MAX_TEXT
from ml_metrics.settings import Settings
from ml_metrics.values import digest_in, finite, printable

if TYPE_CHECKING:
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Run
    from ml_metrics.run_state import RunState

TEST = "test.case.name"
GOODPUT = "goodput"


@dataclass(frozen=True, slots=True)
class Decided:
    """A run whose gate has decided."""

    test: TestDefinition
    run: Run
    state: RunState
    at: float
    """When, in seconds since 1970."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the run failed; empty if it passed."""
        return self.state.gate.reasons if self.state.gate else ()


def attributes_of(decided: Decided) -> dict[str, str | int | float | bool]:
    """Return the attributes of a run. What is unknown has none."""
    test, run, state = decided.test, decided.run, decided.state
    workload = state.workload
    found: dict[str, Any] = {
        TEST: run.test,
        "test.case.result.status": "fail" if decided.reasons else "pass",
        "cicd.pipeline.name": run.dag_id,
        "cicd.pipeline.run.id": run.run_id,
        "cicd.pipeline.run.url.full": page_of_run(Settings.load().dashboard_url, run.key),
        "airflow.dag_id": run.dag_id,
        "airflow.dag_run.run_id": run.run_id,
        "k8s.namespace.name": workload.namespace,
        "k8s.pod.name": workload.pod,
        "k8s.node.name": workload.nodes or workload.node,
        "container.image.name": workload.image,
        "container.image.id": digest_in(workload.image_digest or ""),
        "error.type": workload.failure_reason,
        "ml_metrics.run_key": run.key,
        "ml_metrics.deployment": run.deployment,
        "ml_metrics.accelerator": test.accelerator.name,
        "ml_metrics.owner": test.owner,
        "ml_metrics.job_status": str(workload.status),
        "ml_metrics.verdict": str(state.judgement.outcome) if state.judgement else None,
        "ml_metrics.attempts": workload.attempts,
        "ml_metrics.trial": bool(state.trial),
        "ml_metrics.goodput": goodput_of(state),
        "ml_metrics.intervals.left_out": ((state.goodput or {}).get("timeline") or {}).get("left_out"),
        **{f"ml_metrics.cost.{currency.lower()}": value for currency, value in costs_of(state).items()},
        **{f"ml_metrics.verdicts.{outcome}": count for outcome, count in verdicts_of(state).items()},
    }
    return {name: _short(value) for name, value in found.items() if value is not None and value != ""}


def goodput_of(state: RunState) -> float | None:
    """Return the goodput in percent; None if it was not measured."""
    return finite(next((metric.value for metric in state.metrics if metric.name == GOODPUT), None))


def costs_of(state: RunState) -> dict[str, float]:
    """Return the cost of the run by currency; nothing if no price is known."""
    computed = state.efficiency.metrics if state.efficiency else ()
    found = {one.name: (cost_in(one.name), finite(one.value)) for one in computed}
    return {cost[0]: value for cost, value in found.values() if cost and not cost[1] and value is not None}


def verdicts_of(state: RunState) -> dict[str, int]:
    """Return how many verdicts have each outcome."""
    verdicts = state.judgement.verdicts if state.judgement else ()
    return dict(sorted(Counter(str(one.outcome) for one in verdicts).items()))


def _short(value: Any) -> Any:
    return printable(value)[:MAX_TEXT] if isinstance(value, str) else value
