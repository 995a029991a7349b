"""Tables, numbers and curves on a terminal."""

from __future__ import annotations

import pytest

from ml_metrics.ui.cli.output import cut, sparkline, table


def test_a_curve() -> None:
    assert sparkline([1, 2, 3, 4, 5, 6, 7, 8], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([1, None, float("nan"), 8], 80) == "▁··█"
    assert sparkline([5, 5], 80) == "▅▅"
    assert sparkline([-1e308, 1e308], 80) == "▁█"
    assert sparkline([1, 2, 3], 2) == "▁█"
    assert sparkline([None], 80) == "·"


def test_a_long_name_is_cut_in_its_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cut("abcdefghij", 5) == "ab…ij"
    assert len(cut("x" * 100, 46)) == 46
    lines = table(("name", "value"), [("n" * 200, "1"), ("short", "2")], right=(1,)).splitlines()
    assert {len(line) for line in lines} == {80}
    for terminal, expected in (("20", 80), ("120", 120)):
        monkeypatch.setenv("COLUMNS", terminal)
        lines = table(("name", "value"), [("n" * 200, "1"), ("short", "2")], right=(1,)).splitlines()
        assert {len(line) for line in lines} == {expected}
