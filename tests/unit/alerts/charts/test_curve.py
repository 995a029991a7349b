"""The chart of a curve over its envelope."""

from __future__ import annotations

from ml_metrics.alerts.charts import as_svg, curve_chart
from ml_metrics.core.model import CurveBand, TagCurve

CURVE = TagCurve("loss", (0, 10, 20, 30), (5.0, 4.0, 9.0, 1e-300))
BAND = CurveBand((10, 20, 30), (3.0, 2.0, -1.0), (5.0, 3.0, 1.0))


def test_points_outside_the_envelope_are_marked() -> None:
    spec = curve_chart(CURVE, BAND)
    assert [row["place"] for row in spec["datasets"]["values"]] == ["not judged", "inside", "outside", "inside"]
    assert len(spec["datasets"]["band"]) == 3
    assert as_svg({**spec, "width": 300}).count('aria-roledescription="point"') == 4


def test_a_curve_without_an_envelope_is_drawn() -> None:
    assert "<svg" in as_svg({**curve_chart(CURVE), "width": 300})
    assert "<svg" in as_svg({**curve_chart(TagCurve("loss", (), ())), "width": 300})
