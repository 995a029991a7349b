"""One run whose tasks are repeated, and that ends differently each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_metrics.core.model import JobStatus, Run
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import Incident
from unit.alerts.many_tests import Tests

RUN = Run("t", "t", "run 1", "local")
IMAGE, EXIT_3 = (JobStatus.MISSED, "ImagePullBackOff"), (JobStatus.FAILURE, "ExitCode:3")
PASSES = (JobStatus.SUCCESS, None)


def end(tests: Tests, how: tuple[JobStatus, str | None], *, torn: bool = False) -> None:
    """Let the run end, and notify about it twice, as a gate that was tried again."""
    status, reason = how
    folder = RunFolder.of(RUN, str(tests.root))
    tests.end(folder, status=status, failure_reason=reason)
    if torn:
        Path(folder.document_path("gate")).write_text("{ torn")
    for _ in range(2):
        tests.notify(RUN, folder)


def incident(tests: Tests) -> Incident | None:
    return tests.warehouse.incidents.find_open("t")


def test_every_further_problem_of_one_run_is_reported_once(tests: Tests) -> None:
    for how in (IMAGE, EXIT_3, (JobStatus.FAILURE, "OOMKilled"), EXIT_3, IMAGE):
        end(tests, how)
    assert [subject.split(":")[0] for subject in tests.sent.subjects] == ["t failed", "t got worse", "t got worse"]
    found = incident(tests)
    assert found is not None
    assert set(found.reported) == {
        "job_status:missed/ImagePullBackOff",
        "job_status:failure/ExitCode:3",
        "job_status:failure/OOMKilled",
    }


@pytest.mark.parametrize(
    ("how", "subject"), [(PASSES, "t recovered: the run passes again"), (EXIT_3, "t got worse: exit code 3")]
)
def test_documents_that_are_healed_are_reported(tests: Tests, how: tuple[JobStatus, str | None], subject: str) -> None:
    end(tests, how, torn=True)
    end(tests, how)
    assert tests.sent.subjects == ["t failed: its documents cannot be read", subject]
    assert (incident(tests) is None) == (how is PASSES)


def test_an_incident_of_an_older_version_covers_every_reason_of_the_job(tests: Tests) -> None:
    tests.warehouse.incidents.report("t", "earlier", fingerprint="f", reasons=["job_status:"])
    end(tests, EXIT_3)
    assert tests.sent.subjects == []
