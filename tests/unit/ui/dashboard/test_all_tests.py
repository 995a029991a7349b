"""The page of all tests, as JSON and CSV."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient

from ml_metrics.core.model import JobStatus
from ml_metrics.ui.dashboard import all_tests
from ml_metrics.warehouse import PAUSED, KnownTest, Warehouse
from unit.ui.dashboard.sample_runs import FAILING, SHIFTED, STEADY, TODAY, Rights, csv_rows, recorded, run_of


def test_all_tests_as_a_document_and_as_rows(shown: TestClient) -> None:
    document = shown.get("/?format=json").json()
    tests = {one["test"]: one for one in document["tests"]}
    assert set(tests) == {STEADY, SHIFTED, FAILING}
    assert document["columns"][0] == TODAY.date().isoformat()
    assert len(document["columns"]) == 30
    assert (tests[STEADY]["latest"]["letter"], tests[STEADY]["pass_rate_percent"]) == ("✓", 100)
    assert tests[SHIFTED]["latest"]["letter"] == "M"
    assert tests[SHIFTED]["latest"]["reason"] == "loss_final = 14, must be below 11"
    assert tests[SHIFTED]["pass_rate_percent"] == 80
    assert tests[SHIFTED]["incident_since"] is not None
    assert tests[FAILING]["latest"]["reason"] == "failure: OOMKilled"
    assert tests[FAILING]["cells"][TODAY.date().isoformat()]["letters"] == {"F": 1}
    assert tests[FAILING]["last_good"] == (TODAY - timedelta(days=1)).isoformat()
    rows = {row["test"]: row for row in csv_rows(shown, "/?format=csv")}
    assert (rows[FAILING]["latest"], rows[FAILING][TODAY.date().isoformat()]) == ("F", "F")
    assert rows[SHIFTED]["owner"] == "speech-team"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=SHIFT", {SHIFTED}),
        ("q=tf+fail", {FAILING}),
        ("owner=speech-team", {SHIFTED}),
        ("only=failing", {SHIFTED, FAILING}),
        ("only=unacknowledged", {SHIFTED}),
        ("tag=nightly", {STEADY}),
        ("framework=tf&only=failing", {SHIFTED, FAILING}),
        ("accelerator=none", set()),
    ],
)
def test_filters(shown: TestClient, filled: Warehouse, query: str, found: set[str]) -> None:
    filled.known_tests.replace({STEADY: KnownTest(STEADY, tags=("nightly", "vision"))}, 0)
    assert {one["test"] for one in shown.get(f"/?format=json&{query}").json()["tests"]} == found


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", [SHIFTED, FAILING, STEADY]),
        ("sort=name", [STEADY, FAILING, SHIFTED]),
        ("sort=-name", [SHIFTED, FAILING, STEADY]),
        ("sort=pass", [FAILING, SHIFTED, STEADY]),
        ("group=owner&sort=pass", [SHIFTED, FAILING, STEADY]),
    ],
)
def test_tests_are_sorted_by_what_is_worst_unless_a_reader_chooses(
    shown: TestClient, query: str, names: list[str]
) -> None:
    """The incident of the shifted test is not acknowledged, so that it comes before a worse letter without one."""
    assert [one["test"] for one in shown.get(f"/?format=json&{query}").json()["tests"]] == names


@pytest.mark.parametrize(
    ("by", "groups", "tabs"),
    [
        ("owner", [("speech-team", "1 test, 1 failing"), ("vision-team", "2 tests, 1 failing")],
         ["all", "speech-team", "vision-team"]),
        ("framework", [("pt", "1 test, 0 failing"), ("tf", "2 tests, 2 failing")], ["all", "pt", "tf"]),
        ("tag", [("no tag", "2 tests, 2 failing"), ("nightly", "1 test, 0 failing")], ["all", "nightly", "vision"]),
    ],
)  # fmt: skip
def test_groups_state_how_many_of_their_tests_fail_and_are_tabs(
    shown: TestClient, filled: Warehouse, by: str, groups: list[tuple[str, str]], tabs: list[str]
) -> None:
    known = {STEADY: KnownTest(STEADY, tags=("nightly", "vision")), FAILING: KnownTest(FAILING, problems={PAUSED: ""})}
    filled.known_tests.replace(known, 0)
    text = shown.get(f"/?group={by}&only=&q=t").text
    assert re.findall(r"<tr class=owner><th[^>]*>(.*?) <small>(.*?)</small>", text) == groups
    found = re.findall(
        r'<a href="([^"]*)"[^>]*>([^<]*)</a>', text.partition('<nav class="tabs"')[2].partition("</nav>")[0]
    )
    assert [name for _, name in found] == tabs
    assert found[1][0] == f"./?q=t&amp;{by}={tabs[1]}&amp;group={by}" or by == "tag"
    assert text.count(">off</b>") == 1
    assert "1 test does not run as defined, its DAG is paused: tf-failing" in text


def test_the_status_stands_beside_the_name_and_the_sorted_column_is_stated(shown: TestClient) -> None:
    text = shown.get("/?sort=-goodput").text
    assert re.search(r'<tr><th scope=row><a [^>]*aria-label="tf-failing">[^\n]*?</a><td class="f l">', text)
    assert re.findall(r'aria-sort="(\w+)"><a data-sort="(\w+)"', text) == [("descending", "goodput")]


def test_a_page_has_a_part_of_the_tests_and_a_document_all(shown: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_tests, "MAX_CELLS", 2 * 30)
    first, second = (shown.get(f"/?sort=pass&page={page}").text for page in (1, 2))
    names = [re.findall(r'<th scope=row><a [^>]*aria-label="([^"]*)"', text) for text in (first, second)]
    assert names == [[FAILING, SHIFTED], [STEADY]], "sorted by all runs, also of tests whose cells are not read"
    assert "<strong>3</strong> of 3 tests" in second
    assert second.count("<td class=g>✓") == 20
    assert len(shown.get("/?format=json").json()["tests"]) == len(csv_rows(shown, "/?format=csv")) == 3


def test_a_small_curve_is_that_of_the_metric_that_failed(shown: TestClient) -> None:
    found = shown.get(f"/sparklines?test={SHIFTED}&test={STEADY}&test=none").json()
    assert set(found) == {SHIFTED, STEADY}
    assert (found[SHIFTED]["text"], found[SHIFTED]["broken"]) == ("loss_final: 14", [16, 17, 18, 19])
    assert len(found[STEADY]["values"]) == 20
    assert shown.get("/sparklines").json()["error"].startswith("Bad request: test is given 0 times")


def test_small_curves_are_only_of_readable_tests(as_user: Callable[..., TestClient], filled: Warehouse) -> None:
    assert filled.runs.latest(SHIFTED)
    reader = as_user(Rights(frozenset({STEADY})))
    assert set(reader.get(f"/sparklines?test={SHIFTED}&test={STEADY}").json()) == {STEADY}


def test_a_cell_has_all_runs_of_its_day_worst_first(browser: TestClient, warehouse: Warehouse) -> None:
    warehouse.load_all([recorded("hourly", hour / 24) for hour in range(6)])
    warehouse.load(recorded("hourly", 0.01, status=JobStatus.TIMEOUT))
    (test,) = browser.get("/?format=json").json()["tests"]
    assert test["cells"][TODAY.date().isoformat()]["letters"] == {"T": 1, "✓": 6}
    assert "T1✓6" in browser.get("/").text


def test_days_are_days_in_the_time_zone(browser: TestClient, warehouse: Warehouse) -> None:
    warehouse.load(recorded("late", -0.49))  # 23:46 UTC
    query = f"since={TODAY.date()}&until={TODAY.date() + timedelta(days=1)}&format=json"
    (utc,) = browser.get(f"/?{query}").json()["tests"]
    (tokyo,) = browser.get(f"/?{query}&tz=Asia/Tokyo").json()["tests"]
    assert set(utc["cells"]) == {TODAY.date().isoformat()}
    assert set(tokyo["cells"]) == {(TODAY.date() + timedelta(days=1)).isoformat()}


def test_columns_may_be_runs(shown: TestClient) -> None:
    document = shown.get("/?by=runs&format=json").json()
    assert document["columns"] == list(range(30))
    shifted = next(one for one in document["tests"] if one["test"] == SHIFTED)
    assert [shifted["cells"][str(ago)]["letters"] for ago in (0, 3, 4)] == [{"M": 1}, {"M": 1}, {"✓": 1}]


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("llama3-70b-pretrain-v5p-with-checkpoints", "-checkpoints"),
        ("stable_diffusion_train_h100", "_train_h100"),
        ("averyverylongnamewithoutanyboundary", "nyboundary"),
        ("llama3-8b-pretrain-h100", "-h100"),  # not more, so that the first word has room
        ("abc", "abc"),
    ],
)
def test_the_end_of_a_name_that_is_always_shown_begins_with_a_word(
    name: str, end: str, browser: TestClient, warehouse: Warehouse
) -> None:
    warehouse.load(recorded(name, 0, 99.0))
    warehouse.incidents.report(name, run_of(name, 0).key, fingerprint="x", reasons=["x"])
    for page in ("/inbox", "/"):
        (parts,) = re.findall(
            r"<span class=\"?mid\"?><span>(.*?)</span><span>(.*?)</span></span>", browser.get(page).text
        )
        assert parts == (name.removesuffix(end), end)
