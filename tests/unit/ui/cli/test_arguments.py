"""The parser of every command, and the types that check arguments."""

from __future__ import annotations

import getpass
from argparse import ArgumentParser, ArgumentTypeError
from datetime import UTC, datetime

import pytest

from ml_metrics.core.values import BEGINNING_OF_TIME
from ml_metrics.ui.cli import arguments
from ml_metrics.ui.cli.arguments import Parser

ABOUT = """\
A paragraph that is longer than the eighty columns of a terminal, so that it has to be wrapped somewhere.

  $ an example that stays as it is
"""


def parser() -> Parser:
    made = Parser(prog="program", description=ABOUT)
    made.add_argument("--limit", type=int)
    return made


def test_paragraphs_are_wrapped_and_examples_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, width in (("80", 78), ("40", 38), ("200", 78)):
        monkeypatch.setenv("COLUMNS", columns)
        lines = parser().format_help().splitlines()
        assert max(map(len, lines)) <= width
        assert "  $ an example that stays as it is" in lines


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--limt", "3"], "unknown option '--limt'; did you mean '--limit'?"),
        (["--limt=3"], "unknown option '--limt'; did you mean '--limit'?"),
        (["--zzz"], "unknown option '--zzz'"),
        (["--tim"], "unknown option '--tim'"),
        (["--json"], "--json: this command has no answer that could be a document"),
        (["extra"], "unexpected argument 'extra'"),
        (["a\x1b[2Jb"], "unexpected argument 'a\\x1b[2Jb'"),
    ],
)
def test_errors(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse(argv)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"program: error: {message}\n")


def test_whole_numbers_have_bounds() -> None:
    parse = arguments.whole_number(1, 100)
    assert [parse("1"), parse("100")] == [1, 100]
    for wrong in ("0", "101", "-1", "1.5", "", "nan", "9" * 5000):
        with pytest.raises(ArgumentTypeError, match="should be a whole number from 1 to 100"):
            parse(wrong)


def test_positive_numbers_are_finite() -> None:
    assert arguments.days("0.5") == 0.5
    for wrong in ("0", "-1", "nan", "inf", "1e9", "", "soon"):
        with pytest.raises(ArgumentTypeError, match="should be a number of days above 0, at most 36500"):
            arguments.days(wrong)


@pytest.mark.parametrize(
    "argument", ["2026-01-05T08:00:00Z", "2026-01-05 08:00", "2026-01-05T09:00:00+01:00", "1767600000"]
)
def test_a_moment_is_utc(argument: str) -> None:
    assert arguments.moment(argument) == datetime(2026, 1, 5, 8, tzinfo=UTC)


def test_a_moment_before_the_calendar_is_its_beginning() -> None:
    assert arguments.moment("0001-01-01T00:00+14:00") == BEGINNING_OF_TIME


@pytest.mark.parametrize("argument", ["noon", "", "nan", "inf", "1e300", "9" * 5000])
def test_other_texts_are_no_moments(argument: str) -> None:
    with pytest.raises(ArgumentTypeError, match="should be a time such as"):
        arguments.moment(argument)


@pytest.mark.parametrize("argument", ["", "=", "=value", "name"])
def test_pairs_need_a_name_and_a_value(argument: str) -> None:
    assert arguments.pair("name=a=b") == ("name", "a=b")
    with pytest.raises(ArgumentTypeError, match="NAME=VALUE"):
        arguments.pair(argument)


def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise KeyError("getpwuid(): uid not found: 1000")

    monkeypatch.setattr(getpass, "getuser", fail)
    parser = ArgumentParser()
    arguments.add_by(parser)
    assert parser.parse_args([]).by == "unknown"
