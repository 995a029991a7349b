"""What a metric, a job's time or several tests look like: Vega-Lite specs, the same for the browser and for mail.

`metric_chart(...)` gives a spec, which is a plain JSON document; `as_png(spec)` draws it without a browser.
"""

from ml_metrics.charts.metric import metric_chart
from ml_metrics.charts.picture import as_png, as_svg
from ml_metrics.charts.points import Annotation, Axis, Plotted

__all__ = ["Annotation", "Axis", "Plotted", "as_png", "as_svg", "metric_chart"]
