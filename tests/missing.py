"""What a test needs and this machine has not."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(why: str) -> NoReturn:
    """Loud on a laptop, an error where everything has to be tested."""
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)
