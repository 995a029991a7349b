"""The imports of `ml_metrics.config`, which DAG parsing pays for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "plugins"
HEAVY = ("numpy", "pandas", "_gojsonnet", "jinja2", "kubernetes", "airflow", "fsspec", "google.auth", "tensorboard")
PROGRAM = """
import sys
from pathlib import Path
from ml_metrics.config.loading import load_tests
assert load_tests(sys.argv[1]).tests
print(*sorted(name for name in {heavy} if name in sys.modules))
"""


def test_loading_yaml_imports_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("{name: t, image: i, command: [c], schedule: '@daily'}", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(heavy=HEAVY), str(tmp_path)],
        env={"PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []
