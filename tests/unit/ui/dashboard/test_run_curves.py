"""The curves within runs, the bar of their time, and their files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.core.model import JobStatus, StoredMetric
from ml_metrics.ui.dashboard.one_run import thinned, time_bar
from ml_metrics.warehouse import Warehouse
from unit.measure.events.event_files import event, simple, write
from unit.ui.dashboard.sample_runs import FAILING, SHIFTED, STEADY, TODAY, Rights, recorded, run_of

KEY, GOOD = run_of(SHIFTED, 0).key, run_of(SHIFTED, 4).key


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run folders of a bad run, with a subfolder and a peak, and of a good one."""
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", f"{tmp_path}/runs")
    folder = tmp_path / "runs" / SHIFTED
    for key, level in ((KEY, 2.0), (GOOD, 1.0)):
        (folder / key / "train").mkdir(parents=True)
        values = [(step, 99.0 if step == 777 and key == KEY else level) for step in range(3000)]
        write(folder / key, *(event(step, simple("loss", value)) for step, value in values))
        write(folder / key / "train", event(1, simple("rate", 5.0)), event(2, simple("rate", math.nan)))
    return folder


def test_curves_of_two_runs_are_read_from_their_event_files(shown: TestClient, folders: Path) -> None:
    assert f'data-curves="curves?run={KEY}' in shown.get(f"/run?run={KEY}").text
    text = shown.get(f"/run?run={KEY}").text
    assert f'<option value="{GOOD}" selected>' in text, "the good run before"
    assert f'data-curves="curves?run={KEY}&amp;with={GOOD}' in text
    assert len(shown.get(f"/curves?run={KEY}&with=none").json()["charts"][0]["datasets"]["values"]) < 1050
    found = shown.get(f"/curves?run={KEY}&with={GOOD}").json()
    assert found["tags"] == ["loss", "train/rate"]
    assert found["notes"] == []
    values = found["charts"][0]["datasets"]["values"]
    assert len({one["line"] for one in values}) == 2
    assert len(values) < 2100, "6,000 points are thinned"
    assert [one["step"] for one in values if one["value"] == 99.0] == [777], "the peak is kept"
    (rate,) = found["charts"][1]["datasets"]["values"][:1]
    assert (rate["step"], rate["value"]) == (1, 5.0)
    assert [one["id"] for one in shown.get(f"/curves?run={KEY}&tag=RATE").json()["charts"]] == ["train/rate"]
    assert folders.is_dir()


def test_what_of_curves_cannot_be_read_is_stated(
    as_user: Callable[..., TestClient], filled: Warehouse, folders: Path
) -> None:
    assert filled.runs.get(KEY)
    (folders / KEY / "events.out.tfevents.9").symlink_to("/etc/passwd")
    user = as_user()
    assert user.get(f"/curves?run={KEY}").json()["tags"] == ["loss", "train/rate"], "a link is not followed"
    without = user.get(f"/curves?run={run_of(STEADY, 0).key}").json()
    assert "has no event files" in without["notes"][0]
    assert "data-curves" not in user.get(f"/run?run={run_of(STEADY, 0).key}").text
    assert user.get(f"/curves?run={KEY}&with={KEY}").status_code == 400
    reader = as_user(Rights(frozenset({SHIFTED})))
    answer = reader.get(f"/curves?run={KEY}&with={run_of(FAILING, 0).key}")
    assert (answer.status_code, list(answer.json())) == (403, ["error"])


@given(st.lists(st.tuples(st.integers(-(2**62), 2**62), st.floats()), max_size=60))
@settings(max_examples=50)
def test_a_thinned_curve_keeps_its_ends_and_extremes(points: list[tuple[int, float]]) -> None:
    kept = thinned([step for step, _ in points], [value for _, value in points], buckets=4)
    finite = sorted(point for point in points if math.isfinite(point[1]))
    assert len(kept) <= max(8, 2 * 4 + 2)
    assert set(kept) <= set(finite)
    if finite:
        assert (kept[0], kept[-1]) == (finite[0], finite[-1])
        for extreme in (min, max):
            assert extreme(value for _, value in kept) == extreme(value for _, value in finite)


@pytest.mark.parametrize(
    ("percent", "kinds"),
    [
        ({"goodput": 60.0, "badput_stall_percent": 30.0}, ["productive", "stall", "not measured"]),
        (
            {"goodput": 60.0, "badput_stall_percent": 10.0, "badput_other_percent": 30.0},
            ["productive", "stall", "other"],
        ),
        ({"goodput": 90.0, "badput_stall_percent": 90.0, "badput_idle_percent": -5.0}, ["productive", "stall"]),
        ({"badput_stall_percent": 30.0}, []),
        ({}, []),
    ],
)
def test_the_parts_of_the_time_sum_to_100_percent_and_neighbours_differ(
    percent: dict[str, float], kinds: list[str]
) -> None:
    rows = [StoredMetric("run", TODAY, name, value, JobStatus.SUCCESS, None) for name, value in percent.items()]
    parts = time_bar(rows)
    assert [part.kind for part in parts] == kinds
    assert sum(part.percent for part in parts) == pytest.approx(100 if kinds else 0)
    assert all(a.pattern != b.pattern and a.colour != b.colour for a, b in pairwise(parts))


def test_failing_metrics_come_first_with_a_letter(browser: TestClient, warehouse: Warehouse) -> None:
    run = recorded("t", 0, 99.0, metric="z_final", more={"a_final": 1.0, "goodput": 80.0, "badput_stall_percent": 20.0})
    warehouse.load(run)
    text = browser.get(f"/run?run={run.key}").text
    names = re.findall(r'<th scope="row">(\w+)( <b class="f">M</b>)?</th>', text)
    assert names == [("z_final", ' <b class="f">M</b>'), ("a_final", ""), ("badput_stall_percent", ""), ("goodput", "")]
    assert 'aria-label="productive 80.0 %, stall 20.0 %"' in text


def test_files_are_opened_from_the_listing_and_nothing_in_them_runs(shown: TestClient, folders: Path) -> None:
    (folders / KEY / "a b.html").write_text("<script>alert(1)</script>")
    (folders / KEY / "weights.bin").write_bytes(b"\x00\xff")
    (folders / KEY / "link.txt").symlink_to("/etc/passwd")
    assert f"file?run={KEY}&amp;name=a%20b.html" in shown.get(f"/run?run={KEY}").text
    answer = shown.get(f"/file?run={KEY}&name=a%20b.html")
    assert answer.text == "<script>alert(1)</script>"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    binary = shown.get(f"/file?run={KEY}&name=weights.bin")
    assert (binary.content, binary.headers["content-disposition"]) == (b"\x00\xff", "attachment")
    for name in ("link.txt", "../" + GOOD + "/train", "/etc/passwd", "none"):
        assert shown.get(f"/file?run={KEY}&name={name}").status_code == 404, name
