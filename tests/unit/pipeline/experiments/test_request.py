"""What a trigger form asks for, what is wrong with it, and the searches that start by themselves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ml_metrics import ConfigError, TestDefinition
from ml_metrics.config.loading import load_test
from ml_metrics.core.model import Outcome
from ml_metrics.core.settings import Settings
from ml_metrics.pipeline.experiments import (
    Places,
    comparison_of,
    own_search,
    registry,
    remember,
    running_search,
    search_of,
)
from ml_metrics.warehouse import Warehouse, open_warehouse
from unit.warehouse.records import record, run_of, verdict

FORM = {"test": "t", "base": "app:1", "candidate": "app:2", "effect": 2, "max_runs": 60, "parameter": "image"}
SEARCH = {"test": "t", "metric": "loss", "source": "list", "effect": 2, "max_runs": 64, "parameter": "commit"}
DIGEST = "app@sha256:" + "{}" * 64


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """Ten runs: three images, the second of which broke the loss; the packages changed, too."""
    opened = open_warehouse(f"sqlite:///{tmp_path}/warehouse.db")
    records = []
    for day in range(10):
        image = DIGEST.format(*str(day // 4) * 64)
        metadata = {"image": "app:nightly", "image_digest": f"docker-pullable://{image}", "param.commit": f"c{day}"}
        metadata |= {"package.jax": f"0.{day // 5}", "package.numpy": "2.0", "package.xla": f"1.{day // 5}"}
        outcome = Outcome.FAIL if day > 5 else Outcome.PASS
        values = {"loss": 0.7 if day > 5 else 0.5}
        records.append(record(day, values, test="t", outcomes={"loss": outcome}, metadata=metadata))
    opened.load_all(records)
    return opened


@pytest.fixture
def places(tmp_path: Path, warehouse: Warehouse) -> Places:
    configs = tmp_path / "metric_configs"
    configs.mkdir()
    test = {"name": "t", "image": "app:1", "command": ["c"], "by_hand": ["image"], "params": {"commit": "HEAD"}}
    (configs / "t.yaml").write_text(json.dumps(test))
    (configs / "u.yaml").write_text(json.dumps({**test, "name": "u", "by_hand": [], "params": {"trial": ""}}))
    (configs / "v.yaml").write_text(json.dumps({**test, "name": "v", "by_hand": []}))
    return Places(replace(Settings(), config_root=str(configs)), lambda: warehouse)


def test_a_comparison(places: Places) -> None:
    found = comparison_of({**FORM, "metrics": ["loss", " loss ", ""]}, places)
    assert (found.test, found.base, found.candidate) == ("t", "app:1", "app:2")
    assert (found.plan.metrics, found.plan.max_runs) == (("loss",), 60)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"test": "x"}, "no test 'x'"),
        ({"test": "u"}, "has a parameter 'trial'"),
        ({"test": "v"}, "may not have another image"),
        ({"parameter": "comit"}, "did you mean 'commit'"),
        ({"parameter": "command"}, "cannot be compared"),
        ({"base": " "}, "base: is empty"),
        ({"base": "a\nb"}, "should be one line"),
        ({"candidate": "app:1"}, "nothing to compare"),
        ({"max_runs": 1}, "max_runs: 1 cannot decide anything"),
        ({"max_runs": True}, "should be a whole number"),
        ({"effect": 0}, "percentage above 0"),
        ({"effect": float("nan")}, "percentage above 0"),
    ],
)
def test_what_is_wrong_with_a_comparison(places: Places, change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        comparison_of({**FORM, **change}, places)


def test_candidates_from_a_list(places: Places) -> None:
    found = search_of({**SEARCH, "candidates": "c1\n\n c2\nc3\nc4\n", "good": "c2"}, places)
    assert found.search.candidates == ("c2", "c3", "c4")


def test_candidates_from_the_history_with_the_values_of_both_ends(places: Places) -> None:
    images = search_of({**SEARCH, "source": "history", "parameter": "image"}, places).search
    assert images.candidates == tuple(DIGEST.format(*str(number) * 64) for number in (1, 2))
    assert images.good == (0.5, 0.5, 0.7, 0.7)
    commits = search_of({**SEARCH, "source": "history", "good": run_of(3, "t").key}, places).search
    assert commits.candidates == tuple(f"c{day}" for day in range(3, 10))
    assert (commits.good, commits.bad) == ((0.5,), (0.7,))


def test_candidates_from_packages(places: Places) -> None:
    form = {**SEARCH, "source": "packages", "good": run_of(3, "t").key}
    assert search_of(form, places).search.candidates == (
        "jax==0.0 xla==1.0",
        "jax==0.1 xla==1.0",
        "jax==0.1 xla==1.1",
    )


def test_candidates_from_tags(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "tags_of", lambda image: (image.partition(":")[0], ["1", "2", "9", "10"]))
    form = {**SEARCH, "source": "tags", "parameter": "image", "good": "2", "bad": "app:10"}
    assert search_of(form, places).search.candidates == ("app:2", "app:9", "app:10")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, "candidates: is empty"),
        ({"candidates": "c1"}, "needs a good and a bad one"),
        ({"candidates": "c1\nc1"}, "listed twice"),
        ({"candidates": "c1\nc2", "good": "c3"}, "'c3' is not among the 2 candidates"),
        ({"candidates": "c1\nc2", "good": "c2"}, "is not before"),
        ({"source": "lists"}, "did you mean 'list'"),
        ({"source": "tags"}, "`parameter` should be `image`"),
        ({"source": "history", "metric": "los"}, "did you mean 'loss'"),
        ({"source": "history", "good": "no-key"}, "is none of the newest 10 runs"),
        ({"source": "history", "bad": run_of(0, "t").key}, "no run passed before"),
        ({"source": "packages", "parameter": "image"}, "name the parameter"),
        ({"candidates": "c1\nc2", "max_runs": 1}, "takes 12 runs or more"),
    ],
)
def test_what_is_wrong_with_a_search(places: Places, change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        search_of({**SEARCH, **change}, places)


def test_a_search_that_starts_by_itself(places: Places, warehouse: Warehouse, tmp_path: Path) -> None:
    test = load_test(places.settings.config_root, "t")
    wanted = TestDefinition.model_validate({**test.model_dump(), "on_regression": {"bisect": {"parameter": "commit"}}})
    assert TestDefinition.model_validate(wanted.model_dump()).on_regression == wanted.on_regression
    failed = [verdict("loss", Outcome.FAIL, 0.7)]
    first, again = (own_search(wanted, run_of(day, "t").key, failed, warehouse) for day in (6, 9))
    assert first.run_id == again.run_id, "one change starts one search"
    assert (first.form["good"], first.form["bad"]) == (run_of(5, "t").key, run_of(6, "t").key)
    assert search_of(first.form, places).search.candidates == ("c5", "c6")

    remember(str(tmp_path), first)
    other = replace(first, run_id="regression__other", topics=("other", first.topics[1]))
    assert running_search(str(tmp_path), other, lambda _: True) == first.run_id, "the same versions are searched"
    assert running_search(str(tmp_path), other, lambda _: False) is None
    assert running_search(str(tmp_path), first, lambda _: True) is None

    for verdicts in ([], [verdict("loss", Outcome.PASS, 0.5)]):
        with pytest.raises(ConfigError, match="out of bounds"):
            own_search(wanted, run_of(9, "t").key, verdicts, warehouse)
