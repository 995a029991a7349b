"""From a run folder and the warehouse to what a message tells about the run."""

from ml_metrics.reports.report import overdue_report, report_of
from ml_metrics.reports.troubles import Troubles, troubles_of

__all__ = ["Troubles", "overdue_report", "report_of", "troubles_of"]
