"""The chart of hosts by steps."""

from __future__ import annotations

from ml_metrics.alerts.charts import as_svg, host_chart


def test_every_cell_is_drawn() -> None:
    spec = host_chart(["a", "a"], [0, 10, 20], [[0, 1, 2], [0, 80, -3]])
    assert len(spec["datasets"]["cells"]) == 6
    assert spec["encoding"]["color"]["scale"]["domain"] == [-50, 0, 50]
    assert as_svg({**spec, "width": 300}).count('aria-roledescription="rect mark"') == 6


def test_without_hosts() -> None:
    assert "<svg" in as_svg({**host_chart([], [], []), "width": 300})
