"""The recorder that AXLearn loads by `--recorder_type`, called as AXLearn's trainer calls it."""

from __future__ import annotations

import importlib
import sys
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ml_metrics.measure.goodput import measure


class EventType(Enum):
    """As in axlearn.common.measurement."""

    JOB = "job"
    STEP = "step"
    ACCELERATOR_INIT = "tpu_init"
    TRAINING_PREPARATION = "training_preparation"
    DATA_LOADING = "data_loading"
    CUSTOM_BADPUT_EVENT = "custom_badput_event"


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Any:
    registered: dict[str, Any] = {}
    measurement = ModuleType("axlearn.common.measurement")
    measurement.register_recorder = lambda name: lambda cls: registered.setdefault(name, cls)  # type: ignore[attr-defined]
    common = ModuleType("axlearn.common")
    common.measurement = measurement  # type: ignore[attr-defined]
    for module in (ModuleType("axlearn"), common, measurement):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delitem(sys.modules, "ml_metrics_telemetry.axlearn", raising=False)
    importlib.import_module("ml_metrics_telemetry.axlearn")
    return registered["ml_metrics"]


def flags(*spec: str) -> SimpleNamespace:
    return SimpleNamespace(recorder_spec=list(spec))


def test_events_of_a_trainer_become_goodput(recorder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ML_METRICS_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("JOB_NAME", "my-test")
    one = recorder.from_flags(flags("name=fuji", "upload_interval=30"))
    with one.record_event(EventType.JOB), one.maybe_monitor_all():
        for event in (EventType.ACCELERATOR_INIT, EventType.TRAINING_PREPARATION, EventType.DATA_LOADING):
            with one.record_event(event):
                pass
        for step in range(20):
            with one.record_event(EventType.STEP, step):
                pass
            if step % 5 == 4:
                with one.record_event(EventType.CUSTOM_BADPUT_EVENT, custom_badput_event_type="EVAL_STEP"):
                    pass
    report = measure(str(tmp_path))
    assert report.job_name == "my-test"
    assert (report.ended, report.max_productive_step) == (True, 19)
    assert set(report.custom_badput_seconds) == {"EVAL_STEP"}
    assert not [warning for warning in report.warnings if "left out" in warning]


def test_events_of_older_versions(recorder: Any, tmp_path: Path) -> None:
    one = recorder.from_flags(flags("name=fuji", f"upload_dir={tmp_path}"))
    names = [f"{when}_{what}" for what in ("ACCELERATOR_INIT", "TRAINING_PREPARATION") for when in ("START", "END")]
    for name in ("START_JOB", *names):
        one.record(SimpleNamespace(value=name))
    for step in range(3):
        one.record(SimpleNamespace(value="START_STEP"), step)
    one.record(SimpleNamespace(value="END_JOB"))
    report = measure(str(tmp_path))
    assert (report.job_name, report.ended, report.max_productive_step) == ("fuji", True, 2)


@pytest.mark.parametrize("spec", ["nme=fuji", "name"])
def test_a_wrong_spec_names_the_keys(recorder: Any, spec: str) -> None:
    with pytest.raises(
        ValueError, match=f"--recorder_spec={spec}: write key=value, with one of the keys name, upload_dir"
    ):
        recorder.from_flags(flags(spec))
