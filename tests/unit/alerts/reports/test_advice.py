from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ml_metrics.alerts.job import advice_on
from ml_metrics.core.model import JobStatus, Metric, Workload
from ml_metrics.measure import Collected
from ml_metrics.pipeline import RunState
from ml_metrics.store.run_folder import RunFolder

if TYPE_CHECKING:
    from pathlib import Path


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


def test_the_tags_with_the_nearest_names_are_named(tmp_path: Path) -> None:
    fine = Workload(JobStatus.SUCCESS)
    near = advice(tmp_path, "missing:accuracy_final", fine, "accuracy_fnal", "loss_final")
    assert near.startswith("Check whether it was renamed: the run wrote accuracy_fnal")
    assert "none of the 1 tags" in advice(tmp_path, "missing:accuracy_final", fine, "zzz")
    assert "no metrics at all" in advice(tmp_path, "missing:accuracy_final", fine)
