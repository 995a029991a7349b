"""Hostile workloads in real DAG runs: what they leave in their run folders reaches nobody else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_home import Home
from campaigns.hostile.attack import Attack, some_of
from campaigns.hostile.deeds import DOCUMENTS, HONEST, NAMES, Deed, command
from campaigns.hostile.secrets_of_others import NUMBER, WORD, Secrets, fingerprint, leaks
from workload_ends import recorded_workload

pytestmark = [pytest.mark.e2e]
Begin = Callable[[str], Attack]
RED = {"metric_success_conditions": {"loss_final": {"comparison": "less", "success_threshold": {"fixed_value": 0.1}}}}
CONNECTIONS = {
    "AIRFLOW_CONN_SMTP_DEFAULT": f"smtp://user:{WORD}@127.0.0.1:9/",
    "AIRFLOW_VAR_API_KEY": WORD,
    "SOME_SECRET_OF_THE_MACHINE": WORD,
}
"""What the worker has in its environment."""


@dataclass(frozen=True)
class Place:
    """An Airflow with an innocent test that has run, and files of other teams."""

    home: Home
    secrets: Secrets

    def test(self, name: str, *deeds: Deed, red: bool = False, **content: Any) -> str:
        """Add a test whose workload does these deeds, and measures a loss of a half."""
        rules = {"regression_test_config": RED} if red else {}
        return self.home.add_test(name, command=command(*HONEST, *deeds), **{**rules, **content})

    def run(self, *tests: str) -> dict[str, tuple[int, str]]:
        """Run tests with secrets in the worker's environment."""
        return self.home.run_all(tests, **CONNECTIONS)

    def ml_metrics(self, *argv: str) -> str:
        """Run an `ml-metrics` command, and return its output."""
        done = self.home.run_warm("ml-metrics", *argv, **CONNECTIONS)
        return done.stdout + done.stderr

    @property
    def innocents_folder(self) -> Path:
        (folder,) = (self.home.runs / "innocent").iterdir()
        return folder

    def innocents_rows(self) -> list[object]:
        with self.home.warehouse() as warehouse:
            jobs = warehouse.runs.newest("innocent", 100)
            return [(job, sorted(map(repr, warehouse.metrics.of_run(job.uuid)))) for job in jobs]

    def stolen(self, test: str) -> list[str]:
        """Return the metrics of a test's newest run that have the names or numbers of others."""
        with self.home.warehouse() as warehouse:
            (job,) = warehouse.runs.newest(test)
            rows = warehouse.metrics.of_run(job.uuid)
        return [row.metric for row in rows if "stolen" in row.metric or WORD in row.metric or row.value == NUMBER]

    def leaks(self) -> list[str]:
        return leaks(self.home.path, without=(self.secrets.folder,))


@pytest.fixture(scope="module")
def place(home: Home) -> Place:
    made = Place(home, Secrets.make(home.path / "another-team"))
    (home.path / "config").mkdir(exist_ok=True)
    made.test("innocent")
    code, output = made.run("innocent")["innocent"]
    assert code == 0, output[-3000:]
    return made


def test_links_to_files_of_others(place: Place, attack: Begin) -> None:
    """In every place that a reader looks at, and as a folder that is a link."""
    secrets = [*place.secrets.files, *sorted(place.innocents_folder.glob("_ml_metrics/*.json"))]
    straight = [
        {"do": "symlink", "at": f"{n}/{name}", "to": str(one)} for n, one in enumerate(secrets) for name in NAMES
    ]
    folders = [
        {"do": "symlink", "at": f"folder{n}", "to": str(one)}
        for n, one in enumerate([place.secrets.folder, place.innocents_folder, place.home.path, Path("/proc/self")])
    ]
    place.test("links", *straight, *folders)
    place.run("links")
    with attack("S2 links to files of others, read by a run") as tried:
        reached = [*place.leaks(), *place.stolen("links")]
        for deed in [*straight, *folders]:
            tried.variant(deed["at"], held=not reached, reached=reached[:3])


def test_hard_links_to_files_of_others(place: Place, attack: Begin) -> None:
    """A hard link needs the rights of the file's owner, which no workload has."""
    secrets = [*place.secrets.files, place.home.configuration, place.home.path / "airflow.db"]
    deeds: list[Deed] = [
        {"do": "hardlink", "at": f"{n}/{name}", "to": str(one)} for n, one in enumerate(secrets) for name in NAMES
    ]
    place.test("hard-links", *deeds)
    place.run("hard-links")
    with attack("S2 hard links to files of others") as tried:
        reached = [*leaks(place.home.runs / "hard-links"), *place.stolen("hard-links")]
        for deed in deeds:
            tried.variant(deed["at"], held=not reached, reached=reached[:3])


def test_documents_that_are_links(place: Place, attack: Begin) -> None:
    """A workload replaces the folder of documents, or one document: nothing is written through it."""
    theirs = place.innocents_folder / DOCUMENTS
    config = place.home.path / "config"
    shapes: dict[str, list[Deed]] = {
        "folder": [{"do": "symlink", "at": DOCUMENTS, "to": str(theirs), "instead": True}],
        "config": [{"do": "symlink", "at": DOCUMENTS, "to": str(config), "instead": True}],
        "moved": [
            {"do": "move", "at": DOCUMENTS, "to": "moved"},
            {"do": "symlink", "at": DOCUMENTS, "to": str(theirs)},
        ],
        "nowhere": [{"do": "symlink", "at": DOCUMENTS, "to": str(config / "made"), "instead": True}],
        "messages": [{"do": "symlink", "at": f"{DOCUMENTS}/messages", "to": str(config), "instead": True}],
        "logs": [{"do": "symlink", "at": f"{DOCUMENTS}/logs", "to": str(config), "instead": True}],
        "run-folder": [{"do": "run folder", "to": str(place.innocents_folder)}],
        "run-folder-config": [{"do": "run folder", "to": str(config)}],
        "a-file": [{"do": "write", "at": DOCUMENTS, "text": "", "instead": True}],
        "a-fifo": [{"do": "fifo", "at": DOCUMENTS, "instead": True}],
        **{
            f"document-{name}": [
                {"do": "symlink", "at": f"{DOCUMENTS}/{name}.json", "to": str(theirs / f"{name}.json"), "instead": True}
            ]
            for name in ("run", "workload", "metrics", "verdicts", "gate")
        },
    }
    before = fingerprint(theirs, config, place.secrets.folder)
    tests = [place.test(f"documents-{shape}", *deeds, red=True) for shape, deeds in some_of(shapes).items()]
    ends = place.run(*tests)
    with attack("S2 the folder of documents is a link, a file or a pipe") as tried:
        after = fingerprint(theirs, config, place.secrets.folder)
        for test in tests:
            tried.variant(f"{test} writes elsewhere", held=before == after, reached=before.items() ^ after.items())
            tried.variant(f"{test} passes", held=ends[test][0] != 0, reached=ends[test][1][-500:])
            tried.variant(f"{test} silences its mail", held=bool(place.home.mails(test)), reached=ends[test][1][-1500:])


def test_clearing_a_run_writes_nowhere_else(place: Place, attack: Begin) -> None:
    """The workload starts over in a new folder, whose place, or a folder in it, an earlier attempt gave to a link."""
    config = place.home.path / "config"
    payload: Deed = {"do": "write", "at": "airflow_local_settings.py", "text": "raise SystemExit(13)\n"}
    shapes: dict[str, list[Deed]] = {
        "generation": [{"do": "symlink", "at": f"{DOCUMENTS}/generation-2", "to": str(config)}],
        "below": [{"do": "symlink", "at": f"{DOCUMENTS}/generation-2/sub", "to": str(config)}],
    }
    before = fingerprint(config)
    with attack("S2 a cleared run starts over behind a link") as tried:
        for shape, deeds in shapes.items():
            for retries in (1, 2):  # the second is the same run, cleared: it may be tried more often than before
                test = place.test(f"cleared-{shape}", payload, *deeds, retries=retries)
                done = place.home.run_warm("run-of-one-date", test, **CONNECTIONS)
            after = fingerprint(config)
            tried.variant(shape, held=before == after, reached=before.items() ^ after.items())
            tried.variant(f"{shape} was cleared", held=recorded_workload(place.home, test)["generation"] == 2,
                          reached=done.stdout[-1500:])  # fmt: skip


FORGED_MESSAGES = {
    "told": ("told.json", {"kind": "broken", "delivered": True, "problems": ["loss_final"]}),
    "sent": ("messages/001-broken-0.sent.json", {"outbox": {"detail": "delivered", "remaining": []}}),
    "message": ("messages/001-broken-0.json", {"kind": "broken", "subject": "", "recipients": []}),
    "gate": ("gate.json", {"reasons": [], "troubles": {}}),
    "verdicts": ("verdicts.json", {"outcome": "pass", "verdicts": []}),
    "metrics": (
        "metrics.json",
        {"metrics": [{"name": "loss_final", "value": 0.0, "tag": "loss", "strategy": "final"}]},
    ),
    "empty": ("messages/001-broken-0.json", {}),
}
"""Documents that say: all is well, or somebody knows it already."""


def test_planted_documents_do_not_silence_an_alert(place: Place, attack: Begin) -> None:
    shapes: dict[str, list[Deed]] = {
        name: [{"do": "write", "at": f"{DOCUMENTS}/{at}", "text": json.dumps(content), "instead": True}]
        for name, (at, content) in FORGED_MESSAGES.items()
    }
    for at in ("told.json", "gate.json", "messages/001-broken-0.json", "messages/001-broken-0.sent.json"):
        name = at.replace("/", "-").replace(".", "-")
        path = f"{DOCUMENTS}/{at}"
        shapes[f"deep-{name}"] = [{"do": "nested", "at": path, "shape": "json", "depth": 100_000, "instead": True}]
        shapes[f"bytes-{name}"] = [{"do": "write", "at": path, "hex": "ff00fe80", "instead": True}]
        shapes[f"dir-{name}"] = [{"do": "folder", "at": path, "instead": True}]
        shapes[f"pipe-{name}"] = [{"do": "fifo", "at": path, "instead": True}]
        shapes[f"huge-{name}"] = [{"do": "sparse", "at": path, "size": 8 << 40, "instead": True}]
    tests = [
        place.test(f"planted-{shape}"[:46].strip("-"), *deeds, red=True) for shape, deeds in some_of(shapes).items()
    ]
    ends = place.run(*tests)
    with attack("S4 planted documents silence an alert") as tried:
        for test in tests:
            tried.variant(test, held=bool(place.home.mails(test)), reached=ends[test][1][-1500:])
            tried.variant(f"{test} passes", held=ends[test][0] != 0, reached=ends[test][1][-1500:])


def test_a_run_that_says_it_is_another(place: Place, attack: Begin) -> None:
    """`run.json` names the innocent test: its row stays, whatever is loaded again from this folder."""
    innocent = json.loads((place.innocents_folder / DOCUMENTS / "run.json").read_text())
    stolen = (place.innocents_folder / DOCUMENTS / "run.json").read_text()
    shapes = {
        "forged": json.dumps({**innocent, "params": {}}),
        "whole": stolen,
        "unsigned": json.dumps({key: innocent[key] for key in ("test", "dag_id", "run_id", "deployment", "test_file")}),
        "another-deployment": json.dumps({**innocent, "deployment": "another"}),
    }
    before = place.innocents_rows()
    tests = [
        place.test(
            f"says-{shape}", {"do": "write", "at": f"{DOCUMENTS}/run.json", "text": text, "instead": True}, red=True
        )
        for shape, text in shapes.items()
    ]
    place.run(*tests)
    with attack("S4 a run that says it is another test's") as tried:
        for test in tests:
            tried.variant(f"{test} in its run", held=place.innocents_rows() == before, reached=place.innocents_rows())
        folders = [str(next((place.home.runs / test).iterdir())) for test in tests]
        for command_line in (["load", *folders], *(["backfill", test] for test in tests)):
            said = place.ml_metrics(*command_line)
            held = place.innocents_rows() == before and "Traceback" not in said
            tried.variant(" ".join(command_line), held=held, reached=(place.innocents_rows(), said[-500:]))


def test_the_environment_of_airflow(place: Place, attack: Begin) -> None:
    """A workload looks at all processes, at Airflow's files, and at the cluster's."""
    home = place.home.path
    wanted = [home / "airflow.cfg", home / "airflow.db", place.home.cluster, *place.secrets.files]
    place.test(
        "looks-around",
        {"do": "environments", "at": "seen.txt"},
        {"do": "read", "at": "read.txt", "paths": [*map(str, wanted), str(place.innocents_folder / "honest.jsonl")]},
    )
    place.run("looks-around")
    with attack("S17 a workload looks at the processes and files of Airflow") as tried:
        (folder,) = (place.home.runs / "looks-around").iterdir()
        tried.none("environments", leaks(folder))
        read = folder / "read.txt"
        key = next(line for line in (home / "airflow.cfg").read_text().splitlines() if "secret" in line and "=" in line)
        content = read.read_text(errors="replace") if read.is_file() else ""
        tried.variant("airflow.cfg", held=key not in content, reached="Airflow's keys")
        tried.variant("the database", held="SQLite format 3" not in content, reached="Airflow's database")
        tried.variant("another run", held='"loss": 0.5' not in content, reached="the files of another run")


def test_a_kubeconfig_that_names_a_program(place: Place, attack: Begin) -> None:
    """A workload rewrites the kubeconfig: no other test runs its program, and every other test still runs."""
    marker = place.home.path / "marker-of-a-program"
    program = {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [str(marker)],
               "interactiveMode": "Never"}  # fmt: skip
    deeds: list[Deed] = []
    for path in sorted(place.home.cluster.rglob("*kubeconfig*")):
        config = {"users": [{"name": "local", "user": {"exec": program}}], "kind": "Config", "apiVersion": "v1"}
        deeds += [{"do": "write", "at": str(path), "text": json.dumps(config), "instead": True}]
    assert deeds, "the local cluster has a kubeconfig"
    place.test("rewrites", *deeds)
    place.test("after-it")
    place.run("rewrites")
    code, output = place.run("after-it")["after-it"]
    with attack("S1 a kubeconfig that names a program") as tried:
        tried.variant("the program", held=not marker.exists(), reached=marker)
        tried.variant("the next test", held=code == 0, reached=output[-1500:])


ESCAPES = ("\x1b]0;owned", "\x1b[2J", "\x9b2J", "\u202e")
"""What makes a terminal do something, or show another text."""
FORGED = "FORGED: innocent failed"


def test_names_that_speak_to_a_terminal(place: Place, attack: Begin) -> None:
    """Names of files and tags reach logs and the output of commands without what they would do there."""
    names = [*(f"{escape}{number}" for number, escape in enumerate(ESCAPES)), f"x\n{FORGED}", f"x\r{FORGED}"]
    deeds: list[Deed] = [{"do": "write", "at": f"{name}.jsonl", "text": "{]\n"} for name in names]
    deeds += [{"do": "symlink", "at": f"telemetry.{name}.jsonl", "to": "/etc/passwd"} for name in names]
    tagged = "".join(f"{json.dumps({'step': 1, name: 1.0})}\n" for name in names)
    test = place.test("names", *deeds, {"do": "write", "at": "tags.jsonl", "text": tagged}, red=True)
    output = {"its run": place.run(test)[test][1]}
    folder, file = str(next((place.home.runs / test).iterdir())), str(place.home.configs / f"{test}.yaml")
    for arguments in (("collect", file, folder), ("goodput", folder), ("load", folder),
                      ("history", test), ("alerts",), ("messages",), ("tests",)):  # fmt: skip
        output[arguments[0]] = place.ml_metrics(*arguments)
    with attack("S14 names that speak to a terminal or forge a line of a log") as tried:
        for where, text in output.items():
            for name in [*ESCAPES, f"\n{FORGED}"]:  # a carriage return is read as the end of a line, too
                tried.variant(f"{name!r} in {where}", held=name not in text, reached=text[:500])
