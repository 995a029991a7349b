"""What pages say, in each of their forms; and what they say when there is nothing to say."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient

from ml_metrics.dashboard import source
from ml_metrics.dashboard.page import embedded, figure, took
from ml_metrics.errors import WarehouseError
from ml_metrics.model import JobStatus
from ml_metrics.warehouse import Warehouse, open_warehouse
from ml_metrics.warehouse.base import Asking
from unit.dashboard.made import FAILING, SHIFTED, STEADY, TODAY, recorded, run_of

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = (
    "/",
    "/?by=runs",
    f"/test?test={SHIFTED}",
    f"/run?run={run_of(SHIFTED, 0).key}",
    "/compare?tests=*&metrics=*",
    f"/dag?dag_id={SHIFTED}",
    f"/dag-run?dag_id={SHIFTED}&run_id={run_of(SHIFTED, 0).run_id}",
)


def rows(browser: TestClient, page: str) -> list[dict[str, str]]:
    answer = browser.get(page)
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_all_tests_as_a_document(shown: TestClient) -> None:
    document = shown.get("/?format=json").json()
    tests = {one["test"]: one for one in document["tests"]}
    assert set(tests) == {STEADY, SHIFTED, FAILING}
    assert document["columns"][0] == TODAY.date().isoformat()
    assert len(document["columns"]) == 30
    assert (tests[STEADY]["latest"]["letter"], tests[STEADY]["pass_rate_percent"]) == ("✓", 100)
    assert tests[SHIFTED]["latest"]["letter"] == "M"
    assert tests[SHIFTED]["latest"]["reason"] == "loss_final = 14, bounds (-inf, 11)"
    assert tests[SHIFTED]["pass_rate_percent"] == 80
    assert tests[SHIFTED]["incident_since"] is not None
    assert tests[FAILING]["latest"]["reason"] == "failure: OOMKilled"
    assert tests[FAILING]["cells"][TODAY.date().isoformat()]["letters"] == {"F": 1}
    assert tests[FAILING]["last_good"] == (TODAY - timedelta(days=1)).isoformat()


def test_all_tests_as_rows(shown: TestClient) -> None:
    found = {row["test"]: row for row in rows(shown, "/?format=csv")}
    assert found[FAILING]["latest"] == "F"
    assert found[FAILING][TODAY.date().isoformat()] == "F"
    assert found[SHIFTED]["owner"] == "speech-team"


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("q=SHIFT", {SHIFTED}),
        ("q=tf+fail", {FAILING}),
        ("owner=speech-team", {SHIFTED}),
        ("only=failing", {SHIFTED, FAILING}),
        ("only=unacknowledged", {SHIFTED}),
        ("prefix=pt", {STEADY}),
        ("framework=tf&only=failing", {SHIFTED, FAILING}),
        ("accelerator=none", set()),
    ],
)
def test_filters(shown: TestClient, asked: str, found: set[str]) -> None:
    assert {one["test"] for one in shown.get(f"/?format=json&{asked}").json()["tests"]} == found


def test_all_runs_of_a_day_are_in_its_cell_the_worst_first(browser: TestClient, warehouse: Warehouse) -> None:
    warehouse.load_all([recorded("hourly", hour / 24) for hour in range(6)])
    warehouse.load(recorded("hourly", 0.01, status=JobStatus.TIMEOUT))
    (test,) = browser.get("/?format=json").json()["tests"]
    assert test["cells"][TODAY.date().isoformat()]["letters"] == {"T": 1, "✓": 6}
    assert "T1✓6" in browser.get("/").text


def test_days_are_those_of_the_time_zone(browser: TestClient, warehouse: Warehouse) -> None:
    warehouse.load(recorded("late", -0.49))  # 23:46 UTC
    asked = f"since={TODAY.date()}&until={TODAY.date() + timedelta(days=1)}&format=json"
    (utc,) = browser.get(f"/?{asked}").json()["tests"]
    (tokyo,) = browser.get(f"/?{asked}&tz=Asia/Tokyo").json()["tests"]
    assert set(utc["cells"]) == {TODAY.date().isoformat()}
    assert set(tokyo["cells"]) == {(TODAY.date() + timedelta(days=1)).isoformat()}


def test_columns_may_be_runs(shown: TestClient) -> None:
    document = shown.get("/?by=runs&format=json").json()
    assert document["columns"] == list(range(30))
    shifted = next(one for one in document["tests"] if one["test"] == SHIFTED)
    assert [shifted["cells"][str(ago)]["letters"] for ago in (0, 3, 4)] == [{"M": 1}, {"M": 1}, {"✓": 1}]


def test_a_tests_page_tells_what_changed_with_the_level(shown: TestClient) -> None:
    document = shown.get(f"/test?test={SHIFTED}&format=json").json()
    (metric,) = document["metrics"]
    (level,) = metric["annotations"]
    assert "image: image:1 -> image:2" in level["text"]
    assert [point["counts"] for point in metric["points"]] == [True] * 16 + [False] * 4
    text = shown.get(f"/test?test={SHIFTED}").text
    assert "should be less than 11" in text
    assert "1 min 0 s" in text  # it waited so long for its pod
    assert len(rows(shown, f"/test?test={SHIFTED}&format=csv")) == 20


def test_broken_metrics_come_first(browser: TestClient, warehouse: Warehouse) -> None:
    warehouse.load(recorded("t", 1, metric="z_final", value=99.0))
    warehouse.load(recorded("t", 0, metric="y_final", value=99.0, more={"a_final": 1.0}))
    metrics = [one["metric"] for one in browser.get("/test?test=t&format=json").json()["metrics"]]
    assert metrics == ["y_final", "z_final", "a_final"]


def test_where_the_time_went_is_drawn(browser: TestClient, warehouse: Warehouse) -> None:
    assert "chart-goodput" not in browser.get("/test?test=t").text
    more = {"goodput": 90.0, "badput_idle_percent": 10.0, "badput_idle_seconds": 60.0}
    warehouse.load(recorded("t", 0, more=more))
    assert "Where the time went" in browser.get("/test?test=t").text


def test_a_run_is_shown_beside_the_last_good_one(shown: TestClient) -> None:
    text = shown.get(f"/run?run={run_of(SHIFTED, 0).key}").text
    assert run_of(SHIFTED, 4).key in text
    assert "image:1 → image:2" in text
    assert "+38.6 %" in text
    assert "made up" in text
    document = shown.get(f"/run?run={run_of(SHIFTED, 0).key}&format=json").json()
    assert document["last_good_run"] == run_of(SHIFTED, 4).key


def test_tests_are_compared_by_patterns(shown: TestClient) -> None:
    document = shown.get("/compare?tests=tf-*,pt-steady&metrics=loss_*&format=json").json()
    assert set(document["tests"]) == {SHIFTED, FAILING, STEADY}
    counted = Counter(one["test"] for one in document["values"])
    assert counted == {SHIFTED: 20, STEADY: 20, FAILING: 2}
    assert len(rows(shown, "/compare?tests=tf-shifted&metrics=*&format=csv")) == 20
    assert "None of the tests that you may see is called nothing" in shown.get("/compare?tests=nothing").text


@pytest.mark.parametrize(
    ("page", "status", "said"),
    [
        ("/test?test=none", 404, "There is no test"),
        ("/run?run=none", 404, "There is no such run"),
        ("/dag?dag_id=none", 404, "has not recorded a run"),
        ("/dag-run?dag_id=none&run_id=none", 404, "has not been recorded"),
        ("/nothing/here", 404, "There is no page"),
        ("/assets/..%2Faccess.py", 404, "There is no"),
        ("/assets/access.py", 404, "There is no such file"),
        ("/test", 400, "does not say which test"),
        ("/?since=tomorrow", 400, "is no day"),
        ("/?since=2026-03-02&until=2026-03-01", 400, "no day lies between"),
        ("/?tz=Middle/Earth", 400, "is no time zone"),
        ("/?tz=../../etc/passwd", 400, "is no time zone"),
        ("/?page=0", 400, "is no number"),
        ("/?by=weeks", 400, "is none of"),
        ("/?format=xml", 400, "is none of"),
        (f"/?q={'x' * 400}", 400, "longer than"),
        ("/dag", 400, "dag_id"),
        ("/?since=1900-01-01&until=2100-01-01", 200, "the newest 366"),
        (f"/test?test={STEADY}&since=0001-01-01&until=9999-12-31", 200, "loss_final"),
        (f"/test?test={STEADY}&since=1980-01-01&until=1980-01-02", 200, "No run stopped between"),
        ("/compare?tests=*&metrics=*&since=1926-01-01&until=2026-12-31", 200, "loss_final"),
    ],
)
def test_a_page_says_what_is_wrong_with_its_address(shown: TestClient, page: str, status: int, said: str) -> None:
    answer = shown.get(page)
    assert answer.status_code == status
    assert said in answer.text


@pytest.mark.parametrize("page", PAGES)
def test_a_warehouse_that_is_down_is_said_so(shown: TestClient, monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    @contextmanager
    def down() -> Iterator[Warehouse]:
        with open_warehouse("postgresql+psycopg://nobody:secret@127.0.0.1:1/none") as opened:
            yield opened

    source.SOURCE.forget()
    monkeypatch.setattr(source, "warehouse", down)
    answer = shown.get(page)
    assert answer.status_code == 503
    assert "The warehouse cannot be read" in answer.text
    assert "secret" not in answer.text


@pytest.mark.usefixtures("filled")
def test_the_next_request_asks_a_warehouse_anew_that_was_down() -> None:
    with source.SOURCE.open() as first:
        pass
    with pytest.raises(WarehouseError), source.SOURCE.open():
        raise WarehouseError("gone")
    assert source.SOURCE._opened is None
    with source.SOURCE.open() as second:
        assert second is first  # this test's warehouse


@pytest.mark.parametrize("page", PAGES)
def test_a_page_asks_as_often_for_much_as_for_little(
    browser: TestClient, filled: Warehouse, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    asked: list[str] = []
    ask = Asking._ask

    def counted(self: Asking, query: str, **parameters: Any) -> list[dict[str, Any]]:
        asked.append(query)
        return ask(self, query, **parameters)

    monkeypatch.setattr(Asking, "_ask", counted)
    browser.get(page)
    few = len(asked)
    filled.load_all([recorded(f"tf-more{number}", day, 99.0) for number in range(12) for day in range(9)])
    filled.load_all([recorded(SHIFTED, day + 0.5, more={f"m{n}": 1.0 for n in range(20)}) for day in range(9)])
    for number in range(5):
        filled.record_alert(f"tf-more{number}", run_of(f"tf-more{number}", 0).key, fingerprint="x", reasons=["x"])
    asked.clear()
    browser.get(page)
    assert len(asked) == few <= 10


@pytest.mark.parametrize("page", [*PAGES, "/nothing", "/assets/vega.js", "/icon.svg"])
def test_every_answer_forbids_whatever_is_not_ours(shown: TestClient, page: str) -> None:
    policy = shown.get(page).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_no_page_names_another_host(shown: TestClient) -> None:
    for page in PAGES:
        text = shown.get(page).text
        assert re.findall(r'(?:src|href|action)="(?:https?:)?//[^"]*"', text) == []


def test_numbers_for_people() -> None:
    assert [took(each) for each in (None, 0.25, 59, 61, 3700, 90_000)] == [
        "-", "0.25 s", "59 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"
    ]  # fmt: skip
    assert [figure(each) for each in (None, 0.1 + 0.2, 1e-9)] == ["-", "0.3", "1e-09"]
    assert "<" not in embedded({"</script>": float("nan")})
