"""The files in docs/sources.md give the metrics that the page names."""

import re
from pathlib import Path

import pytest

from ml_metrics.config.yaml import parse_yaml
from unit.measure.collect.run_folders import collected, values

PAGE = (Path(__file__).parents[4] / "docs" / "sources.md").read_text(encoding="utf-8")
ANY = "Any document"
FLAT = "Flat lines: points"
FILES = {ANY: "result.json", FLAT: "metrics.jsonl", "CSV": "metrics.csv", "Results": "results.jsonl"}
RESULTS = {
    ANY: {"accuracy": 0.91, "load/latency": 41.5, "idle/latency": 3.25, "loss_final": 2.5},
    FLAT: {"loss_final": 2.5, "eval/accuracy_final": 0.7},
    "CSV": {"epoch_final": 0, "train_loss_final": 2.5, "val_loss_final": 2},
    "Results": {"batch=64/throughput": 6400, "batch=128/throughput": 12800},
}


@pytest.mark.parametrize("heading", RESULTS)
def test_the_file_of_a_section_gives_its_metrics(heading: str, tmp_path: Path) -> None:
    section = re.split(r"^##+ ", PAGE.split(f"# {heading}\n")[1], flags=re.MULTILINE)[0]
    (content,) = re.findall(r"^```(?:json|csv)\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    (tmp_path / FILES[heading]).write_text(content, encoding="utf-8")
    config = re.search(r"^```yaml\n(metric_collection_config:.*?)^```", section, re.MULTILINE | re.DOTALL)
    documents = parse_yaml(config[1], "sources.md")[0]["metric_collection_config"] if config else {}
    found = collected(tmp_path, **documents)
    assert (values(found), found.warnings) == (RESULTS[heading], ())
    assert all(name in section for name in RESULTS[heading])
