"""One trial of an experiment, as its run folder shows it once it has ended."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.config.params import NODE, TRIAL, YES
from ml_metrics.core.errors import ConfigError, UnreadableInputError
from ml_metrics.core.model import SWEEP, JobStatus, Sweep
from ml_metrics.core.values import finite
from ml_metrics.judge import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ml_metrics.pipeline.run_state import RunState


UNTESTABLE = "ExitCode:125"
"""The exit code of a workload whose version cannot be tested, as for `git bisect run`."""
NO_IMAGE = frozenset({"InvalidImageName", "ErrImageNeverPull"})
"""Reasons for which no other run can start with the same image."""


@dataclass(frozen=True, slots=True)
class TrialRun:
    """A trial that has ended."""

    version: str
    state: State = State.MEASURED
    values: Mapping[str, float] = field(default_factory=dict)
    """By metric; empty unless it was measured."""
    host: str = ""
    """The nodes that its workload ran on; empty if unknown."""
    reason: str = ""
    """Why nothing was measured."""
    curves: Mapping[str, Sweep] = field(default_factory=dict)
    """Those over a load or a size, as metrics are named."""

    def document(self) -> dict[str, Any]:
        found = {**asdict(self), "state": self.state.value}
        return found if self.curves else {name: each for name, each in found.items() if name != "curves"}

    @classmethod
    def from_document(cls, content: Mapping[str, Any]) -> TrialRun:
        try:
            values = {str(name): float(value) for name, value in content["values"].items()}
            host, reason = str(content.get("host") or ""), str(content.get("reason") or "")
            curves = {name: Sweep.from_document(one) for name, one in (content.get("curves") or {}).items()}
            return cls(str(content["version"]), State(content["state"]), values, host, reason, curves)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UnreadableInputError(f"the journal of an experiment: a trial cannot be read: {error!r}") from error


def conf_of(parameter: str, version: str, node: str = "") -> dict[str, Any]:
    """`node`: where the run should be; empty for wherever the test may."""
    return {parameter: version, TRIAL: YES, **({NODE: node} if node else {})}


def node_of(hosts: Iterable[str]) -> str:
    """The first node on which a whole workload ran; empty if none is known."""
    return next((host for host in hosts if host and "," not in host), "")


def trial_run(version: str, state: RunState) -> TrialRun:
    """Raises ConfigError if it was no trial: it is in the test's history."""
    workload = state.recorded_workload
    if workload is None:
        return TrialRun(version, State.BROKEN, reason="the workload was not started")
    if not state.trial:
        raise ConfigError(f"the run in {state.folder.path} is no trial, and counts in the history of its test")
    failure = "" if workload.status is JobStatus.SUCCESS else workload.failure_reason or workload.status.value
    values = {metric.name: metric.value for metric in state.metrics}
    return trial_that(version, workload.nodes or workload.node or "", failure, values, state.sweeps)


def trial_that(
    version: str, host: str, failure: str, values: Mapping[str, float | None], sweeps: Iterable[Sweep]
) -> TrialRun:
    """One that failed for a reason, or that measured values and curves; some of them, or none, may be finite."""
    if failure:
        would_fail_again = failure == UNTESTABLE or failure in NO_IMAGE
        return TrialRun(version, State.UNTESTABLE if would_fail_again else State.BROKEN, host=host, reason=failure)
    known = {name: number for name, value in values.items() if (number := finite(value)) is not None}
    curves = {f"{SWEEP}{one.name}": one for one in sweeps}
    if not known and not curves:
        return TrialRun(version, State.BROKEN, host=host, reason="no metric")
    return TrialRun(version, State.MEASURED, known, host, curves=curves)
