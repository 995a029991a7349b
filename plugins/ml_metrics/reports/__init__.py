"""From a run folder and the warehouse to what a message tells about the run."""

from ml_metrics.reports.report import Plain, plain_report, report_of
from ml_metrics.reports.troubles import Troubles, named, troubles_of

__all__ = ["Plain", "Troubles", "named", "plain_report", "report_of", "troubles_of"]
