from __future__ import annotations

from typing import Any

import pytest

from ml_metrics import TestDefinition
from ml_metrics.config.clusters import pool_of
from ml_metrics.core.text import listed


@pytest.mark.parametrize(
    ("accelerator", "pool", "setting", "expected"),
    [
        ("h100x8", None, "", None),
        ("h100x8", None, "gpu", "gpu"),
        ("h100x8", None, "gpu, h100x8", "h100x8"),
        ("v5litepod-16", None, "gpu , tpu", "tpu"),
        ("cpu", None, "gpu,tpu", None),
        ("cpu", None, "cpu", "cpu"),
        ("h100x8", "mine", "gpu", "mine"),
    ],
)
def test_a_test_waits_in_the_most_specific_configured_pool(
    accelerator: str, pool: str | None, setting: str, expected: str | None
) -> None:
    content: dict[str, Any] = {"name": "t", "image": "i", "command": ["x"], "accelerator": accelerator, "pool": pool}
    assert pool_of(TestDefinition.model_validate(content), listed(setting)) == expected
