"""Break one place of the product at a time, and see whether a test notices: `make mutants`.

First every unit test is run once, to learn which lines each of them runs; what was learnt of test files that have not
changed since is kept. Then each mutant is met by the tests that run its line, the fastest first, until one of them
fails. A mutant that passes them all survives: it is a line whose meaning no test holds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypedDict

from campaigns.mutants.mutations import Mutation, mutations
from campaigns.mutants.runner import Outcome, Runner

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PROJECT = Path(__file__).parents[2]
PACKAGE = "plugins/ml_metrics"
ROOMS = ("judge", "warehouse", "alerts", "airflow/operators", "pipeline/steps.py", "pipeline/run_state.py")
LEARNT = PROJECT / "build" / "mutants" / "tests.json"
RESULTS = PROJECT / "build" / "mutants" / "results.json"
MOST_SECONDS = 300
"""What the tests of one mutant took while their lines were watched, three times as long; the slowest are left out."""


class Learnt(TypedDict):
    """What is known of the tests, and the content of the files that it holds for."""

    files: dict[str, str]
    tests: dict[str, Outcome]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="how many mutants (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="which ones are drawn (default: 1)")
    parser.add_argument("--rooms", nargs="+", default=ROOMS, help="folders and files of the package")
    parser.add_argument("--only", default="", help="only mutants whose place contains this text")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--afresh", action="store_true", help="learn of all tests, also of those that have not changed")
    parser.add_argument("--most", type=int, default=10, help="how many may survive (default: 10)")
    asked = parser.parse_args()
    if missing := [room for room in asked.rooms if not (PROJECT / PACKAGE / room).exists()]:
        parser.error(f"{PACKAGE} has no {', '.join(missing)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    subprocess.run([PROJECT / "tests/servers/make_bigquery_venv.sh"], check=True, capture_output=True)
    drawn = draw(asked.rooms, asked.count, asked.seed, asked.only)
    with TemporaryDirectory(prefix="mutants-") as folder:
        runners: SimpleQueue[Runner] = SimpleQueue()
        for number in range(asked.processes):
            runners.put(Runner(copied(Path(folder, str(number)))))
        with ThreadPoolExecutor(asked.processes) as pool:
            if asked.afresh:
                LEARNT.unlink(missing_ok=True)
            tests = Tests(learn(runners, pool))
            survivors = play(drawn, tests, runners, pool)
        while not runners.empty():
            runners.get().stop()
    print(f"\n{len(drawn) - len(survivors)} killed, {len(survivors)} survived of {len(drawn)} (seed {asked.seed})")
    return int(len(survivors) > asked.most)


def draw(rooms: Iterable[str], count: int, seed: int, only: str) -> list[Mutation]:
    """Some of all mutations of these rooms, at most one a line, always the same with the same seed."""
    found: list[Mutation] = []
    for room in rooms:
        path = PROJECT / PACKAGE / room
        for file in sorted(path.rglob("*.py") if path.is_dir() else [path]):
            found += mutations(PROJECT, file.relative_to(PROJECT))
    Random(seed).shuffle(found)
    drawn: dict[tuple[str, int], Mutation] = {}
    for one in found:
        if len(drawn) < count and only in one.place and (one.file, one.line) not in drawn and one.compiles:
            drawn[one.file, one.line] = one
    return sorted(drawn.values(), key=lambda one: (one.file, one.line))


def copied(folder: Path) -> Path:
    """The files of the project that git knows or would add, for mutants to be written into."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT, check=True, capture_output=True,
    )  # fmt: skip
    for name in listed.stdout.decode().rstrip("\0").split("\0"):
        if (PROJECT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, folder / name)
    for environment in (".venv", ".venv-bigquery"):
        (folder / environment).symlink_to(PROJECT / environment)
    return folder


def learn(runners: SimpleQueue[Runner], pool: ThreadPoolExecutor) -> Learnt:
    """Which tests run which lines, and how long each takes. A test that fails without a mutant is left out."""
    learnt: Learnt = json.loads(LEARNT.read_text()) if LEARNT.exists() else {"files": {}, "tests": {}}
    tests = contents("tests/unit", "test_*.py")
    changed = sorted(file for file, content in tests.items() if learnt["files"].get(file) != content)
    gone = {*changed, *(learnt["files"].keys() - tests.keys())}
    kept = {name: outcome for name, outcome in learnt["tests"].items() if name.split("::")[0] not in gone}
    chunks = [changed[start : start + 8] for start in range(0, len(changed), 8)]

    def run(chunk: list[str]) -> dict[str, Outcome]:
        runner = runners.get()
        try:
            return runner.trace(chunk, PACKAGE)
        finally:
            runners.put(runner)

    begun, found = time.monotonic(), dict[str, Outcome]()
    for number, outcomes in enumerate(pool.map(run, chunks), 1):
        found |= outcomes
        print(f"{time.monotonic() - begun:5.0f} s: {number} of {len(chunks)} groups of test files", flush=True)
    failed = sorted(name for name, outcome in found.items() if not outcome["passed"])
    if failed:
        print("left out, since they fail without a mutant:", *failed, sep="\n  ")
    modules = contents(PACKAGE, "*.py")
    if kept:  # the lines of the others are those of an earlier text
        modules = {file: content for file, content in modules.items() if learnt["files"].get(file) == content}
    learnt = {"files": {**tests, **modules}, "tests": {**kept, **found}}
    LEARNT.parent.mkdir(parents=True, exist_ok=True)
    LEARNT.write_text(json.dumps(learnt))
    return learnt


def contents(folder: str, pattern: str) -> dict[str, str]:
    """A hash of the content of each file below a folder."""
    files = sorted((PROJECT / folder).rglob(pattern))
    return {str(file.relative_to(PROJECT)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


class Tests:
    """Which tests can notice that a line has changed."""

    def __init__(self, learnt: Learnt) -> None:
        tests = learnt["tests"]
        self._seconds = {name: outcome["seconds"] for name, outcome in tests.items() if outcome["passed"]}
        self._known = learnt["files"]
        self._by_line: dict[tuple[str, int], list[str]] = {}
        self._by_file: dict[str, set[str]] = {}
        for name in self._seconds:
            for file, lines in tests[name]["lines"].items():
                self._by_file.setdefault(file, set()).add(name)
                for line in lines:
                    self._by_line.setdefault((file, line), []).append(name)
        self._sources = {
            str(file.relative_to(PROJECT)): file.read_text().splitlines() for file in (PROJECT / PACKAGE).rglob("*.py")
        }

    def of(self, mutation: Mutation) -> list[str]:
        """The tests that run the line; of what is computed at import, those that run a line with its name.

        Of a file that has changed since the tests were run, whose lines are at other places, those that run any of it.
        """
        named: set[str] = set()
        if mutation.names:
            for file, lines in self._sources.items():
                for number, text in enumerate(lines, 1):
                    if any(name in text for name in mutation.names):
                        named.update(self._by_line.get((file, number), ()))
            mirror = f"/test_{Path(mutation.file).stem}.py"
            named.update(name for name in self._seconds if mirror in name)
            named = named or self._by_file.get(mutation.file, set())
        elif mutation.file not in self._known:
            named = self._by_file.get(mutation.file, set())
        else:
            named = set(self._by_line.get((mutation.file, mutation.line), ()))
        chosen, seconds = [], 0.0
        for name in sorted(named, key=lambda name: (self._seconds[name], name)):
            seconds += self._seconds[name]
            if seconds > MOST_SECONDS:
                break
            chosen.append(name)
        return chosen

    def seconds(self, names: Sequence[str]) -> float:
        return sum(self._seconds[name] for name in names)


def play(drawn: list[Mutation], tests: Tests, runners: SimpleQueue[Runner], pool: ThreadPoolExecutor) -> list[Mutation]:
    """Meet each mutant with its tests. Those that survive are printed with the line as it was and as it became."""

    def meet(mutation: Mutation) -> tuple[str, str]:
        chosen = tests.of(mutation)
        if not chosen:
            return "survived", "no unit test runs it"
        runner = runners.get()
        try:
            return runner.meet(mutation, chosen, 3 * tests.seconds(chosen) + 60)
        finally:
            runners.put(runner)

    survivors, results, begun = [], [], time.monotonic()
    for number, (mutation, (end, by)) in enumerate(zip(drawn, pool.map(meet, drawn), strict=True), 1):
        print(f"{time.monotonic() - begun:5.0f} s {number:4} {end:8} {mutation.place}: {mutation.what}", flush=True)
        if end == "survived":
            survivors.append(mutation)
            print(f"        - {mutation.before}\n        + {mutation.after}\n        {by}", flush=True)
        results.append({"place": mutation.place, "what": mutation.what, "end": end, "by": by})
    RESULTS.write_text(json.dumps(results, indent=1))
    rooms = Counter(one.file.split("/")[2] for one in survivors)
    print("\nsurvivors by room:", ", ".join(f"{room} {count}" for room, count in rooms.most_common()) or "none")
    return survivors


if __name__ == "__main__":
    sys.exit(main())
