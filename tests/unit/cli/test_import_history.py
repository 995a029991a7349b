"""`ml-metrics import`. The rows that it writes are tested with the warehouse."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_metrics import cli


def test_importing_needs_a_source_of_the_older_shape(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["import", f"sqlite:///{tmp_path}/nothing.db", "--warehouse", address]) == 2
    assert "there is no such file" in capsys.readouterr().err
