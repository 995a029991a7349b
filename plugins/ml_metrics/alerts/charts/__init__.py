"""Charts of a metric, of the time of a job and of several tests, as Vega-Lite specs for the browser and for mail.

A spec such as `metric_chart(...)` is a plain JSON document. `as_png(spec)` renders it without a browser.
"""

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import on_first_use

if TYPE_CHECKING:
    from ml_metrics.alerts.charts.frame import Axis, as_svg, theme
    from ml_metrics.alerts.charts.metric import Annotation, comparison_chart, metric_chart
    from ml_metrics.alerts.charts.run import (
        CUSTOM,
        OTHER,
        PRODUCTIVE,
        colours_of,
        curve_chart,
        goodput_chart,
        host_chart,
        run_curves_chart,
        sweep_chart,
        with_flags,
    )

__getattr__ = on_first_use(__name__)
