from __future__ import annotations

from pathlib import Path

import pytest

from unit.alerts.watching.observed import Observed


@pytest.fixture
def observed(tmp_path: Path) -> Observed:
    return Observed(tmp_path / "deployment")
