"""The public names of `ml_metrics_telemetry`, under the name that they had in this package."""

from ml_metrics_telemetry import *  # noqa: F403  (the same objects: what is public there is public here)
