"""Each integration with the real library, on CPU: a tiny model is trained, and our calculator reads what was recorded.

The libraries are in an environment of their own (`make campaign NAME=integrations`), which has nothing of ML
Metrics but the package of telemetry.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import ml_metrics
from ml_metrics.measure.goodput import GoodputReport, measure

PYTHON = os.environ.get("ML_METRICS_INTEGRATIONS_PYTHON", "")
PROGRAMS = Path(__file__).parent / "programs"
SOURCE = Path(__file__).parents[2] / "packages" / "telemetry" / "src"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not PYTHON, reason="jax, keras and others are not here: `make campaign NAME=integrations`"),
]
Train = Callable[..., GoodputReport]


@pytest.fixture
def train(tmp_path: Path) -> Train:
    def train(program: str, *arguments: str) -> GoodputReport:
        done = subprocess.run(
            [PYTHON, "-W", "ignore", str(PROGRAMS / f"{program}.py"), *arguments],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "PYTHONPATH": str(SOURCE),
                "JOB_NAME": "job",
                "ML_METRICS_RUN_DIR": str(tmp_path),
                "HF_HUB_OFFLINE": "1",
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert "ml_metrics_telemetry" not in done.stderr, done.stderr[-3000:]  # a hook that failed is logged
        return measure(str(tmp_path))

    return train


def scalars(folder: Path) -> dict[str, int]:
    """Return how many points each tag has."""
    return {series.tag: len(series) for series in ml_metrics.read_events(folder).series}


def check(report: GoodputReport, last_step: int, *buckets: str) -> None:
    """A whole job without a fault, some of whose time is in each of these buckets."""
    assert (report.found, report.ended, report.disruptions, report.last_step) == (True, True, 0, last_step)
    assert report.warnings == ()
    assert report.productive_seconds > 0
    spent = {**report.badput_seconds, **report.custom_badput_seconds}
    assert {name for name in buckets if spent.get(name, 0) <= 0} == set()


SAVES, RESTORES = "unproductive_checkpoint_save_time", "unproductive_checkpoint_restore_time"


def test_a_plain_loop(train: Train, tmp_path: Path) -> None:
    report = train("plain_loop")
    check(report, 16, "training_prep", "data_loading_sync", SAVES, RESTORES, "EVAL")
    assert report.badput_seconds[SAVES] >= 0.04
    assert scalars(tmp_path) == {"loss": 12}


def test_jax_with_flax_and_orbax(train: Train, tmp_path: Path) -> None:
    check(train("jax_flax"), 11, "training_prep", "program_startup", SAVES, RESTORES)
    assert scalars(tmp_path) == {"loss": 12}


def test_keras(train: Train, tmp_path: Path) -> None:
    check(train("keras_fit"), 23, "training_prep", "program_startup", SAVES, "EVAL")
    assert scalars(tmp_path) == dict.fromkeys(("epoch_loss", "epoch_mae", "epoch_val_loss", "epoch_val_mae"), 4)


def test_lightning_and_its_restart_from_a_checkpoint(train: Train, tmp_path: Path) -> None:
    check(train("lightning_fit", "2"), 11, "training_prep", "data_loading_sync", SAVES, "EVAL")
    assert scalars(tmp_path) == {"train_loss": 4, "val_loss": 2}
    report = train("lightning_fit", "4", "from the checkpoint")
    assert (report.ended, report.last_step, report.disruptions) == (True, 23, 1)
    assert report.warnings == ("the job was started again after it had ended; the time in between counts",)
    assert report.badput_seconds[RESTORES] > 0
    assert report.badput_seconds["wasted_progress_from_disruption"] == 0


def test_the_trainer_of_hugging_face(train: Train, tmp_path: Path) -> None:
    check(train("huggingface_trainer"), 11, "training_prep", "data_loading_sync", SAVES, "EVAL")
    found = scalars(tmp_path)
    assert (found["train/loss"], found["eval/loss"]) == (4, 3)


def test_a_config_as_maxtext_has_it(train: Train, tmp_path: Path) -> None:
    report = train("maxtext_loop")
    check(report, 11, "program_startup", SAVES)
    assert report.job_name == "job", "ML Metrics reads the entries of the job that the pod's JOB_NAME names"
    assert scalars(tmp_path / "out" / "llama-tiny" / "tensorboard") == {"learning/loss": 12}
