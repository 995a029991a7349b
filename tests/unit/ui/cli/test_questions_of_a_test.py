"""`ml-metrics bisect TEST METRIC` and `compare TEST`: candidates from the history and from git, trials, and bad input.

`airflow dags test` is replaced by a function that records what a run of the test would.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.core.model import JobStatus, Outcome
from ml_metrics.ui import cli
from ml_metrics.ui.cli import measuring
from ml_metrics.ui.cli.arguments import UsageError
from ml_metrics.ui.cli.bisect import commits_between
from ml_metrics.warehouse import Warehouse, open_warehouse
from unit.ui.cli.shell import Shell
from unit.warehouse.records import record, run_of

WAREHOUSE = "sqlite:///w.db"
IMAGES = [f"app@sha256:{number:064x}" for number in range(9)]
TEST = {
    "name": "t",
    "image": "app:1",
    "command": ["c"],
    "by_hand": ["image"],
    "params": {"commit": "x", "packages": ""},
}
GOOD, BAD = run_of(1, "t").key, run_of(14, "t").key

Level = Callable[[str], "float | str"]
"""The value of a version, or the reason why its run breaks."""


class Airflow:
    """What the command `airflow` does to the warehouse."""

    def __init__(self, parameter: str, level: Level) -> None:
        self.parameter, self.level = parameter, level
        self.ran: list[str] = []
        self.pinned: list[str] = []

    def __call__(self, command: list[str], _: float | None) -> str:
        conf = json.loads(command[-1])
        assert (command[:3], conf["trial"]) == (["airflow", "dags", "test"], "yes")
        self.pinned.append(conf.get("trial_node", ""))
        version = conf[self.parameter]
        self.ran.append(version)
        level = self.level(version)
        status = JobStatus.SUCCESS if isinstance(level, float) else JobStatus.FAILURE
        made = record(100 + len(self.ran), {"loss": level} if isinstance(level, float) else {}, test="t",
                      status=status, metadata=self._metadata(version), trial=(self.parameter,))  # fmt: skip
        reason = None if isinstance(level, float) else level
        image = version if self.parameter == "image" else "app:1"
        with open_warehouse(WAREHOUSE) as warehouse:
            warehouse.load(replace(made, job=replace(made.job, image=image, failure_reason=reason)))
        return ""

    def _metadata(self, version: str) -> dict[str, str]:
        own = {} if self.parameter == "image" else {f"param.{self.parameter}": version}
        return {"node": self.pinned[-1] or f"node-{len(self.ran) // 2 % 2}", **own}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("configs").mkdir()
    Path("configs/t.yaml").write_text(json.dumps(TEST))
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", str(tmp_path / "configs"))
    return tmp_path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen runs of eight images and commits; the loss is higher since the sixth image."""
    file, records = tmp_path_factory.mktemp("recorded") / "w.db", []
    for day in range(16):
        image, broken = day // 2, day > 9
        metadata = {"image_digest": f"docker-pullable://{IMAGES[image]}", "param.commit": f"c{image}"}
        metadata |= {"package.jax": f"0.{int(broken)}", "package.numpy": f"2.{int(broken)}"}
        outcome = {"loss": Outcome.FAIL if broken else Outcome.PASS}
        value = 0.5 + 0.2 * broken + 0.001 * (day % 3)
        records.append(record(day, {"loss": value}, test="t", outcomes=outcome, metadata=metadata))
    with open_warehouse(f"sqlite:///{file}") as opened:
        opened.load_all(records)
    return file


@pytest.fixture
def history(recorded: Path, folder: Path) -> Warehouse:
    shutil.copy(recorded, folder / "w.db")
    return open_warehouse(WAREHOUSE)


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch, history: Warehouse) -> Callable[[str, Level], Airflow]:
    def replaced(parameter: str, level: Level) -> Airflow:
        assert history.address
        made = Airflow(parameter, level)
        monkeypatch.setattr(measuring, "_airflow", made)
        return made

    return replaced


def bisect(*options: str) -> int:
    return cli.main(["bisect", "t", "loss", "--warehouse", WAREHOUSE, *options])


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def of_image(image: str) -> float | str:
    number = int(image[-2:], 16)
    return "ErrImageNeverPull" if number == 4 else 0.7 if number >= 5 else 0.5


def test_the_images_between_two_runs(
    airflow: Callable[[str, Level], Airflow], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of them cannot be pulled any more. The same command again reads its journal, although the history grew."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    running = airflow("image", of_image)
    assert bisect("--good", GOOD, "--bad", BAD, "--junit", "found.xml", "--json") == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert (found["good"], found["bad"], found["between"]) == (IMAGES[3], IMAGES[5], [IMAGES[4]])
    assert found["certainty"] > 0.97
    assert "planned: 12 runs or more of both ends" in printed.err
    assert "untestable, ErrImageNeverPull" in printed.err
    assert "<failure" in Path("found.xml").read_text()
    (journal,) = Path().glob("bisect-*.jsonl")
    assert f"journal: {journal}" in printed.err

    with open_warehouse(WAREHOUSE) as warehouse:
        warehouse.load(record(50, {"loss": 0.9}, test="t", metadata={"image": "app:9"}))
    made = len(running.ran)
    assert bisect("--good", GOOD, "--bad", BAD, "--json") == 0
    assert answer(capsys) == found
    assert len(running.ran) == made, "everything is in the journal"


def test_the_newest_broken_run_is_the_default(
    airflow: Callable[[str, Level], Airflow], capsys: pytest.CaptureFixture[str]
) -> None:
    running = airflow("image", of_image)
    assert bisect("--dry-run") == 0
    assert "candidates: 4, from " in capsys.readouterr().out
    assert running.ran == []
    assert list(Path().glob("*.jsonl")) == []


def test_the_packages_of_two_runs(airflow: Callable[[str, Level], Airflow], capsys: pytest.CaptureFixture[str]) -> None:
    airflow("packages", lambda packages: 0.7 if "numpy==2.1" in packages else 0.5)
    assert bisect("--good", GOOD, "--bad", BAD, "--candidates", "packages", "--json") == 0
    assert answer(capsys)["bad"] == "jax==0.1 numpy==2.1"


def git(*argv: str) -> str:
    who = ["-c", "user.name=a-new-user", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *who, *argv], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def commits() -> list[str]:
    """Twelve commits: the level changes with the eighth, and the ninth does not build."""
    git("init", "-q", "repository")
    Path("repository/level").touch()
    git("-C", "repository", "add", "level")
    for number in range(12):
        built = "" if number == 8 else "0.7" if number > 6 else "0.5"
        Path("repository/level").write_text(built)
        git("-C", "repository", "commit", "-q", "--allow-empty", "-am", f"commit {number}", f"--date={number} days ago")
    return git("-C", "repository", "rev-list", "--reverse", "HEAD").split()


COMMITS = ("--candidates", "commits", "--repository", "repository")


def test_commits_that_are_built_and_run_as_trials(
    commits: list[str], airflow: Callable[[str, Level], Airflow], capsys: pytest.CaptureFixture[str]
) -> None:
    """The build command sees the working tree of the commit, and each commit is built once."""
    build = f'echo "$CANDIDATE" >>{Path.cwd()}/built; test -s level && echo "app:$(cat level)"'
    running = airflow("image", lambda image: float(image.removeprefix("app:")))
    assert bisect(*COMMITS, "--good", commits[0], "--bad", "HEAD", "--build", build, "--json") == 0
    found = answer(capsys)
    assert (found["good"], found["bad"]) == (commits[6], commits[7])
    assert set(running.ran) == {"app:0.5", "app:0.7"}
    assert len(built := Path("built").read_text().splitlines()) == len(set(built))
    assert git("-C", "repository", "worktree", "list").count("\n") == 1


def test_commits_of_two_runs_measured_by_a_command(
    commits: list[str], history: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    """The runs recorded their commits, and the command measures in a working tree of each."""
    both = ((20, commits[1], 0.5), (21, commits[10], 0.7))
    history.load_all(
        [record(day, {"loss": value}, test="t", metadata={"param.commit": commit}) for day, commit, value in both]
    )
    ends = ("--good", run_of(20, "t").key, "--bad", run_of(21, "t").key)
    assert bisect(*COMMITS, *ends, "--run", "test -s level || exit 125; cat level", "--json") == 0
    assert answer(capsys)["bad"] == commits[7]


ONE, OTHERS = "one.txt", "two.txt"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--good", "none"), "good: 'none' is none of the newest 16 runs with this metric: give a run key"),
        (("--good", BAD, "--bad", GOOD), "is not before the bad one; `good` and `bad` seem to be swapped"),
        (("--good", GOOD, "--bad", GOOD), "the good run is not before the bad one"),
        (("--good", run_of(2, "t").key, "--bad", run_of(3, "t").key), "have the same image"),
        (("--candidates", ONE), "candidates: 1 given: a search needs a good and a bad one"),
        (("--candidates", "none.txt"), "none.txt"),
        (("--candidates", OTHERS, "--max-runs", "1"), "max_runs: 1 cannot show that the ends differ"),
        (("--candidates", OTHERS, "--good", "app:3"), "good: 'app:3' is not among the 2 candidates"),
        (("--candidates", OTHERS, "--parameter", "comit"), "test t has no parameter 'comit'; did you mean 'commit'?"),
        (("--candidates", "packages", "--parameter", "image"), "name the parameter of the test that takes packages"),
        (("--candidates", "commits"), "--repository: . is not a git repository"),
        (("--build", "make"), "--build builds commits: it needs --candidates commits"),
        (("--from", "good.json"), "--from and --to are for --candidates FILE and --run"),
    ],
)
def test_what_cannot_be_searched(
    options: tuple[str, ...],
    message: str,
    airflow: Callable[[str, Level], Airflow],
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path(ONE).write_text("app:1\n")
    Path(OTHERS).write_text("app:1\napp:2\n")
    running = airflow("image", of_image)
    assert bisect(*options) == 2
    assert message in capsys.readouterr().err
    assert running.ran == []
    assert list(Path().glob("*.jsonl")) == [], "nothing is begun"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["t"], "t: name the METRIC that changed as well"),
        (["t", "los"], "metric: no run of t has 'los'; did you mean 'loss'?"),
        (["u", "loss"], "no run of u has 'loss'"),
        ([], "give TEST and METRIC, or --candidates FILE and --run"),
        (["--run", "true", "--candidates", "images"], "give TEST and METRIC, whose runs state the candidates"),
    ],
)
@pytest.mark.usefixtures("history")
def test_questions_that_are_not_whole(argv: list[str], message: str, ml: Shell) -> None:
    assert message in ml("bisect", *argv, "--warehouse", WAREHOUSE, code=2)


def test_commits_in_the_wrong_order(commits: list[str]) -> None:
    with pytest.raises(UsageError, match="seem to be swapped"):
        commits_between("repository", commits[5], commits[2])
    with pytest.raises(UsageError, match="the same commit"):
        commits_between("repository", commits[5], commits[5])
    with pytest.raises(UsageError, match="'--version' is not a commit"):
        commits_between("repository", "--version", commits[5])


def compare(*options: str) -> int:
    return cli.main(["compare", "t", "--base", "app:1", "--candidate", "app:2", "--warehouse", WAREHOUSE, *options])


def test_images_are_compared_on_the_nodes_that_they_ran_on(
    airflow: Callable[[str, Level], Airflow], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The form of the question has no journal; the runs that it takes by the history are stated before any starts."""
    running = airflow("image", lambda image: 0.7 if image == "app:2" else 0.5)
    assert compare("--dry-run") == 0
    assert "planned: 12 to 16 runs for a change of 2 %: the noise of loss is " in capsys.readouterr().out
    assert running.ran == []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert compare("--metric", "loss") in {0, 1}
    printed = capsys.readouterr()
    assert printed.err.index("planned: ") < printed.err.index("run 1 of at most 60")
    assert "the host changed in " in printed.out
    assert "journal: compare-" in printed.err


def test_the_runs_of_a_block_stay_on_the_node_of_its_first_one(
    airflow: Callable[[str, Level], Airflow], capsys: pytest.CaptureFixture[str]
) -> None:
    running = airflow("image", lambda image: 0.7 if image == "app:2" else 0.5)
    assert compare("--metric", "loss", "--same-node") == 1
    assert running.pinned == [node for first in ("node-0", "node-0", "node-0") for node in ("", *[first] * 3)]
    assert "the host changed" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "level", "code", "message"),
    [
        ((), lambda image: 0.5 if image == "app:1" else "ErrImagePull", 1, "app:2 measured nothing: ErrImagePull"),
        ((), lambda _: "ErrImagePull", 2, "every run of the base and the candidate broke: ErrImagePull"),
        (("--metric", "los"), lambda _: 0.5, 1, "no metric was measured in both arms"),
        (("--max-runs", "1"), lambda _: 0.5, 2, "a comparison takes 12 runs or more"),
        (("--candidate", "app:1"), lambda _: 0.5, 2, "there is nothing to compare"),
        (("--parameter", "comit"), lambda _: 0.5, 2, "did you mean 'commit'?"),
    ],
)
def test_comparisons_that_end_early(
    options: tuple[str, ...],
    level: Level,
    code: int,
    message: str,
    airflow: Callable[[str, Level], Airflow],
    capsys: pytest.CaptureFixture[str],
) -> None:
    airflow("image", level)
    assert compare(*options) == code
    printed = capsys.readouterr()
    assert message in printed.out + printed.err


def test_a_host_that_changed_in_the_middle_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the seventh run on, the host takes 30 % longer for the calibration loop, and for either version."""
    monkeypatch.setattr(measuring, "loop_seconds", lambda: 0.0013 if made() > 6 else 0.001)

    def made() -> int:
        return len(Path("j.jsonl").read_text().splitlines())

    measure = 'n=$(wc -l <j.jsonl); [ "$n" -gt 6 ] && echo 1.3$n || echo 1.0$n'
    versions = ["--base", "a", "--candidate", "b", "--run", measure, "--journal", "j.jsonl", "--max-runs", "24"]
    code = cli.main(["compare", *versions, "--json"])
    found = answer(capsys)
    assert (code, found["metrics"]["value"]["verdict"]) != (1, "worse")
    assert found["notes"] == [
        (
            "the host changed before run 7: the calibration loop takes 1.3 times as long since then."
            " Runs from before and after are not compared within a block"
        )
    ]
