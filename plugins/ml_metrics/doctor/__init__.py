"""What is wrong with this installation, and what to do about it."""

from ml_metrics.doctor.check import Check
from ml_metrics.doctor.diagnosis import diagnose

__all__ = ["Check", "diagnose"]
