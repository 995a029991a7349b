"""Which Python `make` takes, in folders of any name, and what its campaigns play. Nothing is installed or played."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from servers.compose_file import PROJECT

TOOLS = ("make", "sh", "mkdir", "touch", "grep", "cat", "chmod")
PYTHON = """#!/bin/sh
# a Python of version {version}, as far as make uses it
case "$1 $2" in
-c*) exit {unsupported} ;;
"-m venv") shift 2; [ "$1" != --clear ] || shift; mkdir -p "$1/bin"; cat "$0" >"$1/bin/python"
    chmod +x "$1/bin/python" ;;
esac
echo "{version} $*" >>"$LOG"
"""


class Machine:
    """A checkout, and a path with the programs that make needs and the Pythons of a test."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.programs, self.log = folder / "check out", folder / "bin", folder / "log"
        self.checkout.mkdir(parents=True)
        self.programs.mkdir()
        shutil.copy(PROJECT / "Makefile", self.checkout)
        (self.checkout / "requirements").mkdir()
        shutil.copy(PROJECT / "requirements" / "requirements-uv.lock", self.checkout / "requirements")
        for name in TOOLS:
            (self.programs / name).symlink_to(str(shutil.which(name)))

    def add(self, program: str, version: str, *, starts: bool = True, supported: bool = True) -> None:
        if (self.programs / program).exists():
            (self.programs / program).unlink()
        script = PYTHON.format(version=version, unsupported=int(not supported))
        (self.programs / program).write_text(script if starts else "#!/bin/sh\necho no such version >&2; exit 127\n")
        (self.programs / program).chmod(0o755)

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.programs), "LOG": str(self.log)}
        command = [self.programs / "make", "-s", ".venv/.uv", *arguments]
        return subprocess.run(command, cwd=self.checkout, env=environment, capture_output=True, text=True, check=False)

    def made_by(self) -> str:
        """Return the version that made the environment."""
        (version,) = re.findall(r"^(\S+) \.venv$", self.log.read_text(), re.MULTILINE)
        self.log.unlink()
        return str(version)


@pytest.fixture(params=["plain", "with a blank", 'it\'s "a" & | #x'])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path / request.param)


def test_the_first_python_that_starts_and_is_supported_is_taken(machine: Machine) -> None:
    machine.add("python3.11", "3.11", starts=False)
    machine.add("python3.13", "3.13")
    machine.add("python3", "3.14", supported=False)
    assert machine.make().returncode == 0
    assert machine.made_by() == "3.13"


def test_a_python_without_a_version_in_its_name_is_taken_if_it_is_supported(machine: Machine) -> None:
    machine.add("python3", "3.12")
    assert machine.make().returncode == 0
    assert machine.made_by() == "3.12"


def test_a_person_chooses_another_python(machine: Machine) -> None:
    machine.add("python3.11", "3.11")
    machine.add("my python", "3.13")
    assert machine.make("PYTHON=my python").returncode == 0
    assert machine.made_by() == "3.13"


def test_an_environment_keeps_its_python(machine: Machine) -> None:
    machine.add("python3.12", "3.12")
    machine.make()
    machine.log.unlink()
    machine.add("python3.11", "3.11")
    os.utime(machine.checkout / ".venv" / ".uv", (0, 0))
    assert machine.make().returncode == 0
    assert machine.made_by() == "3.12"
    (machine.checkout / ".venv" / "bin" / "python").unlink()  # its Python was removed
    os.utime(machine.checkout / ".venv" / ".uv", (0, 0))
    assert machine.make().returncode == 0
    assert machine.made_by() == "3.11"


@pytest.mark.parametrize("arguments", [[], ["PYTHON=python3"], ["PYTHON=not-there"]])
def test_without_a_supported_python_the_message_names_what_is_needed(machine: Machine, arguments: list[str]) -> None:
    machine.add("python3.11", "3.11", starts=False)
    machine.add("python3", "3.14", supported=False)
    done = machine.make(*arguments)
    assert done.returncode != 0
    assert "Python 3.11, 3.12 or 3.13 is needed, with its modules venv and ensurepip" in done.stderr
    tried = arguments[0].removeprefix("PYTHON=") if arguments else "python3.11, python3.12, python3.13 and python3"
    assert f"(tried: {tried}" in done.stderr
    assert "make install PYTHON=/path/to/python3.12" in done.stderr
    assert not (machine.checkout / ".venv").exists()


def campaign(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Say what would be done."""
    environment = {"PATH": os.environ["PATH"]}
    command = ["make", "-n", "campaign", "PYTHON=python3", *arguments]
    return subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)


def refusal(*arguments: str) -> tuple[list[str], list[str]]:
    """Return the names that a refusal states: of campaigns, and of those that have a short form."""
    done = campaign(*arguments)
    assert (done.returncode, done.stdout) == (2, ""), "nothing is installed before"
    ((whole, short),) = re.findall(r"\*\*\* NAME is one of (.+); with SHORT=1, one of (.+)\.  Stop\.", done.stderr)
    return whole.split(), short.split()


CAMPAIGNS, SHORT = refusal()
FILES = re.compile(r"(?<!--ignore )\b(?:tests|campaigns|packages)/\S+")


@pytest.mark.parametrize(
    "arguments", [["NAME=mesages"], ["NAME=kills ends"], ["NAME=all"], ["NAME=releases", "SHORT=1"], ["SHORT=1"]]
)
def test_a_campaign_that_does_not_exist_is_refused_with_the_names(arguments: list[str]) -> None:
    assert refusal(*arguments) == (CAMPAIGNS, SHORT)
    assert {"kills", "messages"} < set(CAMPAIGNS)
    assert set(SHORT) - set(CAMPAIGNS) == {"all"}


def test_campaigns_play_files_that_exist() -> None:
    plays = [(name, "") for name in CAMPAIGNS] + [(name, "1") for name in SHORT]
    for name, short in plays:
        done = campaign(f"NAME={name}", f"SHORT={short}")
        last = done.stdout.replace("\\\n", " ").splitlines()[-1]
        files = FILES.findall(re.sub(r"PYTHONPATH=\S+", "", last))
        assert done.returncode == 0
        assert files or " python -m campaigns.fleet " in last, name
        assert [file for file in files if not (PROJECT / file).exists()] == []
        shortened = bool(short) and not name.startswith(("fleet", "kubernetes"))
        assert (" ML_METRICS_MESSAGES_RUNS=2 " in last) == shortened


def test_the_page_lists_each_campaign() -> None:
    page = (PROJECT / "docs" / "contributing.md").read_text().partition("| campaign | what it does |")[2]
    rows = re.findall(r"^\| `([a-z-]+)(?: SHORT=1)?` \|", page, re.MULTILINE)
    assert sorted(rows) == sorted({*CAMPAIGNS, "all"} - {"fleet-full"})
