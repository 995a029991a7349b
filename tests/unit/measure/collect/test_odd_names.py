"""Names from files are storable from the start: what is judged has the names of the rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.core.model import Metric
from ml_metrics.core.values import storable_name
from ml_metrics.measure import generated
from unit.measure.collect.run_folders import by_name, collected

if TYPE_CHECKING:
    from pathlib import Path

TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=6)


def write(folder: Path, tags: list[str], texts: list[str]) -> None:
    line = {"step": 1, **dict.fromkeys(tags, 0.5), **dict.fromkeys(texts, "text")}
    (folder / "metrics.jsonl").write_text(json.dumps(line))


def test_what_was_merged_is_named(tmp_path: Path) -> None:
    write(tmp_path, ["lo\nss", "lo\\nss"], ["no\x00te", "no\\x00te", "other"])
    found = collected(tmp_path)
    assert {name for name in by_name(found) if name.startswith("lo")} == {"lo\\nss_final"}
    assert {"no\\x00te", "other"} <= found.metadata.keys()
    merged = [warning for warning in found.warnings if warning.startswith("several")]
    assert merged == [
        r"several tags are named 'lo\\nss': their points are aggregated together",
        r"several texts are named 'no\\x00te': the first one counts",
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(st.lists(TEXT, min_size=2, max_size=3), st.lists(TEXT, max_size=3))
def test_all_names_of_a_document_are_storable(tmp_path: Path, tags: list[str], texts: list[str]) -> None:
    write(tmp_path, tags, texts)
    document = collected(tmp_path).document()
    names = [*document["metadata"], *(metric["name"] for metric in document["metrics"])]
    assert [storable_name(name) for name in names] == names
    assert len(set(names)) == len(names)


def test_a_figure_of_the_goodput_log_has_a_storable_name() -> None:
    name = f"badput_custom_{'x' * 9_000}\n_seconds"
    (metric,) = generated([Metric(name, 1.0, name, "goodput")], MetricCollectionConfig())
    assert metric.name == storable_name(name)
