from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ml_metrics.alerts.job import advice_on, error_in, job_facts, job_words, log_of
from ml_metrics.alerts.message import Log, MessageKind
from ml_metrics.alerts.problems import problems_of
from ml_metrics.alerts.report import report_of
from ml_metrics.core.model import JobStatus, Metric, Workload
from ml_metrics.measure import Collected, ContainerLog, Role, write_logs
from ml_metrics.measure.logs import FOLDER
from ml_metrics.pipeline import RunState
from ml_metrics.store.documents import DOCUMENTS
from ml_metrics.store.run_folder import RunFolder
from simulated_runs import TEST, failed, run_of, simulate

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ERROR = "ModuleNotFoundError: No module named 'flax'"
PULL = 'Back-off pulling image "mnist:v42". It will be tried again.'
NO_NODE = "0/3 nodes are available: 3 Insufficient cpu."


def workload(status: JobStatus, reason: str, detail: str | None = None, limit: str | None = None) -> Workload:
    peak = 2**31 - 2**20 if limit else None
    ended = NOON + timedelta(hours=2)
    return Workload(status, reason, detail, started_at=NOON, ended_at=ended, memory_limit=limit, peak_memory_bytes=peak)


@pytest.mark.parametrize(
    ("found", "error", "short", "headline"),
    [
        (workload(JobStatus.FAILURE, "ExitCode:1"), ERROR, ERROR, ERROR),
        (workload(JobStatus.FAILURE, "ExitCode:3"), "", "exit code 3", "exit code 3"),
        (
            workload(JobStatus.FAILURE, "OOMKilled", limit="2Gi"),
            "",
            "out of memory (limit 2Gi, highest measured 2Gi)",
            "out of memory (limit 2Gi, highest measured 2Gi)",
        ),
        (
            workload(JobStatus.TIMEOUT, "DeadlineExceeded"),
            "",
            "stopped after 2 h by its timeout",
            "stopped after 2 h by its timeout",
        ),
        (
            workload(JobStatus.MISSED, "ImagePullBackOff", PULL),
            "",
            "never started: the image cannot be pulled",
            'The job never started: the image cannot be pulled: Back-off pulling image "mnist:v42"',
        ),
        (
            workload(JobStatus.MISSED, "Unschedulable", NO_NODE),
            "",
            "never started: no node fits",
            "The job never started: no node fits: 0/3 nodes are available: 3 Insufficient cpu",
        ),
        (
            workload(JobStatus.FAILURE, "Evicted", "The node was low on resource: memory."),
            "",
            "job failure (Evicted)",
            "The job failed: Evicted: The node was low on resource: memory",
        ),
    ],
)
def test_a_failed_job_has_a_headline(found: Workload, error: str, short: str, headline: str) -> None:
    assert job_words(found, error) == (short, headline)


def test_the_cluster_has_the_last_word_unless_it_is_in_the_headline() -> None:
    found = workload(JobStatus.MISSED, "ImagePullBackOff", PULL)
    facts = [(one.name, one.value) for one in job_facts(found, job_words(found, "")[1])]
    assert facts == [("reason", "ImagePullBackOff"), ("the cluster", PULL)]
    full = workload(JobStatus.MISSED, "Unschedulable", NO_NODE)
    assert [one.name for one in job_facts(full, job_words(full, "")[1])] == ["reason"]


def advice(folder: Path, problem: str, workload: Workload, *tags: str) -> str:
    run = RunFolder(str(folder))
    run.write_workload(workload)
    run.write("metrics", Collected(tuple(Metric(tag, 1.0, tag, "final") for tag in tags)).document())
    return advice_on(problem, RunState(run), problem.partition(":")[2])


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (Workload(JobStatus.FAILURE, "OOMKilled", memory_limit="2Gi"), "Raise the memory limit"),
        (Workload(JobStatus.MISSED, "ImagePullBackOff", image="mnist:v42"), "Check that the image mnist:v42 exists"),
        (Workload(JobStatus.MISSED, "Unschedulable"), "free nodes"),
        (Workload(JobStatus.MISSED, "QuotaExceeded"), "quota"),
        (Workload(JobStatus.TIMEOUT, "DeadlineExceeded"), "raise timeout"),
        (Workload(JobStatus.MISSED, "PodRejected"), "never ran"),
    ],
)
def test_what_to_do_depends_on_how_the_job_ended(tmp_path: Path, workload: Workload, words: str) -> None:
    assert words in advice(tmp_path, "job_status:", workload)


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        ("task:load_history", "Read the log of task load_history in Airflow: the workload may be fine."),
        ("implausible:loss", "Check what was measured: a value this good is often a run that did less work."),
        ("out_of_bounds:loss", ""),
    ],
)
def test_what_to_do_where_the_job_ended_well(tmp_path: Path, problem: str, expected: str) -> None:
    assert advice(tmp_path, problem, Workload(JobStatus.SUCCESS)) == expected


def test_the_tags_with_the_nearest_names_are_named(tmp_path: Path) -> None:
    fine = Workload(JobStatus.SUCCESS)
    near = advice(tmp_path, "missing:accuracy_final", fine, "accuracy_fnal", "loss_final")
    assert near.startswith("Check whether it was renamed: the run wrote accuracy_fnal")
    assert "the run wrote 1 tag, none with a similar name." in advice(tmp_path, "missing:accuracy_final", fine, "zzz")
    assert "no metrics at all" in advice(tmp_path, "missing:accuracy_final", fine)


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
    report, without_log = (
        report_of(TEST, run_of(1), state, MessageKind.BROKEN, problems_of(state).urgent, warehouse=None,
                  dashboard_url="http://x", log_lines=lines)
        for lines in (20, 0)
    )  # fmt: skip
    (problem,) = report.problems
    assert problem.short == problem.sentence == "out of memory (limit 2Gi, highest measured 2Gi)"
    assert problem.log is not None
    assert problem.log.lines[-1] == "ModuleNotFoundError: No module named 'no_such_module'"
    assert [fact.name for fact in report.facts if not fact.link] == ["owner", "run"]
    assert (without_log.problems[0].log, without_log.problems[0].short) == (None, problem.short)
