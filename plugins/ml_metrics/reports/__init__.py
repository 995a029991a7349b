"""Builds the report about a run from its run folder and the warehouse."""

from ml_metrics.reports.problems import GATE, OVERDUE, Problems, metric_of, problems_of, short_name
from ml_metrics.reports.report import minimal_report, report_of

__all__ = ["GATE", "OVERDUE", "Problems", "metric_of", "minimal_report", "problems_of", "report_of", "short_name"]
