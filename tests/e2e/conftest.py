"""What runs of whole DAGs need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.home import Home


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    made = Home.make(tmp_path_factory.mktemp("airflow"))
    yield made
    made.stop()
