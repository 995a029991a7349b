"""The chart of a curve over its envelope."""

from __future__ import annotations

from ml_metrics.alerts.charts import as_svg, curve_chart, sweep_chart
from ml_metrics.core.model import FAILED, CurveBand, Sweep, SweepPoint, TagCurve

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


def test_a_curve_over_a_load_is_drawn_over_the_range_of_those_before() -> None:
    before = [Sweep("ttft", "rate", (SweepPoint(1.0, y), SweepPoint(32.0, 3 * y)), "1/s", "ms") for y in (10.0, 14.0)]
    own = Sweep("ttft", "rate", (SweepPoint(1.0, 30.0), SweepPoint(16.0, 0.0, mark=FAILED)), "1/s", "ms", "lower")
    spec = sweep_chart(own, before)
    assert spec["datasets"]["values"] == [{"x": 1.0, "value": 30.0}], "a failed point is none"
    assert spec["datasets"]["band"] == [{"x": 1.0, "low": 10.0, "high": 14.0}, {"x": 32.0, "low": 30.0, "high": 42.0}]
    assert spec["layer"][1]["encoding"]["x"]["scale"]["type"] == "log"
    assert "<svg" in as_svg({**spec, "width": 300})
    assert "<svg" in as_svg({**sweep_chart(Sweep("</script>", "x", (SweepPoint(0.0, 1.0),)), []), "width": 300})
