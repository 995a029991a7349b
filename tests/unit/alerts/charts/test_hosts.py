"""The chart of hosts by steps."""

from __future__ import annotations

from ml_metrics.alerts.charts import as_svg, curve_chart, host_chart, run_curves_chart, with_flags
from ml_metrics.core.model import TagCurve


def test_every_cell_is_drawn() -> None:
    spec = host_chart(["a", "a"], [0, 10, 20], [[0, 1, 2], [0, 80, -3]])
    assert len(spec["datasets"]["cells"]) == 6
    assert spec["encoding"]["color"]["scale"]["domain"] == [-50, 0, 50]
    assert as_svg({**spec, "width": 300}).count('aria-roledescription="rect mark"') == 6


def test_what_was_done_to_a_run_is_a_flag_at_its_step() -> None:
    flags = [(0, "kill"), (14, "freeze(30s)")]
    charts = [
        host_chart(["a"], [0, 10, 20], [[0, 1, 2]]),
        curve_chart(TagCurve("loss", (0, 10, 20), (3.0, 2.0, 1.0))),
        run_curves_chart({"this": [(0, 3.0), (20, 1.0)]}),
    ]
    steps = []
    for chart in charts:
        flagged = with_flags(chart, flags)
        assert as_svg({**flagged, "width": 300}).count('aria-roledescription="rule mark"') == 2
        steps.append([one["step"] for one in flagged["datasets"]["flags"]])
        assert with_flags(chart, []) == chart
    assert steps == [[0, 10], [0, 14], [0, 14]]  # of hosts, at the column that has the step


def test_without_hosts() -> None:
    assert "<svg" in as_svg({**host_chart([], [], []), "width": 300})
