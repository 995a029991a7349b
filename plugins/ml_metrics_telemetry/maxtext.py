"""Programs with a config as MaxText has it: `training = from_config(config)`."""

from __future__ import annotations

import os

from ml_metrics_telemetry.destinations import RUN_DIR
from ml_metrics_telemetry.recorder import GoodputRecorder
from ml_metrics_telemetry.training import Training

TYPE_CHECKING = False  # as type checkers know it
if TYPE_CHECKING:
    from typing import Any


def from_config(config: Any) -> Training:
    """Return the record of the job that a config describes. The config is a mapping, or has attributes.

    | key | effect |
    | --- | --- |
    | `goodput_job_name`, else `run_name` | the name of the job, unless `JOB_NAME` is set, as in a pod of ML Metrics |
    | `enable_goodput_recording` | `False`, MaxText's own default: nothing is recorded but scalars |
    | `tensorboard_dir` | the folder of scalars, else that below |
    | `base_output_directory` | scalars are written to `<base_output_directory>/<run_name>/tensorboard` |

    The goodput log is in the folder of the environment variable `ML_METRICS_RUN_DIR`, where ML Metrics reads it;
    without that variable, in `<base_output_directory>/<run_name>`.
    """
    run = str(_value(config, "run_name") or "training")
    name = os.environ.get("JOB_NAME") or str(_value(config, "goodput_job_name") or run)
    base = str(_value(config, "base_output_directory") or "").rstrip("/")
    output = f"{base}/{run}" if base else None
    folder = os.environ.get(RUN_DIR) or output
    enabled = _value(config, "enable_goodput_recording")
    recorder = GoodputRecorder(name, f"goodput_{name}", logging_enabled=enabled is not False, folder=folder)
    scalars = _value(config, "tensorboard_dir") or (f"{output}/tensorboard" if output else None)
    return Training(name, folder=folder, scalars=scalars, recorder=recorder)


def _value(config: Any, key: str) -> Any:
    """Return a value of a config, or None. A config of MaxText raises ValueError for a key that it does not have."""
    try:
        return config[key] if hasattr(type(config), "keys") else getattr(config, key)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
