"""Charts of a metric, of a job's time and of several tests, as Vega-Lite specs for the browser and for mail.

A spec such as `metric_chart(...)` is a plain JSON document. `as_png(spec)` renders it without a browser.
"""

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import imported_on_first_use

if TYPE_CHECKING:
    from ml_metrics.alerts.charts.frame import Axis, as_png, as_svg
    from ml_metrics.alerts.charts.metric import Annotation, comparison_chart, mail_chart, metric_chart
    from ml_metrics.alerts.charts.run import PRODUCTIVE, curve_chart, goodput_chart, host_chart


__all__ = [
    "PRODUCTIVE",
    "Annotation",
    "Axis",
    "as_png",
    "as_svg",
    "comparison_chart",
    "curve_chart",
    "goodput_chart",
    "host_chart",
    "mail_chart",
    "metric_chart",
]

_HOMES = {
    "Annotation": "ml_metrics.alerts.charts.metric",
    "Axis": "ml_metrics.alerts.charts.frame",
    "PRODUCTIVE": "ml_metrics.alerts.charts.run",
    "as_png": "ml_metrics.alerts.charts.frame",
    "as_svg": "ml_metrics.alerts.charts.frame",
    "comparison_chart": "ml_metrics.alerts.charts.metric",
    "curve_chart": "ml_metrics.alerts.charts.run",
    "goodput_chart": "ml_metrics.alerts.charts.run",
    "host_chart": "ml_metrics.alerts.charts.run",
    "mail_chart": "ml_metrics.alerts.charts.metric",
    "metric_chart": "ml_metrics.alerts.charts.metric",
}
__getattr__ = imported_on_first_use(__name__, _HOMES)
