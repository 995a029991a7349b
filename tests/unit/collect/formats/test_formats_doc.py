"""docs/formats.md is what the registries say, and its examples are valid."""

import importlib.util
import re
from pathlib import Path

import yaml

from golden import check
from ml_metrics.config.collection import MetricCollectionConfig

DOCS = Path(__file__).parents[4] / "docs"


def test_the_page_is_made_from_the_registries() -> None:
    spec = importlib.util.spec_from_file_location("make_formats", DOCS / "make_formats.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check(str(DOCS / "formats.md"), module.page())


def test_its_examples_are_valid() -> None:
    examples = re.findall(r"^```yaml\n(.*?)^```", (DOCS / "formats.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) == 3
    for example in examples:
        MetricCollectionConfig.model_validate(yaml.safe_load(example)["metric_collection_config"])
