"""What is recorded about the start of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.utils.types import DagRunType

from ml_metrics.airflow.operators.run import start_of
from ml_metrics.config.params import Usual
from ml_metrics.core.model import Run
from ml_metrics.store.run_folder import RunFolder

RUN = Run("t", "t", "manual__1", "tests")
USUAL = Usual("image:v1", ("train",))
OTHER_IMAGE = {"image": "image:v2"}
TRIGGERED = getattr(DagRunType, "OPERATOR_TRIGGERED", DagRunType.MANUAL)
"""What a task starts; in Airflow 3.1 it looks like a run by hand."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path))
    return str(tmp_path)


def start(root: str, run: Run = RUN, params: dict[str, Any] | None = None, **dag_run: Any) -> dict[str, Any]:
    known = {"run_type": DagRunType.MANUAL, "triggering_user_name": "alice", **dag_run}
    return start_of(run, RunFolder.of(run, root), SimpleNamespace(**known), params or {}, USUAL)


def write(root: str, run: Run, **document: Any) -> None:
    RunFolder.of(run, root).write("run", document)


def test_a_run_by_hand_with_another_image_is_a_trial_of_its_user(root: str) -> None:
    assert start(root, params=OTHER_IMAGE) == {"trial": ["image"], "started_by": "alice", "notify": []}
    assert start(root) == {"trial": [], "started_by": "alice", "notify": []}


def test_a_scheduled_run_is_no_trial(root: str) -> None:
    scheduled = start(root, params=OTHER_IMAGE, run_type="scheduled", triggering_user_name=None)
    assert scheduled == {"trial": [], "started_by": None, "notify": []}


def test_the_addresses_of_the_trigger_form_are_kept(root: str) -> None:
    given = {**OTHER_IMAGE, "notify": "a@example.com; b@example.com"}
    assert start(root, params=given)["notify"] == ["a@example.com", "b@example.com"]
    usual = Usual("image:v1", ("train",), params={"notify": "a parameter of the test"})
    dag_run = SimpleNamespace(run_type="manual", triggering_user_name="alice")
    assert start_of(RUN, RunFolder.of(RUN, root), dag_run, given, usual)["notify"] == []


def test_airflow_dags_test_is_no_user(root: str) -> None:
    assert start(root, params=OTHER_IMAGE, triggering_user_name="dag_test")["started_by"] is None


@pytest.mark.parametrize("trial", [[], ["size"]])
def test_a_retry_keeps_what_was_decided(root: str, trial: list[str]) -> None:
    write(root, RUN, trial=trial, started_by="bob", notify=["b@example.com"])
    kept = {"trial": trial, "started_by": "bob", "notify": ["b@example.com"]}
    assert start(root, params=OTHER_IMAGE) == kept


def test_a_cleared_run_of_an_older_version_is_decided_anew(root: str) -> None:
    write(root, RUN, test="t")
    assert start(root, params=OTHER_IMAGE)["trial"] == ["image"]


def test_a_damaged_document_is_replaced(root: str) -> None:
    write(root, RUN, trial=["size"])
    Path(RunFolder.of(RUN, root).document_path("run")).write_text("{", encoding="utf-8")
    assert start(root, params=OTHER_IMAGE)["trial"] == ["image"]


@pytest.mark.parametrize(
    ("confirmed", "trial"),
    [({"trial": ["image"]}, ["image"]), ({"trial": []}, []), ({"test": "t"}, []), (None, ["image"])],
)
def test_a_confirming_run_is_a_trial_exactly_if_the_confirmed_run_is(
    root: str, confirmed: dict[str, Any] | None, trial: list[str]
) -> None:
    if confirmed is not None:
        write(root, RUN, params=OTHER_IMAGE, **confirmed)
    confirming = replace(RUN, run_id="confirm__manual__1__1")
    assert start(root, confirming, OTHER_IMAGE, run_type=TRIGGERED)["trial"] == trial


def test_the_id_of_a_confirming_run_hides_no_other_parameters(root: str) -> None:
    """Who triggers a run chooses its id."""
    write(root, RUN, trial=[], params={})
    posing = replace(RUN, run_id="confirm__manual__1__1")
    assert start(root, posing, OTHER_IMAGE)["trial"] == ["image"]
