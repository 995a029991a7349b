"""The dashboard knows of a quarantine that stands in a test file, and forgets it with the file."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from ml_metrics import steps
from ml_metrics.config.definition import TestDefinition
from ml_metrics.config.quarantine import Quarantine
from ml_metrics.warehouse import open_warehouse

TODAY = datetime.now(UTC).date()
FLAKY = Quarantine(until=TODAY + timedelta(days=2), reason="flaky")


def spec(quarantine: Quarantine | None) -> TestDefinition:
    return TestDefinition(name="t", image="i", command=("c",), quarantine=quarantine)


def test_the_file_s_word_is_passed_on_once_and_taken_back(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        for _ in range(2):
            steps._pass_on_quarantine(spec(FLAKY), warehouse)
        word = warehouse.quarantines()["t"]
        assert (word.reason, word.by) == ("flaky", steps.THE_FILE)
        assert word.until.date() == TODAY + timedelta(days=3), "the last day is quiet to its end"
        steps._pass_on_quarantine(spec(FLAKY), warehouse)
        assert warehouse.quarantines()["t"].at == word.at, "said once"
        steps._pass_on_quarantine(spec(None), warehouse)
        assert not warehouse.quarantines()["t"].holds(now + timedelta(seconds=5))


def test_what_a_person_said_stays(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        warehouse.quarantine("t", until=now + timedelta(days=1), reason="a move", by="vera")
        steps._pass_on_quarantine(spec(None), warehouse)
        steps._pass_on_quarantine(spec(Quarantine(until=TODAY - timedelta(days=1), reason="over")), warehouse)
        assert warehouse.quarantines()["t"].by == "vera"
        assert warehouse.quarantines()["t"].holds(now)
