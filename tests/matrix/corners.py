"""The corners of the matrix, and the tables that show them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).parents[2]
CORNERS = Path(__file__).with_name("corners.toml")
PAGE = PROJECT / "docs" / "releasing.md"
LOCK = "requirements/requirements.lock"

AIRFLOW = "apache-airflow"
KUBERNETES = "apache-airflow-providers-cncf-kubernetes"
GOOGLE = "apache-airflow-providers-google"
HEAD = ("Airflow", "Python", "cncf-kubernetes", "google", "packages of", "")
README = PROJECT / "README.md"
SHORT_HEAD = ("Airflow", "Python")


@dataclass(frozen=True, slots=True)
class Corner:
    """One version of Airflow on one of Python, with the packages of a day."""

    airflow: str
    python: str
    packages: str
    pins: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    ci: bool = False

    @property
    def name(self) -> str:
        return f"{self.airflow}-py{self.python}"

    @property
    def requirements(self) -> list[str]:
        """What the corner asks for besides the package itself."""
        pinned = [f"apache-airflow-providers-{name}=={version}" for name, version in self.pins.items()]
        return [f"{AIRFLOW}=={self.airflow}", *pinned]

    @property
    def constraints(self) -> list[str]:
        """The arguments that make uv take the packages of the day."""
        return ["--constraint", str(PROJECT / LOCK)] if self.packages == LOCK else ["--exclude-newer", self.packages]

    def row(self, versions: Mapping[str, str]) -> tuple[str, ...]:
        """Return the row of the table, with the versions that were installed."""
        day = f"[{LOCK}](../{LOCK})" if self.packages == LOCK else self.packages
        return (versions[AIRFLOW], self.python, versions[KUBERNETES], versions[GOOGLE], day, self.note)


def load_corners() -> list[Corner]:
    return [Corner(**one) for one in tomllib.loads(CORNERS.read_text())["corners"]]


def number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def pythons(corners: Sequence[Corner]) -> list[str]:
    return sorted({one.python for one in corners}, key=number)


def summary(corners: Sequence[Corner]) -> list[tuple[str, str]]:
    """Return the rows of the short table: each minor version of Airflow, with its Pythons."""
    minors: dict[tuple[int, ...], list[Corner]] = {}
    for one in sorted(corners, key=lambda one: number(one.airflow)):
        minors.setdefault(number(one.airflow)[:2], []).append(one)
    return [
        (", ".join(dict.fromkeys(one.airflow for one in of_minor)), ", ".join(pythons(of_minor)))
        for of_minor in minors.values()
    ]


def table(rows: Sequence[Sequence[str]], head: Sequence[str] = HEAD) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


def rows_of_page() -> dict[str, tuple[str, ...]]:
    """Return the rows in docs/releasing.md by the name of their corners."""
    lines = table_in(PAGE, "corners").splitlines()[2:]
    cells = [tuple(cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")) for line in lines]
    return {f"{row[0]}-py{row[1]}": row for row in cells}


def write_tables(rows: Sequence[Sequence[str]], corners: Sequence[Corner]) -> None:
    """Replace the tables of both pages."""
    for page, name, new in ((PAGE, "corners", table(rows)), (README, "versions", table(summary(corners), SHORT_HEAD))):
        begin, _ = marks(name)
        page.write_text(page.read_text().replace(f"{begin}{table_in(page, name)}", f"{begin}{new}", 1))


def table_in(page: Path, name: str) -> str:
    """Return the table between the marks of this name."""
    begin, end = marks(name)
    return page.read_text().partition(begin)[2].partition(end)[0]


def marks(name: str) -> tuple[str, str]:
    return f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
