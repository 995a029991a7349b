"""Charts of a metric, of a job's time and of several tests, as Vega-Lite specs for the browser and for mail.

A spec such as `metric_chart(...)` is a plain JSON document. `as_png(spec)` renders it without a browser.
"""

from ml_metrics.charts.axis import Axis
from ml_metrics.charts.comparison import comparison_chart
from ml_metrics.charts.curve import curve_chart
from ml_metrics.charts.goodput import PRODUCTIVE, goodput_chart
from ml_metrics.charts.hosts import host_chart
from ml_metrics.charts.mail import mail_chart
from ml_metrics.charts.metric import Annotation, metric_chart
from ml_metrics.charts.render import as_png, as_svg

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
