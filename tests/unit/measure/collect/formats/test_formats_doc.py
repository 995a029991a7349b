"""docs/formats.md is what the registries say, and its examples are valid."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import yaml

from golden import check
from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.measure.histories import Mapping

DOCS = Path(__file__).parents[5] / "docs"


def maker() -> Any:
    spec = importlib.util.spec_from_file_location("make_formats", DOCS / "make_formats.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_made_from_the_registries() -> None:
    check(str(DOCS / "formats.md"), maker().page())


def test_its_examples_are_valid() -> None:
    page = (DOCS / "formats.md").read_text()
    *examples, mapping = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    assert len(examples) == 3
    for example in examples:
        MetricCollectionConfig.model_validate(example["metric_collection_config"])
    assert len(Mapping.model_validate(mapping).metrics) == 2
