from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ml_metrics import TestDefinition
from ml_metrics.core.model import Run
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store.run_folder import RunFolder
from servers.google_cloud import Logging, Monitoring
from unit.measure.cloud.test_cloud_logging import ENTRIES, theirs, write
from unit.measure.cloud.test_cloud_monitoring import read_back

RUN = Run("resnet", "resnet", "manual__1", "local")


def measured(tmp_path: Path, goodput: dict[str, Any]) -> dict[str, Any]:
    file = {"framework": "jax", "model": "resnet", "accelerator": "v5litepod-16", "image": "image", "command": ["run"]}
    test = TestDefinition.model_validate({**file, "name": "resnet", "goodput": goodput})
    folder = RunFolder.of(RUN, str(tmp_path))
    folder.write(
        "run",
        {
            **{name: getattr(RUN, name) for name in RUN.__slots__},
            "test_file": test.model_dump(mode="json", exclude_unset=True),
        },
    )
    steps.measure_goodput(test, RunState(folder))
    document = folder.read("goodput")
    assert document is not None
    return document


def test_a_test_reads_from_one_service_and_sends_to_the_other(
    tmp_path: Path, logging_service: Logging, monitoring: Monitoring
) -> None:
    entries = [{**entry, "job_name": RUN.job_name} for entry in ENTRIES]
    log = f"goodput_{RUN.job_name}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unit.measure.cloud.test_cloud_logging.LOG", log)
        write(logging_service, entries, datetime.now(UTC))
    document = measured(
        tmp_path,
        {
            "cloud_logging": {"project_id": "project"},
            "gcp_options": {"project_id": "project", "location": "us-central1-a"},
            "rolling_windows": ["30s"],
        },
    )
    assert document["goodput_percent"] == pytest.approx(theirs(ENTRIES))
    assert document["warnings"] == []
    assert {"name": "goodput", "value": document["goodput_percent"]}.items() <= document["metrics"][0].items()
    (productive,) = [value for key, value in read_back().items() if key[0] == "goodput_time"]
    assert productive == pytest.approx(document["productive_seconds"])
    (labels,) = [dict(key[2]) for key in read_back() if key[0] == "interval_goodput"]
    assert labels == {
        "accelerator_type": "v5litepod-16",
        "goodput_source": "TOTAL",
        "location": "us-central1-a",
        "replica_id": "0",
        "rolling_window_size": "30",
        "workload_id": RUN.job_name,
    }
    assert monitoring.requests == 1


def test_an_error_while_sending_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONITORING_EMULATOR_HOST", "127.0.0.1:1")
    monkeypatch.setattr("ml_metrics.measure.cloud.monitoring.TIMEOUT_SECONDS", 0.5)
    lines = ['{"job_name": "job", "job_start_time": 1}', '{"job_name": "job", "job_end_time": 2}']
    log = Path(RunFolder.of(RUN, str(tmp_path)).path, "goodput.jsonl")
    log.parent.mkdir(parents=True)
    log.write_text("\n".join(lines))
    document = measured(tmp_path, {"gcp_options": {"project_id": "project", "location": "us-central1-a"}})
    assert document["found"]
    assert "not sent: Cloud Monitoring of project project" in document["warnings"][-1]
