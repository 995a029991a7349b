"""The programs in docs/sources.md give the metrics that the page names."""

import re
from pathlib import Path

import pytest

from unit.measure.collect.run_folders import collected, values

PAGE = (Path(__file__).parents[4] / "docs" / "sources.md").read_text(encoding="utf-8")
RESULTS = {
    "Flat lines: points": {"loss_final": 50 / 30, "eval/accuracy_final": 0.5},
    "CSV": {"epoch_final": 0, "train_loss_final": 50 / 30, "val_loss_final": 2},
    "Results": {"batch=64/throughput": 6400, "batch=128/throughput": 12800},
}


@pytest.mark.parametrize("heading", RESULTS)
def test_the_program_of_a_section_gives_its_metrics(
    heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = re.split(r"^##+ ", PAGE.split(f"# {heading}\n")[1], flags=re.MULTILINE)[0]
    (program,) = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    monkeypatch.setenv("ML_METRICS_RUN_DIR", str(tmp_path))
    exec(compile(program, "docs/sources.md", "exec"), {})
    found = collected(tmp_path)
    assert (values(found), found.warnings) == (RESULTS[heading], ())
