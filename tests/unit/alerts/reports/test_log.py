from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ml_metrics.alerts.job import MAX_LINE_LENGTH, error_in, log_of
from ml_metrics.alerts.message import Fact, Log, MessageKind
from ml_metrics.alerts.problems import problems_of
from ml_metrics.alerts.report import report_of
from ml_metrics.core.model import JobStatus
from ml_metrics.measure import ContainerLog, Role, write_logs
from ml_metrics.measure.logs import FOLDER
from ml_metrics.pipeline import RunState
from ml_metrics.store.documents import DOCUMENTS
from ml_metrics.store.run_folder import RunFolder
from simulated_runs import TEST, failed, run_of, simulate

BASE = ContainerLog(1, "base", Role.WORKLOAD, exit_code=1, saved=True)
TRACEBACK = """Traceback (most recent call last):
  File "/app/train.py", line 1, in <module>
    import no_such_module
ModuleNotFoundError: No module named 'no_such_module'
"""


def save(folder: RunFolder, text: str, log: ContainerLog = BASE) -> None:
    Path(folder.path, DOCUMENTS, FOLDER, log.file).parent.mkdir(parents=True, exist_ok=True)
    Path(folder.path, DOCUMENTS, FOLDER, log.file).write_text(text)
    write_logs(folder, [log])


def test_a_crash_is_explained_by_the_last_lines(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    save(folder, "".join(f"step {number}\n" for number in range(100)) + TRACEBACK)
    log = log_of(folder, 1)
    assert log is not None
    assert log.title == "The last 20 lines of the log of the container base"
    assert log.lines[-4:] == tuple(TRACEBACK.splitlines())
    assert len(log.lines) == 20
    assert error_in(log.lines) == "ModuleNotFoundError: No module named 'no_such_module'"


def test_a_message_shows_no_endless_line(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    save(folder, "x" * 100_000)
    log = log_of(folder, 1)
    assert log is not None
    assert log.title == "The last line of the log of the container base"
    assert len(log.lines[0]) < MAX_LINE_LENGTH + 100


def test_a_log_that_is_not_there_is_stated(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    assert log_of(folder, 1) is None, "a run of an older version"
    write_logs(folder, [ContainerLog(1, "base", Role.WORKLOAD, note="the pod was deleted")])
    assert log_of(folder, 1) == Log("The log", (), "There is no log of the container base: the pod was deleted")
    save(folder, "")
    assert log_of(folder, 1) == Log("The log of the container base", (), "it is empty")


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["torch.cuda.OutOfMemoryError: CUDA out of memory."], "torch.cuda.OutOfMemoryError: CUDA out of memory."),
        (["ValueError: a", "step 1"], "ValueError: a"),
        (["KeyError: 1", "During handling of it:", "RuntimeError: 2"], "RuntimeError: 2"),
        (["KeyboardInterrupt"], "KeyboardInterrupt"),
        (["the Error was: none", "loss 1.0"], ""),
        (["a." * 5000 + "Error"], ""),
        ([], ""),
    ],
)
def test_the_last_error_is_found(lines: list[str], error: str) -> None:
    assert error_in(lines) == error


def test_the_mail_names_error_limit_and_peak() -> None:
    folder = simulate(1, failed(JobStatus.FAILURE, "OOMKilled"))
    workload = folder.read_workload()
    assert workload is not None
    folder.write_workload(replace(workload, memory_limit="2Gi", peak_memory_bytes=2**31 - 2**20))
    save(folder, TRACEBACK)
    state = RunState(folder)
    report = report_of(
        TEST, run_of(1), state, MessageKind.BROKEN, problems_of(state).urgent, warehouse=None, dashboard_url="http://x"
    )
    (problem,) = report.problems
    assert problem.short == "out of memory (limit 2Gi, highest measured 2Gi)"
    assert problem.sentence == "The job ran out of memory: limit 2Gi, highest measured 2Gi"
    assert problem.log is not None
    assert problem.log.lines[-1] == "ModuleNotFoundError: No module named 'no_such_module'"
    assert Fact("job status", "failure (OOMKilled)") in report.facts
    without_log = report_of(
        TEST,
        run_of(1),
        state,
        MessageKind.BROKEN,
        problems_of(state).urgent,
        warehouse=None,
        dashboard_url="http://x",
        log_lines=0,
    )
    assert without_log.problems[0].log is None
    assert without_log.problems[0].short == problem.short


def test_a_crash_is_named_by_the_error_that_its_log_ends_with() -> None:
    folder = simulate(1, failed(JobStatus.FAILURE, "ExitCode:1"))
    save(folder, TRACEBACK)
    state = RunState(folder)
    report = report_of(
        TEST, run_of(1), state, MessageKind.BROKEN, problems_of(state).urgent, warehouse=None, dashboard_url="http://x"
    )
    (problem,) = report.problems
    assert problem.short == problem.sentence == "ModuleNotFoundError: No module named 'no_such_module'"
    assert Fact("job status", "failure (ExitCode:1)") in report.facts
