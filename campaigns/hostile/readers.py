"""Every reader of a workload's bytes, by name: each is called on a run folder, and returns what it has read as text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ml_metrics import MlMetricsError, TestDefinition
from ml_metrics.alerts.outbox.documents import MessageFolder
from ml_metrics.alerts.problems import problems_of
from ml_metrics.core.limits import Limits
from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.measure import lines_of, read_logs
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store.run_folder import RunFolder

RUN = Run("hostile", "hostile", "manual__1", "local")
TEST = TestDefinition(name="hostile", image="i", command=("c",))
LIMITS = Limits(bytes_read=4 << 30, bytes_unpacked=64 << 20, seconds=10)
"""As a deployment may set them: within the defaults, a file may be read for half an hour."""
Reader = Callable[[RunState], object]


def run_folder(root: Path) -> RunFolder:
    """Return a run folder in which a workload has succeeded."""
    folder = RunFolder.of(RUN, str(root))
    identity = {"test": RUN.test, "dag_id": RUN.dag_id, "run_id": RUN.run_id, "deployment": RUN.deployment}
    folder.write("run", {**identity, "test_file": TEST.model_dump(mode="json", exclude_unset=True), "params": {}})
    folder.write_workload(Workload(JobStatus.SUCCESS))
    return folder


def _messages(state: RunState) -> object:
    folder = MessageFolder.of_run(state.folder.path)
    return [(folder.sent(name), _or_error(lambda name=name: folder.read(name))) for name in folder.names()]


def _logs(state: RunState) -> object:
    return [lines_of(state.folder, log) for log in read_logs(state.folder)]


READERS: dict[str, Reader] = {
    "collect": lambda state: steps.collect(TEST, state, LIMITS),
    "goodput": lambda state: steps.measure_goodput(TEST, state, LIMITS),
    "identity": lambda state: state.identity,
    "workload": lambda state: (state.workload, state.recorded_workload),
    "metrics": lambda state: state.metrics,
    "judgement": lambda state: state.judgement,
    "gate": lambda state: (state.gate, problems_of(state)),
    "messages": _messages,
    "logs": _logs,
}


def read_all(folder: RunFolder) -> dict[str, str]:
    """Return what every reader says. An error of the product is what it says; any other is a bug, and is raised."""
    return {name: _or_error(lambda reader=reader: reader(RunState(folder))) for name, reader in READERS.items()}


def _or_error(read: Callable[[], object]) -> str:
    try:
        return repr(read())
    except MlMetricsError as error:
        return f"{type(error).__name__}: {error}"
