"""Values that real files of other authors hold come out under names that a reader would look for.

The files may not be copied into the project: where they lie beside it, this test prints a table.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections import Counter
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.core.limits import Limits
from ml_metrics.measure import Collected, collect_run, explain_file
from ml_metrics.store.run_folder import RunFolder
from unit.measure.collect.formats.sample_files import BESIDE

REAL = BESIDE / "real"
ENOUGH = 0.9
PROFILES = {
    "hf-trainer-stdout": "hugging-face", "keras-stdout": "keras", "maxtext-stdout": "maxtext",
    "megatron-lm-stdout": "megatron", "nemo-stdout": "nemo", "torchtitan": "torchtitan",
}  # fmt: skip
SYNONYMS = {"tps": "tokens", "lr": "learning", "iteration": "step", "acc": "accuracy", "seconds": "time"}
"""Words of the files, and the product's own for the same."""
MILLI = 1e-3


def words(name: str) -> set[str]:
    found = set(re.findall(r"[a-z]{2,}|p\d+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()))
    return found | {SYNONYMS[word] for word in found if word in SYNONYMS}


def number(value: Any) -> float | None:
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def read(folder: Path, profile: str | None) -> Collected:
    """Everything that is read, with the configuration that is proposed for what no source reads."""
    place, documents, logs = RunFolder(str(folder)), [], {"profile": profile, "files": ["*"]} if profile else {}
    for file in place.files():
        proposed = explain_file(file, place, MetricCollectionConfig(), Limits()).proposed
        documents += proposed.get("documents", [])
        logs = logs or proposed.get("logs", {})
    sources = {"documents": documents} | ({"logs": logs} if logs else {})
    strategies = ["final", "first", "min", "max", "average", "median", "count", "std"]
    config = MetricCollectionConfig.model_validate({"sources": sources, "default_aggregation_strategies": strategies})
    return collect_run(config, place, None, curve_of=lambda _: True)


def values_of(found: Collected) -> list[tuple[set[str], float]]:
    """Names in words, and values: of metrics, of points, and of what describes the run."""
    pairs = [(one.name, one.value) for one in found.metrics]
    pairs += [(tag, value) for tag, curve in found.curves.items() for value in curve.values]
    pairs += [(name, number(text)) for name, text in found.metadata.items()]
    return [(words(name), value) for name, value in pairs if value is not None and math.isfinite(value)]


def is_among(name: str, expected: Any, found: list[tuple[set[str], float]]) -> bool | None:
    values = [one for one in map(number, expected if isinstance(expected, list) else [expected]) if one is not None]
    if not values:
        return None
    several = [median(values), fmean(values)] if len(values) > 1 else []
    wanted = [*values, *several, *([value * MILLI for value in (*values, *several)] if "_ms" in name else [])]
    close = 1e-2 if ":median" in name else 1e-6
    own = words(name)
    return any(own & other and any(math.isclose(value, one, rel_tol=close) for one in wanted) for other, value in found)


@pytest.mark.skipif(not REAL.is_dir(), reason="the files of other authors do not lie beside the project")
def test_nine_of_ten_expected_values_come_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, asked, missed = Counter[str](), Counter[str](), []
    for sample in sorted(REAL.glob("*/*/expected.json")):
        kind, run = sample.parts[-3], tmp_path / "-".join(sample.parts[-3:-1])
        shutil.copytree(sample.parent, run, ignore=shutil.ignore_patterns("expected.json", "SOURCE.txt"))
        have = values_of(read(run, PROFILES.get(kind)))
        for name, expected in json.loads(sample.read_text())["metrics"].items():
            known = is_among(name, expected, have)
            if known is not None:
                asked[kind] += 1
                found[kind] += known
                if not known:
                    missed.append(f"{sample.parts[-3]}/{sample.parts[-2]}: {name}: {expected!r}"[:150])
    table = [f"{kind:26} {found[kind]:5} of {asked[kind]:5}" for kind in asked]
    with capsys.disabled():
        print("", *table, f"{'all':26} {found.total():5} of {asked.total():5}", sep="\n")
    assert found.total() >= ENOUGH * asked.total(), missed
