"""The page of one test."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from ml_metrics.dashboard.pages import one_test_page
from ml_metrics.warehouse import Warehouse
from unit.dashboard.sample_runs import SHIFTED, TODAY, csv_rows, recorded, run_of


def test_an_annotation_names_the_change_of_the_level_and_of_the_image(shown: TestClient) -> None:
    document = shown.get(f"/test?test={SHIFTED}&format=json").json()
    (metric,) = document["metrics"]
    (level,) = metric["annotations"]
    assert "image: image:1 -> image:2" in level["text"]
    assert [point["counts"] for point in metric["points"]] == [True] * 16 + [False] * 4
    text = shown.get(f"/test?test={SHIFTED}").text
    assert "condition: less than 11" in text
    assert "1 min 0 s" in text  # the time in the queue
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
    assert "chart-goodput" not in browser.get("/test?test=t").text
    more = {"goodput": 90.0, "badput_idle_percent": 10.0, "badput_idle_seconds": 60.0}
    warehouse.load(recorded("t", 0, more=more))
    text = browser.get("/test?test=t").text
    assert "Productive and lost time" in text
    assert re.search(r"<th scope=\"col\">productive, %<th scope=\"col\">idle, %", text)
    assert re.search(r"</a><td>90<td>10\n", text)


def test_each_pattern_with_the_metrics_that_it_covers(browser: TestClient, warehouse: Warehouse) -> None:
    record = recorded("t", 0, more={"eval/a": 1.0, "eval/b": 2.0, "free": 3.0})
    keys = {"eval/a": "eval/*", "eval/b": "eval/*", "free": None}
    metrics = tuple(
        replace(one, condition=keys[one.metric], rule=keys[one.metric] and "less than 9") if one.metric in keys else one
        for one in record.metrics
    )
    warehouse.load(replace(record, metrics=metrics))
    text = browser.get("/test?test=t").text
    assert "<dt><code>eval/*</code></dt><dd>eval/a, eval/b</dd>" in text
    assert re.search(r"<dt>no condition</dt><dd>.*free.*</dd>", text)
    assert "condition <code>eval/*</code>: less than 9" in text


def test_a_table_behind_each_chart_has_every_value(shown: TestClient) -> None:
    text = shown.get(f"/test?test={SHIFTED}").text
    (table,) = re.findall(r'<details class="values">.*?</details>', text, re.DOTALL)
    rows = re.findall(r'<tr><td><a href="([^"]+)">([^<]+)</a><td>([^<]+)<td>([^<]+)<td>(\w+)<td>(\w+)', table)
    assert len(rows) == 20
    newest = (f"run?run={run_of(SHIFTED, 0).key}", f"{TODAY:%Y-%m-%d} 12:00", "14", "below 11", "fail", "no")
    assert rows[0] == newest
    assert rows[-1][2:] == ("10.1", "below 11", "pass", "yes")


def test_a_table_that_is_cut_links_to_all_values(shown: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_test_page, "MAX_TABLE_ROWS", 1)
    monkeypatch.setattr(one_test_page, "MIN_TABLE_ROWS", 5)
    text = shown.get(f"/test?test={SHIFTED}").text
    (table,) = re.findall(r'<details class="values">.*?</details>', text, re.DOTALL)
    assert table.count("<tr><td>") == 5
    assert "The newest 5 of 20 values" in table
    assert 'data-format="csv"' in table
