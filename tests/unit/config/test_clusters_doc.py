"""docs/kubernetes.md lists every option of a cluster, and its example is valid."""

from __future__ import annotations

import re
from pathlib import Path

from docstrings import docstrings
from golden import check
from ml_metrics.config.clusters import ClusterAccess, Clusters
from ml_metrics.config.settings_file import read_once

DOC = Path(__file__).parents[3] / "docs" / "kubernetes.md"


def test_every_option_is_listed() -> None:
    text = DOC.read_text(encoding="utf-8")
    rows = [f"| `{key}` | {meaning} |" for key, meaning in docstrings(ClusterAccess).items()]
    assert len(rows) == len(ClusterAccess.model_fields)
    table = "\n".join(["| option | meaning |", "| --- | --- |", *rows])
    filled = f"<!-- keys: ClusterAccess -->\n\n{table}\n\n<!-- end -->"
    check(str(DOC), re.sub(r"<!-- keys: ClusterAccess -->.*?<!-- end -->", lambda _: filled, text, flags=re.DOTALL))


def test_the_example_is_valid(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(# /etc.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "clusters.yaml").write_text(example)
    known = read_once(tmp_path / "clusters.yaml", Clusters, "the file of clusters")
    assert set(known.clusters) == {"tpus", "lab", "here"}
