"""The help and the errors of every command's parser."""

from __future__ import annotations

import pytest

from ml_metrics.cli.parser import Parser

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
        (["extra"], "unexpected argument 'extra'"),
        (["a\x1b[2Jb"], "unexpected argument 'a\\x1b[2Jb'"),
    ],
)
def test_errors(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse(argv)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"program: error: {message}\n")
