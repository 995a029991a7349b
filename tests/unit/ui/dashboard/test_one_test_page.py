"""The page of one test."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from html import unescape

import pytest
from fastapi.testclient import TestClient

from ml_metrics.alerts.charts import metric_chart
from ml_metrics.core.model import JobStatus, Outcome, StoredMetric
from ml_metrics.ui.dashboard import one_test_page
from ml_metrics.ui.dashboard.links import FileLinks
from ml_metrics.ui.dashboard.one_test_page import charts_script, time_parts
from ml_metrics.ui.dashboard.page import Reader
from ml_metrics.warehouse import Warehouse
from unit.ui.dashboard.sample_runs import SHIFTED, TODAY, csv_rows, recorded, run_of


def test_an_annotation_names_the_change_of_the_level_and_of_the_image(shown: TestClient) -> None:
    document = shown.get(f"/test?test={SHIFTED}&format=json").json()
    (metric,) = document["metrics"]
    (level,) = metric["annotations"]
    assert "image: image:1 → image:2" in level["text"]
    assert [point["counts"] for point in metric["points"]] == [True] * 16 + [False] * 4
    text = shown.get(f"/test?test={SHIFTED}").text
    assert "condition: less than 11" in text
    assert ">1 min</td>" in text  # the time in the queue
    assert len(csv_rows(shown, f"/test?test={SHIFTED}&format=csv")) == 20


def test_the_pages_of_one_test_and_of_all_show_cause_and_cost_of_an_incident(
    shown: TestClient, filled: Warehouse
) -> None:
    cause, cost = "slow node, not change: <node-3>", "8.96 USD a week: 60 s more"
    assert "Cost:" not in shown.get(f"/test?test={SHIFTED}").text
    filled.incidents.report(SHIFTED, "a later run", fingerprint="y", reasons=["more"], cause=cause, cost=cost)
    text = shown.get(f"/test?test={SHIFTED}").text
    assert "Cause: slow node, not change: &lt;node-3&gt;." in text
    assert f"Cost: {cost}." in text
    title = "not acknowledged; slow node, not change: &lt;node-3&gt;; costs 8.96 USD a week"
    assert f'title="{title}"' in shown.get("/").text
    document = {one["test"]: one for one in shown.get("/?format=json").json()["tests"]}
    assert (document[SHIFTED]["cause"], document[SHIFTED]["cost"]) == (cause, cost)


def test_goodput_has_a_chart_and_a_table(browser: TestClient, warehouse: Warehouse) -> None:
    more = {"goodput": 90.0, "badput_idle_percent": 10.0, "badput_idle_seconds": 60.0, "badput_stall_percent": 0.0}
    warehouse.load(recorded("t", 0, more=more))
    text = browser.get("/test?test=t").text
    assert "Productive and lost time" in text
    (names,) = re.findall(r'data-metrics="([^"]*)"', text)
    assert json.loads(unescape(names)) == ["badput_idle_percent", "goodput"]
    assert "Always 0: 1 metric</summary>" in text
    table = browser.get("/test?test=t&view=time").text
    assert re.search(r"<th scope=\"col\">productive, %<th scope=\"col\">idle, %", table)
    assert re.search(r"</a><td>90<td>10\n", table)
    chart = browser.get("/charts?test=t&part=time&metric=goodput&metric=badput_idle_percent").json()
    assert [one["id"] for one in chart["charts"]] == ["time"]
    assert "chart-time" not in browser.get("/test?test=t&q=loss").text


def test_a_chart_names_the_pattern_that_its_metric_is_judged_by(browser: TestClient, warehouse: Warehouse) -> None:
    record = recorded("t", 0, more={"eval/a": 1.0, "eval/b": 2.0, "free": 3.0})
    keys = {"eval/a": "eval/*", "eval/b": "eval/*", "free": None}
    metrics = tuple(
        replace(one, condition=keys[one.metric], rule=keys[one.metric] and "less than 9") if one.metric in keys else one
        for one in record.metrics
    )
    warehouse.load(replace(record, metrics=metrics))
    text = browser.get("/test?test=t").text
    assert "condition <code>eval/*</code>: less than 9" in text


def test_a_table_behind_each_chart_has_every_value(shown: TestClient) -> None:
    (link,) = re.findall(r'data-values>.*?<a href="([^"]+)">', shown.get(f"/test?test={SHIFTED}").text)
    text = shown.get(f"/{unescape(link)}").text
    (table,) = re.findall(r'<details class="values" open>.*?</details>', text, re.DOTALL)
    rows = re.findall(r'<tr><td><a href="([^"]+)">([^<]+)</a><td>([^<]+)<td>([^<]+)<td>(\w+)<td>(\w+)', table)
    assert len(rows) == 20
    newest = (f"run?run={run_of(SHIFTED, 0).key}", f"{TODAY:%Y-%m-%d} 12:00", "14", "below 11", "fail", "no")
    assert rows[0] == newest
    assert rows[-1][2:] == ("10.1", "below 11", "pass", "yes")


def test_a_report_has_charts_and_tables_in_its_files_and_cuts_long_tables(
    filled: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_test_page, "MAX_TABLE_ROWS", 1)
    monkeypatch.setattr(one_test_page, "MIN_TABLE_ROWS", 5)
    page = one_test_page.page_of_test(filled, {"test": SHIFTED}, Reader(TODAY, FileLinks()))
    text = "".join(page.html(FileLinks(), may_change=False, csrf_token="", done=""))
    (table,) = re.findall(r'<details class="values">.*?</details>', text, re.DOTALL)
    assert table.count("<tr><td>") == 5
    assert "The newest 5 of 20 values" in table
    (charts,) = re.findall(r'<script type="application/json" id="charts">(.*?)</script>', text)
    assert [one["id"] for one in json.loads(charts)["charts"]] == ["chart-0"]
    assert "data-metric" not in text


def test_the_first_paint_has_no_values_and_each_chart_is_requested_by_name(shown: TestClient) -> None:
    text = shown.get(f"/test?test={SHIFTED}").text
    (charts,) = re.findall(r'<script type="application/json" id="charts"[^>]*>(.*?)</script>', text)
    assert json.loads(charts)["charts"] == []
    (address,) = re.findall(r'data-address="([^"]+)"', text)
    found = shown.get(f"/{unescape(address)}&metric=loss_final&metric=none").json()
    (chart,) = found["charts"]
    assert (chart["id"], len(chart["datasets"]["points"][0]["value"])) == ("loss_final", 20)
    assert "image: image:1 → image:2" in found["notes"]["loss_final"][0]
    assert shown.get(f"/charts?test={SHIFTED}").json() == {
        "error": "Bad request: metric is given 0 times; 1 to 60 are possible."
    }
    assert shown.get(f"/charts?test={SHIFTED}&since=soon&metric=loss_final").status_code == 400


def test_the_ribbon_has_each_run_and_what_changed_between_them(shown: TestClient, filled: Warehouse) -> None:
    filled.acceptances.add(run_of(SHIFTED, 2).key, "loss_final", reason="<larger>", by="vera")
    text = shown.get(f"/test?test={SHIFTED}").text
    (ribbon,) = re.findall(r'<section class="ribbon".*?</section>', text, re.DOTALL)
    marks = re.findall(r'<rect class="(\w)" x="([\d.]+)" y="(\d+)"', ribbon)
    assert [(name, y) for name, _, y in marks] == [("g", "20")] * 16 + [("m", "4")] * 4, "bad runs are taller"
    assert marks == sorted(marks, key=lambda mark: float(mark[1]))
    assert re.search(r"<b>◆</b> <a href=\"[^\"]+\">.*</a> image: image:1 → image:2", ribbon)
    assert "loss_final: level accepted by vera: &lt;larger&gt;" in ribbon


def test_metrics_are_in_groups_with_the_judged_ones_first_and_zeros_folded(
    browser: TestClient, warehouse: Warehouse
) -> None:
    more = {"eval/a": 1.0, "idle": 0.0, "a_time_seconds": 2.0, "goodput": 99.0, "sometimes": 0.0}
    newest = recorded("t", 0, more=more)
    units = {"a_time_seconds": "s"}
    metrics = tuple(replace(one, unit=units.get(one.metric, "")) for one in newest.metrics)
    warehouse.load_all([replace(newest, metrics=metrics), recorded("t", 1, more={**more, "sometimes": 3.0})])
    text = browser.get("/test?test=t").text
    assert re.findall(r'<h2 class="group(?: unseen)?">([^<]+?) ?<', text) == [
        "With a condition",
        "Other metrics",
        "eval",
    ]
    (folded,) = re.findall(r"<summary>Always 0: .*?</details>", text, re.DOTALL)
    assert re.findall(r">(\w+)</a>", folded) == ["idle"]
    assert "<summary>Time and cost: 1 metric</summary>" in text
    assert '<h2 class="group">Other metrics</h2>' in text, "one of them has no unit"
    assert "idle" in {one["metric"] for one in browser.get("/test?test=t&format=json").json()["metrics"]}


def test_a_broken_metric_with_a_condition_is_first_whatever_it_measures(
    browser: TestClient, warehouse: Warehouse
) -> None:
    warehouse.load(recorded("t", 0, 12.0, metric="step_time_p50", more={"aa_final": 1.0, "goodput": 99.0}))
    text = browser.get("/test?test=t").text
    assert re.findall(r'<h2 class="group(?: unseen)?">([^<]+?) ?<', text) == ["With a condition", "Other metrics"]
    assert text.index(">step_time_p50 <b") < text.index(">aa_final")


@pytest.mark.parametrize(("units", "heading"), [(("s", "s"), "eval <small>s</small>"), (("s", ""), "eval"),
                                                (("s", "B"), "eval"), (("", ""), "eval")])  # fmt: skip
def test_a_heading_has_a_unit_only_if_all_of_its_metrics_have_it(
    browser: TestClient, warehouse: Warehouse, units: tuple[str, str], heading: str
) -> None:
    run = recorded("t", 0, more={"eval/a": 1.0, "eval/b": 1.0})
    of_name = dict(zip(("eval/a", "eval/b"), units, strict=True))
    rows = tuple(replace(row, unit=of_name.get(row.metric, "")) for row in run.metrics)
    warehouse.load(replace(run, metrics=rows))
    assert f'<h2 class="group">{heading}</h2>' in browser.get("/test?test=t").text


def test_a_condition_without_bounds_yet_has_no_dash(browser: TestClient, warehouse: Warehouse) -> None:
    run = recorded("t", 0)
    rows = tuple(replace(row, outcome=Outcome.INSUFFICIENT_DATA, upper=None) for row in run.metrics)
    warehouse.load(replace(run, metrics=rows))
    text = browser.get("/test?test=t").text
    assert '<p class="about">condition: less than 11' in text


def test_charts_of_one_kind_share_a_shape() -> None:
    specs = [metric_chart("", [StoredMetric("0", TODAY, "m", value, JobStatus.SUCCESS, None)]) for value in (1.0, 2.0)]
    data = json.loads(
        charts_script([(f"chart-{index}", spec) for index, spec in enumerate(specs)], {"0": "run?run=key"})
    )
    assert len(data["shapes"]) == 1
    assert [chart["shape"] for chart in data["charts"]] == [0, 0]
    assert [chart["datasets"]["points"][0]["value"] for chart in data["charts"]] == [[1.0], [2.0]]
    assert data["charts"][0]["params"] != data["charts"][1]["params"]
    assert "datasets" not in data["shapes"][0]


def test_broken_metrics_come_first(browser: TestClient, warehouse: Warehouse) -> None:
    warehouse.load(recorded("t", 1, metric="z_final", value=99.0))
    warehouse.load(recorded("t", 0, metric="y_final", value=99.0, more={"a_final": 1.0}))
    metrics = [one["metric"] for one in browser.get("/test?test=t&format=json").json()["metrics"]]
    assert metrics == ["y_final", "z_final", "a_final"]


def test_custom_events_are_a_part_of_the_time_once() -> None:
    percent = {
        "goodput": 60.0,
        "badput_custom_badput_events_percent": 25.0,
        "badput_custom_badput_events_eval_percent": 13.0,
        "badput_custom_badput_events_check_percent": 8.0,
        "badput_other_percent": 15.0,
        "badput_stall_percent": 0.0,
        "badput_data_loading_async_percent": 13.0,
    }
    metrics = [StoredMetric("run", TODAY, name, value, JobStatus.SUCCESS, None) for name, value in percent.items()]
    parts = {"custom_badput_events_eval": 13.0, "custom_badput_events_check": 8.0, "custom_badput_events": 4.0}
    assert time_parts(metrics) == {"run": {"productive": 60.0, **parts, "other": 15.0}}


def test_the_headline_says_how_much_since_when_and_what_changed(browser: TestClient, warehouse: Warehouse) -> None:
    values = {**dict.fromkeys(range(4, 24), 10.0), **dict.fromkeys(range(4), 14.0)}
    warehouse.load_all(
        recorded("t", day, value + day % 3 / 100, image=f"app@sha256:{'ba'[day > 3] * 64}")
        for day, value in values.items()
    )
    text = unescape(browser.get("/test?test=t").text)
    (headline,) = re.findall(r'class="notice bad trouble"><b class="m">M</b> (.*?) <a ', text)
    since = f"{TODAY - timedelta(days=3):%Y-%m-%d}"
    change = "image: app@sha256:aaaaaaaaaaaa… → app@sha256:bbbbbbbbbbbb…"
    assert headline == f"loss_final = 14, must be below 11, +39.9 % against 10.01; since {since}, {change}"
    key = run_of("t", 0).key
    assert f"</b> {headline}</p>" in unescape(browser.get(f"/run?run={key}").text)
    (newest, *_) = browser.get("/test?test=t&format=json").json()["runs"]
    assert newest["reason"] == headline
