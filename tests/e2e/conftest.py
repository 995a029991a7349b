"""What runs of whole DAGs need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.home import Home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """An Airflow for the tests of one file: what one file leaves behind, a broken test for one, no other meets."""
    made = Home.make(tmp_path_factory.mktemp("airflow"))
    yield made
    made.stop()
