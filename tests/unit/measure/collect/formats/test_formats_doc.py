"""docs/formats.md has a row for each format, log profile and history, and its examples are valid."""

import re
from pathlib import Path

import yaml

from ml_metrics.config.collection import FORMAT_FILES, MetricCollectionConfig
from ml_metrics.measure import LOG_PROFILES
from ml_metrics.measure.histories import BY_NAME as HISTORIES
from ml_metrics.measure.histories import Mapping
from ml_metrics.measure.readers.registry import BY_NAME

PAGE = (Path(__file__).parents[5] / "docs" / "formats.md").read_text(encoding="utf-8")


def test_each_format_profile_and_history_has_a_row() -> None:
    for head, names in (("format", BY_NAME), ("profile", LOG_PROFILES), ("`--from`", HISTORIES)):
        table = re.search(rf"^\| {head} \|.*\n\|[ -|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
        assert table is not None
        assert set(re.findall(r"^\| `([^`]+)` \|", table[1], re.MULTILINE)) == set(names), head
    assert set(re.findall(r"^- `([^`]+)`: \S", PAGE, re.MULTILINE)) <= set(BY_NAME)
    assert not [pattern for pattern in FORMAT_FILES if f"`{pattern}`" not in PAGE], "names looked at, of FORMAT_FILES"


def test_its_examples_are_valid() -> None:
    *examples, mapping = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    assert len(examples) == 3
    for example in examples:
        MetricCollectionConfig.model_validate(example["metric_collection_config"])
    assert len(Mapping.model_validate(mapping).metrics) == 2
