"""The page of a comparison and of a search: its states, its rights, and hostile names in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from ml_metrics.core.model import Run
from ml_metrics.judge import State
from ml_metrics.judge.bisect import Search
from ml_metrics.judge.compare import BASE, Plan
from ml_metrics.pipeline.experiments import (
    BISECT,
    COMPARE,
    EXPERIMENTS_FOLDER,
    SEARCHES_FOLDER,
    Journal,
    TestSearch,
    TrialRun,
    open_journal,
    run_id_of,
)
from ml_metrics.pipeline.experiments.comparison import Comparison
from ml_metrics.store.documents import Documents
from ml_metrics.ui.dashboard import experiments
from ml_metrics.warehouse import Warehouse
from unit.ui.dashboard.sample_runs import SHIFTED, Rights

RUN = "by/hand"


pytestmark = pytest.mark.usefixtures("filled")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", f"{tmp_path}/runs")
    return f"{tmp_path}/runs"


def key_of(dag_id: str) -> str:
    return Run(dag_id, dag_id, RUN, "local").key


def compared(root: str, runs: int = 12) -> str:
    """Write the journal of a comparison of which so many runs have ended."""
    comparison = Comparison(SHIFTED, "image", "app:1", "<b>app:2</b>", Plan(2.0, 60, ("loss",)))
    order = [arm for block in range(3) for arm in comparison.plan.order(block)][:runs]
    trials = tuple(
        TrialRun(
            comparison.base if arm == BASE else comparison.candidate,
            values={"loss": 0.5 + 0.2 * (arm != BASE)},
            host="n1",
        )
        for arm in order
    )
    key = key_of(COMPARE)
    journal = Journal(Documents.of_deployment(root, EXPERIMENTS_FOLDER), key, comparison.question(), trials)
    journal.write(comparison.result(trials) if runs == 12 else None)
    return key


def test_a_comparison_that_goes_on_and_one_that_has_ended(browser: TestClient, root: str) -> None:
    key = compared(root, runs=5)
    assert "Running: 5 of at most 60 runs have ended." in browser.get(f"/experiment?key={key}").text
    compared(root)
    for address in (f"/experiment?key={key}", f"/dag-run?dag_id={COMPARE}&run_id=by%2Fhand"):
        page = browser.get(address)
        assert page.status_code == 200
        assert "1 worse (12 runs: every metric is decided)" in page.text
        assert "&lt;b&gt;app:2&lt;/b&gt;" in page.text
        assert "<b>app" not in page.text
        trial = Run(SHIFTED, SHIFTED, run_id_of(key, 11), "local").key
        assert f'href="run?run={trial}"' in page.text
    document = browser.get(f"/experiment?key={key}&format=json").json()
    assert document["result"]["document"]["metrics"]["loss"]["verdict"] == "worse"
    table = browser.get(f"/experiment?key={key}&format=csv").text.splitlines()
    assert len(table) == 13


def test_a_search_that_has_ended_and_the_page_of_the_broken_run(
    browser: TestClient, filled: Warehouse, root: str
) -> None:
    values = Search(("a", "b", "c", "d"), 64, (1.0,) * 9, (2.0,) * 9)
    search, key = TestSearch(SHIFTED, "image", "loss", values), key_of(BISECT)
    trials: tuple[TrialRun, ...] = ()
    while (version := search.next_version(trials)) is not None:
        made = TrialRun(version, State.UNTESTABLE, reason="ExitCode:125") if version == "b" else None
        trials = (*trials, made or TrialRun(version, values={"loss": 1.0 if version == "a" else 2.0}))
    Journal(Documents.of_deployment(root, EXPERIMENTS_FOLDER), key, search.question(), trials).write(
        search.result(trials)
    )
    page = browser.get(f"/experiment?key={key}").text
    for shown in ("the level changed after a, by c", "<dt>between</dt><dd>b</dd>", "untestable, ExitCode:125"):
        assert shown in page

    run = filled.runs.newest(SHIFTED, 1)[0].uuid
    assert "experiment?key=" not in browser.get(f"/run?run={run}").text
    Documents.of_deployment(root, SEARCHES_FOLDER).write(SHIFTED, {"run_id": RUN})
    assert f'href="experiment?key={key}"' in browser.get(f"/run?run={run}").text


def comparison_of(test: str) -> Comparison:
    return Comparison(test, "image", "app:1", "<b>app:2</b>", Plan(2.0, 60))


def begun(root: str, test: str, run: str) -> str:
    """Begin a comparison as its task does, and return its key."""
    key = Run(COMPARE, COMPARE, run, "local").key
    open_journal(root, key, comparison_of(test).question())
    return key


def test_the_list_leads_to_each_page(browser: TestClient, root: str) -> None:
    assert "have started no comparison or search" in browser.get("/compare?view=experiments").text
    key = begun(root, SHIFTED, "one")
    page = browser.get("/compare?view=experiments").text
    assert f'href="experiment?key={key}"' in page
    assert f'href="test?test={SHIFTED}"' in page
    for shown in ("none yet", "0 of at most 60", "comparison: app:1 and &lt;b&gt;app:2&lt;/b&gt;"):
        assert shown in page
    open_journal(root, key).write(comparison_of(SHIFTED).result([]))
    assert "nothing was measured" in browser.get("/compare?view=experiments").text
    (one,) = browser.get("/compare?view=experiments&format=json").json()["experiments"]
    assert (one["key"], one["ended"], one["failed"]) == (key, True, True)
    assert len(browser.get("/compare?view=experiments&format=csv").text.splitlines()) == 2


def test_the_list_has_what_one_may_read(
    as_user: Callable[..., TestClient], root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The DAG of the comparison and the test, both. Only so many of the newest are read."""
    keys = {test: begun(root, test, test) for test in (SHIFTED, "other")}

    def listed(*dags: str) -> set[str]:
        page = as_user(Rights(dags=frozenset(dags))).get("/compare?view=experiments&format=json")
        return {one["key"] for one in page.json()["experiments"]}

    assert listed(COMPARE, SHIFTED) == {keys[SHIFTED]}
    assert listed(COMPARE) == listed(SHIFTED, "other") == listed(BISECT, SHIFTED) == set()
    monkeypatch.setattr(experiments, "MOST", 1)
    assert len(listed(COMPARE, SHIFTED, "other")) == 1
    assert (
        "Only those of the newest 1 that"
        in as_user(Rights(dags=frozenset({COMPARE}))).get("/compare?view=experiments").text
    )


def test_who_may_see_it(as_user: Callable[..., TestClient], root: str) -> None:
    """The rights to the DAG of the comparison and to that of the test, both."""
    address = f"/experiment?key={compared(root)}"
    for allowed, code in (({COMPARE, SHIFTED}, 200), ({COMPARE}, 403), ({SHIFTED}, 403)):
        assert as_user(Rights(dags=frozenset(allowed))).get(address).status_code == code


@pytest.mark.parametrize("key", ["", "none", "../../x", key_of(BISECT)])
def test_what_is_not_there(browser: TestClient, key: str) -> None:
    assert browser.get("/experiment", params={"key": key}).status_code in {400, 404}
