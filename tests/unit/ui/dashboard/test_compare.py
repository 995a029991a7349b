"""The page that compares tests and metrics."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fastapi.testclient import TestClient

from ml_metrics.core.model import Sweep, SweepPoint
from ml_metrics.warehouse import Warehouse
from unit.ui.dashboard.sample_runs import FAILING, SHIFTED, STEADY, Rights, csv_rows, recorded, run_of


def test_patterns_select_tests_and_metrics(shown: TestClient) -> None:
    document = shown.get("/compare?tests=tf-*,pt-steady&metrics=loss_*&format=json").json()
    assert set(document["tests"]) == {SHIFTED, FAILING, STEADY}
    counted = Counter(one["test"] for one in document["values"])
    assert counted == {SHIFTED: 20, STEADY: 20, FAILING: 2}
    assert len(csv_rows(shown, "/compare?tests=tf-shifted&metrics=*&format=csv")) == 20
    assert "No tests that you may see match nothing." in shown.get("/compare?tests=nothing").text


def test_the_newest_run_of_the_test_that_failed_last_is_compared_with_the_good_run_before_it(shown: TestClient) -> None:
    document = shown.get("/compare?format=json").json()
    assert (document["kind"], document["candidate"]) in {
        ("runs", run_of(FAILING, 0).key),
        ("runs", run_of(SHIFTED, 0).key),
    }
    document = shown.get(f"/compare?test={SHIFTED}&format=json").json()
    assert (document["base"], document["candidate"]) == (run_of(SHIFTED, 4).key, run_of(SHIFTED, 0).key)
    assert {"name": "image", "base": "image:1", "candidate": "image:2"} in document["differences"]
    (loss,) = document["metrics"]
    assert (loss["verdict"], round(loss["change_percent"], 1)) == ("worse", 38.6)
    assert loss["reason"].startswith("outside the noise of the 15 runs before both: 99 % of equal runs differ by less ")
    low, high = loss["interval"]
    assert 30 < low < loss["change_percent"] < high < 50
    assert loss["certainty"] > 0.99
    text = shown.get(f"/compare?test={SHIFTED}").text
    assert re.search(
        r'<tr class="broken"><th scope="row">loss_final</th>.*?<td>worse</td><td>below 11</td><td>fail</td>',
        text,
        re.DOTALL,
    )
    assert f'data-curves="curves?run={run_of(SHIFTED, 0).key}&amp;with={run_of(SHIFTED, 4).key}"' in text


def test_the_noise_between_two_runs_is_that_of_the_runs_before_both(shown: TestClient) -> None:
    def loss_of(base: tuple[str, int], candidate: tuple[str, int]) -> dict[str, Any]:
        keys = [run_of(*one).key for one in (base, candidate)]
        (loss,) = shown.get(f"/compare?base={keys[0]}&candidate={keys[1]}&format=json").json()["metrics"]
        return dict(loss)

    within = loss_of((STEADY, 1), (STEADY, 0))
    assert (within["verdict"], within["certainty"]) == ("undecided", None)
    assert within["reason"].startswith("within the noise of the 18 runs before both: ")
    early = loss_of((STEADY, 12), (STEADY, 11))
    assert early["reason"] == "the noise is unknown: 7 runs before both measured it, 10 are needed"
    others = loss_of((STEADY, 0), (SHIFTED, 0))
    assert (others["verdict"], others["reason"]) == ("undecided", "the noise is unknown: the runs are of two tests")
    assert others["interval"] is None


def test_two_images_and_two_tests_are_compared_with_certainty(shown: TestClient) -> None:
    page = f"/compare?kind=images&test={SHIFTED}&base=image:1&candidate=image:2"
    (loss,) = shown.get(f"{page}&format=json").json()["metrics"]
    assert loss["verdict"] == "worse"
    assert loss["certainty"] > 0.95
    assert (loss["base"]["runs"], loss["candidate"]["runs"]) == (16, 4)
    (row,) = csv_rows(shown, f"{page}&format=csv")
    assert row["verdict"] == "worse"
    (loss,) = shown.get(f"/compare?kind=tests&base={STEADY}&candidate={STEADY}&format=json").json()["metrics"]
    assert loss["verdict"] == "equivalent"


def test_curves_are_compared_whole(browser: TestClient, warehouse: Warehouse) -> None:
    chance = random.Random(1)
    for ago in range(29, -1, -1):
        points = [
            (x, (9 + x) * chance.gauss(1, 0.01) * (1.3 if ago < 10 and x > 8 else 1)) for x in (1, 2, 4, 8, 16, 32)
        ]
        sweep = Sweep("ttft", "rate", tuple(SweepPoint(float(x), y) for x, y in points), better="lower")
        of_run = recorded("serving", ago, 100.0, metric="curve/ttft", image=f"image:{1 + (ago < 10)}")
        warehouse.load(replace(of_run, sweeps=(sweep,)))
    images = "/compare?kind=images&test=serving&base=image:1&candidate=image:2"
    runs = f"/compare?base={run_of('serving', 10).key}&candidate={run_of('serving', 0).key}"
    for page, where, least in ((images, "from 16 on (rate)", 25), (runs, "from 2 on (rate)", 10)):
        (found,) = browser.get(f"{page}&format=json").json()["metrics"]
        assert (found["metric"], found["verdict"]) == ("curve/ttft", "worse")
        assert least < found["change_percent"] < 35
        assert found["where"] == where
        text = browser.get(page).text
        assert "ttft: the candidate over the range of the base" in text
        assert where in text
    tests = browser.get("/compare?kind=tests&base=serving&candidate=serving&format=json").json()["metrics"]
    assert tests[0]["verdict"] == "undecided"


def test_what_cannot_be_compared(as_user: Callable[..., TestClient], shown: TestClient, filled: Warehouse) -> None:
    assert filled.runs.get(run_of(SHIFTED, 0).key)
    pages = {
        "base=x": 400,
        "kind=runs&base=x&candidate=y": 404,
        f"kind=images&test={SHIFTED}&base=none&candidate=image:2": 404,
        "test=none": 404,
        f"kind=tests&base=none&candidate={STEADY}": 404,
    }
    for page, status in pages.items():
        assert shown.get(f"/compare?{page}").status_code == status, page
    reader = as_user(Rights(frozenset({STEADY})))
    for page in (f"base={run_of(SHIFTED, 4).key}&candidate={run_of(SHIFTED, 0).key}",
                 f"kind=tests&base={SHIFTED}&candidate={STEADY}",
                 f"kind=images&test={SHIFTED}&base=image:1&candidate=image:2", f"test={SHIFTED}"):  # fmt: skip
        assert reader.get(f"/compare?{page}").status_code == 404, page


def test_without_a_good_run_the_page_names_the_test_that_it_looked_at(
    browser: TestClient, warehouse: Warehouse
) -> None:
    assert "No test that you may see has run: choose what to compare." in browser.get("/compare").text
    warehouse.load(recorded("new", 0))
    warehouse.load_all([recorded(STEADY, day) for day in (1, 2)])
    assert "new has no good run before its newest one: choose what to compare." in browser.get("/compare").text
    assert browser.get(f"/compare?test={STEADY}&format=json").json()["base"] == run_of(STEADY, 2).key


def test_digests_are_short_and_whole_in_the_title(browser: TestClient, warehouse: Warehouse) -> None:
    images = [f"app@sha256:{letter * 64}" for letter in "ab"]
    warehouse.load_all([recorded("t", day, image=images[day]) for day in (0, 1)])
    text = browser.get("/compare?test=t").text
    assert f'<td title="{images[1]}">app@sha256:{"b" * 12}…</td>' in text
    assert f">{images[1]}" not in text
