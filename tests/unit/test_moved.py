from __future__ import annotations

import re
from importlib import import_module

import pytest

import ml_metrics
from ml_metrics._moved import MOVED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("from ml_metrics.spec.test import TestSpec", "from ml_metrics import TestDefinition"),
        ("from ml_metrics import spec", "from ml_metrics import TestDefinition"),
        ("import ml_metrics.spec.load", "`ml_metrics.config`"),
        ("from ml_metrics.clusters.local import LocalCluster", "from local_kube import LocalCluster"),
        ("from ml_metrics.clusters.local.server import anything", "`local_kube`"),
        ("from ml_metrics.operators.connections import warehouse", "`ml_metrics.connections`"),
        ("from ml_metrics.telemetry.streams import MetricStream", "`ml_metrics_telemetry.streams`"),
        ("import ml_metrics.cloud.test_file", "`ml_metrics.cloud.goodput`"),
    ],
)
def test_the_import_of_a_moved_module_names_its_new_place(old: str, new: str) -> None:
    with pytest.raises(ImportError, match=re.escape(new)):
        exec(old)


def test_the_new_places_exist() -> None:
    for new in MOVED.values():
        for module in re.findall(r"`(?:from )?([a-z_]+(?:\.[a-z_]+)*)(?:`| import)", new):
            assert import_module(module), module
        for module, name in re.findall(r"`from ([a-z_.]+) import (\w+)`", new):
            assert hasattr(import_module(module), name), name


def test_other_missing_modules_are_reported_as_usual() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'ml_metrics\.absent'"):
        import_module("ml_metrics.absent")
    assert not hasattr(ml_metrics, "absent")
