"""docs/formats.md and docs/import.md are what the registries say, and their examples are valid."""

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


def test_the_pages_are_made_from_the_registries() -> None:
    check(str(DOCS / "formats.md"), maker().page())
    check(str(DOCS / "import.md"), maker().histories())


def test_the_mapping_of_the_page_about_imports_is_valid() -> None:
    (example,) = re.findall(r"^```yaml\n(.*?)^```", (DOCS / "import.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(Mapping.model_validate(yaml.safe_load(example)).metrics) == 2


def test_its_examples_are_valid() -> None:
    examples = re.findall(r"^```yaml\n(.*?)^```", (DOCS / "formats.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) == 3
    for example in examples:
        MetricCollectionConfig.model_validate(yaml.safe_load(example)["metric_collection_config"])
