"""A hostile author's test file: what the DAG processor believes of it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import strategies as st

from airflow_home import Home
from campaigns.hostile.attack import VARIANTS, Attack
from campaigns.hostile.drawing import drawn

Begin = Callable[[str], Attack]
pytestmark = [pytest.mark.e2e]
INNOCENTS = ("innocent-first", "the-innocent", "zz-innocent")
"""Before, among and after the hostile files in every order of names."""
LONG = "x" * 120
FIXED: Mapping[str, dict[str, Any]] = {
    "a long tag": {"tags": [LONG]},
    "an empty tag": {"tags": [""]},
    "many tags": {"tags": [f"t{n}" for n in range(5000)]},
    "a tag with a comma and lines": {"tags": ["a,b\n\x00c"]},
    "a default that its pattern refuses": {"params": {"p": {"default": "abc", "pattern": "^z$"}}, "schedule": "@daily"},
    "a default that its length refuses": {"params": {"p": {"default": "abc", "maxLength": 1}}, "schedule": "@daily"},
    "a default that its format refuses": {"params": {"p": {"default": "abc", "format": "date"}}, "schedule": "@daily"},
    "a pattern of exponential time": {"params": {"p": {"default": "a" * 40 + "b", "pattern": "^(a+)+$"}}},
    "a pattern that is wrong": {"params": {"p": {"default": "a", "pattern": "("}}},
    "a pattern with a look-behind": {"params": {"p": {"default": "a", "pattern": "(?<=a)b"}}},
    "very many retries": {"retries": 10_000_000_000_000},
    "a priority out of range": {"priority": 10**30},
    "a long time": {"timeout": "99999999999d"},
    "a long start": {"startup_timeout": "99999999999d"},
    "no time": {"timeout": "0s"},
    "a pool of another": {"pool": "x" * 1000},
    "a long owner": {"owner": "o" * 5000},
    "a long description": {"description": "d" * 2_000_000},
    "surrogates": {"description": "\ud800", "owner": "\udfff"},
    "controls": {"description": "\x00\x1b[2J", "owner": "\x00"},
    "a schedule that never comes": {"schedule": "0 0 30 2 *"},
    "a schedule of each second": {"schedule": "* * * * * *"},
    "a quarantine until the year 9999": {"quarantine": {"until": "9999-12-31", "reason": "r"}},
    "a parameter of deep lists": {"params": {"p": {"default": json.loads("[" * 60 + "]" * 60), "type": "array"}}},
    "a parameter with a huge number": {"params": {"p": 10**400}},
    "a parameter with an enumeration of a million": {"params": {"p": {"default": 1, "enum": list(range(20_000))}}},
    "very many parameters": {"params": {f"p{n}": 1 for n in range(20_000)}},
    "a parameter named as Airflow's": {"params": {"dag_run": 1, "__class__": 2, "a b": 3, "": 4}},
    "very many hosts": {"hosts": 10_000_000},
    "very many arguments": {"args": ["a"] * 20_000},
    "a tag pattern of exponential time": {
        "metric_collection_config": {"metric_to_aggregation_strategy": {"re:(a+)+b": ["final"]}}
    },
    "a sweep of a million tests": {"sweep": {"params.p": list(range(1000)), "env.X": [str(n) for n in range(1000)]}},
    "a sweep of nothing": {"sweep": {"env.X": []}},
}
"""What a test of an author may hold beside its name, image and command."""
RESERVED = (
    "ml-metrics-digest", "ml-metrics-heartbeat", "ml-metrics-watch", "ml-metrics-storage", "ml_messages", "ml-metrics-another",
    "py-mnist-example-cpu",
)  # fmt: skip
"""DAGs of the product and of other DAG files."""
MERGES = "".join(
    f"x{n}: &x{n}\n  <<: [{', '.join([f'*x{n - 1}'] * 10) if n else '{a: 1}'}]\n  k{n}: 1\n" for n in range(9)
)
RAW: Mapping[str, str] = {
    "merge keys": MERGES,
    "merge keys without lists": "".join(f"x{n}: &x{n}\n  <<: *x{max(n - 1, 0)}\n  k{n}: 1\n" for n in range(1, 3000)),
    "aliases": "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)),
    "an alias of itself": "a: &a [*a]\nb: &b {<<: *b}\n",
    "deep lists": "a: " + "[" * 100_000,
    "deep blocks": "".join(f"{' ' * n}a:\n" for n in range(1500)),
    "a tag of Python": "a: !!python/object/apply:os.system ['touch MARKER']\n",
    "a long number": f"retries: {'9' * 1_000_000}\n",
    "nothing": "",
    "bytes": "\x00\x01",
    "a list": "- 1\n",
    "many documents": "---\na: 1\n" * 5000,
    "a very long line": "a: " + "x" * 5_000_000,
    "a million keys": "".join(f"k{n}: 1\n" for n in range(300_000)),
}
LOOPS = {
    "a loop": "local f(n) = f(n + 1); f(0)",
    "a long string": "std.repeat('x', 1 << 33)",
    "an import of a secret": "{ name: importstr '/etc/passwd' }",
    "an import of itself": "import 'jsonnet-an-import-of-itself.jsonnet'",
    "a fast growth": "local f(n) = if n == 0 then [] else f(n - 1) + f(n - 1) + [n]; f(60)",
    **{f"loop {n}": f"std.foldl(function(a, b) a + b + {n}, std.range(1, 100000000), 0)" for n in range(12)},
}


keys = st.sampled_from(["tags", "params", "retries", "timeout", "schedule", "owner", "description", "env", "labels",
                        "priority", "pool", "quarantine", "resources", "args", "annotations", "node_selector", "hosts",
                        "emails", "sweep", "startup_timeout", "tolerations", "pod", "sender", "volumes"])  # fmt: skip
texts = st.text(max_size=30) | st.sampled_from(
    ["^(a|a)*$", "{{ conn.x }}", "@daily", "re:(x+)+y", LONG, "9" * 400, "*/1 * * * *"]
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(), texts)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
parameters = st.dictionaries(
    st.sampled_from(["p", "q", "image", "command", "run_id"]),
    st.fixed_dictionaries(
        {"default": values},
        optional={"pattern": texts, "minLength": st.integers(-5, 10**20), "maximum": st.floats(), "format": texts,
                  "enum": st.lists(values, max_size=3), "type": texts | st.sampled_from(["string", "array"]),
                  "examples": values, "title": texts, "section": texts},
    ),
    max_size=3,
)  # fmt: skip
files = st.one_of(
    st.dictionaries(keys, values, min_size=1, max_size=4),
    st.fixed_dictionaries({"tags": st.lists(st.text(min_size=1, max_size=300), max_size=4)}),
    st.fixed_dictionaries({"params": parameters, "schedule": st.sampled_from([None, "@daily"])}),
    st.fixed_dictionaries({"retries": st.integers(0, 10**20), "priority": st.integers(1, 10**20)}),
)


class Folder:
    """The test files of one Airflow, hostile ones among innocent ones."""

    def __init__(self, home: Home) -> None:
        self.home = home
        for path in home.configs.iterdir():
            path.unlink()
        for name in INNOCENTS:
            home.add_test(name, command=["true"])
        self.hostile: dict[str, str] = {}

    def add(self, what: str, content: dict[str, Any]) -> None:
        """Add a file with these keys."""
        name = f"hostile-{len(self.hostile):04}"
        test = {"name": name, "image": "local/image:1", "command": ["true"], **content}
        self.write(name, what, yaml.dump(test, allow_unicode=False))

    def write(self, name: str, what: str, text: str, suffix: str = "yaml") -> None:
        """Add a file with this text."""
        self.hostile[name] = what
        (self.home.configs / f"{name}.{suffix}").write_text(text, encoding="utf-8", errors="surrogatepass")

    def processed(self) -> Processed:
        """Let a DAG processor look at all files once."""
        return Processed(self.home)


class Processed:
    """What a real DAG processor has made of a folder: the DAGs and import errors in Airflow's database."""

    def __init__(self, home: Home) -> None:
        for table in ("dag", "dag_version", "serialized_dag", "import_error"):
            with closing(sqlite3.connect(home.path / "airflow.db")) as database:
                database.execute("PRAGMA foreign_keys=ON")
                database.execute(f"DELETE FROM {table}")
                database.commit()
        done = home.airflow("dag-processor", "--num-runs", "1", AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT="50")
        self.output = done.stdout + done.stderr
        with closing(sqlite3.connect(home.path / "airflow.db")) as database:
            self.dags = {
                dag: {"file": file, "owner": owners, "text": text or ""}
                for dag, file, owners, text in database.execute(
                    "SELECT dag.dag_id, dag.relative_fileloc, dag.owners, dag.description FROM dag "
                    "JOIN serialized_dag USING (dag_id)"
                )
            }
            self.errors = [str(row) for row in database.execute("SELECT filename, stacktrace FROM import_error")]


def check(tried: Attack, folder: Folder, found: Processed) -> None:
    """Every innocent test has a DAG that runs it, no file is an import error, and every hostile file has a DAG of its own."""
    gone = [name for name in INNOCENTS if "invalid" in found.dags.get(name, {"text": "invalid: gone"})["text"]]
    for name, what in folder.hostile.items():
        held = not gone and not found.errors and any(dag.startswith(name) for dag in found.dags)
        tried.variant(what, held=held, reached=(gone, found.errors[:1], name in found.dags, found.output[-300:]))


def refused_files(home: Home) -> set[str]:
    """Return the names of the test files with which `ml-metrics validate` finds a mistake."""
    done = subprocess.run(
        ["ml-metrics", "validate", str(home.configs), "--json"], env=home.environment, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode in {0, 1}, done.stderr
    return {Path(one["file"]).stem for one in json.loads(done.stdout)["problems"]}


@pytest.fixture
def folder(home: Home) -> Iterator[Folder]:
    made = Folder(home)
    yield made
    for path in home.configs.iterdir():
        path.unlink()


def test_values_that_airflow_refuses(folder: Folder, attack: Begin) -> None:
    for what, content in FIXED.items():
        folder.add(what, content)
    with attack("S5 values that Airflow refuses, or that cost time") as tried:
        check(tried, folder, folder.processed())


def test_yaml_that_grows_and_jsonnet_that_loops(home: Home, folder: Folder, attack: Begin) -> None:
    for what, text in RAW.items():
        folder.write(f"raw-{what.replace(' ', '-')}".lower(), what, text)
    for what, text in LOOPS.items():
        folder.write(f"jsonnet-{what.replace(' ', '-')}", what, text, "jsonnet")
    with attack("S5 YAML that grows, Jsonnet that loops: one budget for the folder") as tried:
        check(tried, folder, folder.processed())
        tried.none("a tag of Python", home.path.rglob("MARKER"))


def test_generated_test_files(folder: Folder, attack: Begin) -> None:
    for number, content in enumerate(drawn(files, VARIANTS)):
        folder.add(f"{number}: {content}"[:500], content)
    with attack("S5 generated test files") as tried:
        check(tried, folder, folder.processed())


SMALL_ENOUGH: Mapping[str, dict[str, Any]] = {
    "44,000 values": {"params": {f"p{n}": {"default": 1, "enum": list(range(1, 1000))} for n in range(44)}},
    "a sweep of long texts": {"params": {"p": {"default": ["x" * 1023] * 480}}, "sweep": {"q": list(range(250))}},
    "a sweep of texts that fit": {"params": {"p": {"default": ["x" * 1023] * 480}}, "sweep": {"q": list(range(30))}},
    "a sweep of many tags": {"tags": [f"t{n}" for n in range(1900)], "sweep": {"q": list(range(80))}},
}
"""Files that are within every limit, and that take Airflow's time or memory if there are many of them."""


@pytest.mark.parametrize("what", SMALL_ENOUGH)
def test_very_many_files_within_their_limits(what: str, folder: Folder, attack: Begin) -> None:
    for number in range(160):
        name = f"hostile-{number:04}"
        parts = {"framework": "f", "model": name, "mode": "m"} if "sweep" in SMALL_ENOUGH[what] else {"name": name}
        content = {"image": "local/image:1", "command": ["true"], **parts, **SMALL_ENOUGH[what]}
        folder.write(name, f"{what}, {number}", json.dumps(content))
    with attack(f"S5 160 files within their limits: {what}") as tried:
        found = folder.processed()
        for name in INNOCENTS:
            tried.variant(name, held=name in found.dags, reached=(found.errors[:1], found.output[-300:]))
        tried.none("import errors", found.errors)


def test_generated_graphs_of_merge_keys(folder: Folder, attack: Begin) -> None:
    graphs = st.lists(st.lists(st.integers(0, 40), max_size=12), min_size=2, max_size=40)
    for number, graph in enumerate(drawn(graphs, max(20, VARIANTS // 4))):
        lines = [
            f"x{n}: &x{n}\n"
            + (f"  <<: [{', '.join(f'*x{to % n}' for to in merged)}]\n" if merged and n else "")
            + f"  k{n}: 1\n"
            for n, merged in enumerate(graph)
        ]
        folder.write(f"merge-{number:04}", f"merge keys {graph}", "".join(lines))
    with attack("S5 generated graphs of merge keys") as tried:
        check(tried, folder, folder.processed())


def test_names_of_others(home: Home, folder: Folder, attack: Begin) -> None:
    """A name of the product, or of another DAG file, is refused by `validate` and by the DAG processor."""
    before = folder.processed().dags
    with attack("S10 a name of another DAG") as tried:
        for name in RESERVED:
            folder.write(f"takes-{name}", name, json.dumps({"name": name, "image": "i:1", "command": ["true"]}))
        refused = refused_files(home)
        for name in RESERVED:
            tried.variant(f"{name}, validate", held=f"takes-{name}" in refused, reached=refused)
        found = folder.processed().dags
        for name in RESERVED:
            # the DAG is that of its own file, or is none
            own = before.get(name, {}).get("file")
            held = (
                name not in found
                or (own is not None and found[name]["file"] == own)
                or "invalid" in found[name]["text"]
            )
            tried.variant(name, held=held, reached=(before.get(name), found.get(name)))
        for name in (*INNOCENTS, *before):
            tried.variant(f"{name} is still there", held=name in found, reached=sorted(found))


def test_a_name_that_two_files_have(folder: Folder, attack: Begin) -> None:
    """Neither runs, because their histories would mix; every other test does."""
    folder.write("second", "second", json.dumps({"name": "the-innocent", "image": "i:1", "command": ["true"]}))
    with attack("S10 a name that two files have") as tried:
        found = folder.processed().dags
        tried.variant("it says so", held="invalid" in found.get("the-innocent", {}).get("text", ""), reached=found)
        for name in ("innocent-first", "zz-innocent"):
            tried.variant(name, held=name in found, reached=sorted(found))


PODS: Mapping[str, dict[str, Any]] = {
    "privileged": {"pod": {"spec": {"containers": [{"name": "workload", "securityContext": {"privileged": True}}]}}},
    "capabilities": {"pod": {"spec": {"containers": [
        {"name": "workload", "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]}}},
    "hostPID": {"pod": {"spec": {"hostPID": True}}},
    "hostIPC": {"pod": {"spec": {"hostIPC": True}}},
    "hostNetwork": {"pod": {"spec": {"hostNetwork": True}}},
    "host path": {"volumes": {"/host": {"host_path": "/"}}},
    "host path in the pod": {"pod": {"spec": {"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}}},
    "host port": {"pod": {"spec": {"containers": [
        {"name": "workload", "ports": [{"hostPort": 22, "containerPort": 22}]}]}}},
    "a priority of the cluster": {"pod": {"spec": {"priority": 2_000_001_000}}},
    "a namespace that leads elsewhere": {"namespace": ".."},
    "a recipient in another": {"emails": ["x<root>@example.com"]},
    "privileged init container": {"init_containers": [
        {"name": "i", "image": "i", "securityContext": {"privileged": True}}]},
    "ephemeral container": {"pod": {"spec": {"ephemeralContainers": [
        {"name": "e", "image": "i", "securityContext": {"privileged": True}}]}}},
    "seccomp": {"pod": {"spec": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}}},
    "AppArmor": {"annotations": {"container.apparmor.security.beta.kubernetes.io/workload": "unconfined"}},
    "procMount": {"pod": {"spec": {"containers": [
        {"name": "workload", "securityContext": {"procMount": "Unmasked"}}]}}},
    "SELinux": {"pod": {"spec": {"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}}},
    "sysctls": {"pod": {"spec": {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}}},
    "host process": {"pod": {"spec": {"securityContext": {"windowsOptions": {"hostProcess": True}}}}},
    "kube-system": {"namespace": "kube-system"},
}  # fmt: skip
"""What Pod Security "baseline" refuses, and the namespace of the cluster itself."""


def test_pods_that_are_no_baseline(home: Home, folder: Folder, attack: Begin) -> None:
    for name, content in PODS.items():
        folder.add(name, content)
    with attack("S13 pods that Pod Security baseline refuses") as tried:
        found, refused = folder.processed(), refused_files(home)
        for dag, what in folder.hostile.items():
            own = found.dags.get(dag, {"text": ""})
            tried.variant(what, held="invalid" in own["text"], reached=own)
            tried.variant(f"{what}, validate", held=dag in refused, reached=refused)
        for name in INNOCENTS:
            tried.variant(name, held="invalid" not in found.dags[name]["text"], reached=found.dags[name])
