"""`ml-metrics report`: its arguments. The pages themselves are tested with the dashboard."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_metrics.ui.cli import main
from unit.ui.cli.shell import Shell
from unit.warehouse.records import TEST


def test_the_files_are_written(address: str, empty_home: Path, ml: Shell) -> None:
    argv = ["report", "out", TEST, "--since", "2026-03-01", "--until", "2026-03-31", "--warehouse", address]
    assert ml(*argv).startswith("1 test, ")
    document = ml.json(*argv)
    assert (document["index"], document["tests"]) == ("out/index.html", 1)
    assert all((empty_home / file["place"]).stat().st_size == file["bytes"] for file in document["files"])


@pytest.mark.parametrize(
    "wrong",
    [
        ["--tz", "Nowhere"],
        ["--tz", "../../etc/passwd"],
        ["--since", "soon"],
        ["--until", "2026-02-30"],
        ["--since", "2026-02-02", "--until", "2026-02-01"],
        ["no-such-test"],
    ],
    ids=" ".join,
)
def test_nothing_is_written_before_the_arguments_are_checked(
    wrong: list[str], address: str, empty_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "out", *wrong, "--warehouse", address]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err
    assert list(empty_home.iterdir()) == []
