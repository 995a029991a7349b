"""Containers reach their own files, the system and what was shared with them, and nothing else of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness import ENVIRONMENT, Pods, connect, needs_landlock, needs_root, wait_for
from local_kube import ClusterError, LocalCluster
from local_kube.pods.confinement import Confinement
from local_kube.pods.files import ContainerFiles
from local_kube.processes import landlock

if TYPE_CHECKING:
    from collections.abc import Iterator

ANNOTATION = "test/folder"


@pytest.fixture
def confined(tmp_path: Path, image_folder: Path) -> Iterator[Pods]:
    """A cluster in a home with secrets, as that of Airflow."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "airflow.cfg").write_text("secret = canary\n")
    for name in ("mine", "theirs", "hooks"):
        (home / "runs" / name).mkdir(parents=True)
        (home / "runs" / name / "result").write_text("canary\n")
    confinement = Confinement("require", hidden=(home,), folder_annotation=ANNOTATION)
    cluster = LocalCluster(str(home / "cluster"), str(image_folder), confinement=confinement)
    yield connect(cluster)
    cluster.stop()


def run(pods: Pods, script: str, folder: Path | None = None) -> str:
    """Run a script and return what it printed."""
    name = f"pod-{os.urandom(4).hex()}"
    annotations = {ANNOTATION: str(folder)} if folder else {}
    base = {"name": "base", "image": "x", "command": ["sh", "-c", script]}
    spec = {"restartPolicy": "Never", "containers": [base]}
    pods.core.create_namespaced_pod("default", {"metadata": {"name": name, "annotations": annotations}, "spec": spec})
    pods.ended(name)
    return pods.log(name)


@needs_landlock
def test_of_the_hidden_folder_only_the_named_one_is_in_reach(confined: Pods) -> None:
    home = confined.root.parent
    mine, theirs = home / "runs" / "mine", home / "runs" / "theirs"
    reads = f"cat {home}/airflow.cfg {theirs}/result {confined.root}/kubeconfig; ls {home} {home}/runs"
    writes = f"echo x > {theirs}/result; echo x >> {confined.root}/kubeconfig; ln {theirs}/result {mine}/stolen"
    printed = run(confined, f"{reads}; {writes}; rm -r {theirs}; mv {theirs} {mine}/; echo new > {mine}/new", mine)
    assert "canary" not in printed
    assert "clusters" not in printed
    assert printed.count("Permission denied") + printed.count("Operation not permitted") >= 7
    assert (mine / "new").read_text() == "new\n"
    assert sorted(path.name for path in mine.iterdir()) == ["new", "result"]
    assert (theirs / "result").read_text() == "canary\n"
    assert json.loads((confined.root / "kubeconfig").read_text())["kind"] == "Config"


@needs_landlock
def test_a_folder_that_is_a_link_is_not_opened(confined: Pods) -> None:
    link = confined.root.parent / "runs" / "link"
    link.symlink_to("theirs")
    assert "canary" not in run(confined, f"cat {link}/result; echo x > {link}/new", link)
    assert not (link / "new").exists()


@needs_landlock
def test_the_files_of_the_supervisor_are_out_of_reach(confined: Pods) -> None:
    """Whoever writes them starts programs and ends processes of others."""
    script = 'for f in container.json state.json stop.json log alive; do echo x >> "../../containers/base/0/$f"; done'
    printed = run(confined, f"{script}; cat ../../containers/base/0/container.json; ls ../../..")
    assert printed.count("Permission denied") == 7


@needs_landlock
def test_a_confined_program_has_what_programs_need(confined: Pods) -> None:
    script = """
import multiprocessing, os, socket, sys, tempfile
with tempfile.TemporaryFile() as file:
    file.write(b"x")
open(os.path.expanduser("~/.cache"), "w").close()
open("/dev/stderr", "w").write("error\\n")
open("/dev/null", "w").write("x")
multiprocessing.Lock()
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
print(len(os.urandom(4)), socket.gethostbyname("localhost"), open("include/hello.py").read().splitlines()[0])
"""
    assert run(confined, f"python3 -c '{script}'") == "error\n4 127.0.0.1 import sys\n"


@needs_landlock
@needs_root
def test_under_root_pods_are_other_users_without_rights_of_root(confined: Pods) -> None:
    runs = confined.root.parent / "runs"
    script = "id -u; grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status; cat /etc/shadow"
    mine, theirs = (run(confined, script, runs / name) for name in ("mine", "theirs"))
    user, *status = mine.splitlines()[:4]
    assert int(user) >= 1_900_000_000
    assert user != theirs.splitlines()[0]
    assert [line.split()[1].lstrip("0") for line in status] == ["4", "4", "1"]
    assert "root:" not in mine


@needs_landlock
def test_a_user_whose_folder_is_used_by_another_one_may_clear_it(
    tmp_path: Path, image_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under docker compose, where Airflow and workloads are two users of one group."""
    monkeypatch.setattr(os, "geteuid", lambda: 50_001)
    container = {"name": "base", "image": "x"}
    pod = {"metadata": {"uid": "1", "annotations": {ANNOTATION: str(tmp_path)}}, "spec": {"containers": [container]}}
    files = ContainerFiles(pod, container, tmp_path / "pod", image_folder, tmp_path / "pod" / "0")
    made = Confinement(folder_annotation=ANNOTATION).of(pod, files, tmp_path / "cluster", [])
    assert made
    program = (
        "import json, os, sys; from local_kube.processes.given_up_rights import confine; "
        "confine(json.loads(sys.argv[1])); os.makedirs(sys.argv[2]); print(oct(os.stat(sys.argv[2]).st_mode))"
    )
    command = [sys.executable, "-c", program, json.dumps(made), str(tmp_path / "logs" / "host")]
    printed = subprocess.run(command, env=ENVIRONMENT, umask=0o077, capture_output=True, text=True, check=True).stdout
    assert printed == "0o40775\n"


@needs_landlock
@needs_root
def test_documents_that_others_wrote_into_the_folder_stay_theirs(confined: Pods) -> None:
    mine = confined.root.parent / "runs" / "mine"
    (mine / "documents").mkdir()
    run(confined, f"rm -rf {mine}/documents; mv {mine}/documents {mine}/gone; echo x > {mine}/documents/x", mine)
    assert (mine / "documents").is_dir()
    assert not list((mine / "documents").iterdir())


@pytest.mark.parametrize("version", range(1, landlock.version() + 1))
def test_older_versions_of_landlock_confine_too(tmp_path: Path, version: int) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for folder in (mine, theirs):
        folder.mkdir()
    program = f"""
import pathlib, sys
from local_kube.processes import landlock
landlock.version = lambda: {version}
rules = landlock.Ruleset()
rules.allow_writing([sys.argv[1]])
rules.enforce()
mine, theirs = map(pathlib.Path, sys.argv[1:])
(mine / "file").touch()
writes, lists = lambda: (theirs / "file").touch(), lambda: list(theirs.iterdir())
for attempt in (writes, lists, lambda: (mine / "file").rename(theirs / "file")):
    try:
        attempt()
    except OSError:
        print("refused")
"""
    command = [sys.executable, "-c", program, str(mine), str(theirs)]
    printed = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    assert printed == "refused\n" * 3
    assert (mine / "file").exists()


def test_the_server_starts_without_the_environment_of_its_starter(
    tmp_path: Path, image_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "canary")
    monkeypatch.setenv("DATABASE_PASSWORD", "canary")
    cluster = LocalCluster(str(tmp_path / "cluster"), str(image_folder))
    cluster.ensure_running()
    try:
        environment = Path(f"/proc/{cluster.status().pid}/environ").read_bytes()
    except PermissionError:
        environment = b""
    finally:
        cluster.stop()
    assert b"canary" not in environment


def test_without_landlock_a_cluster_that_must_confine_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "version", lambda: 0)
    assert not Confinement("auto").check()
    with pytest.raises(ClusterError, match=r"Landlock, of Linux 5\.13, is missing"):
        Confinement("require").check()


def test_containers_that_are_not_confined_keep_the_rights_of_the_server(tmp_path: Path, image_folder: Path) -> None:
    cluster = LocalCluster(str(tmp_path / "cluster"), str(image_folder), confinement=Confinement("off"))
    pods = connect(cluster)
    (tmp_path / "file").write_text("found\n")
    try:
        assert run(pods, f"cat {tmp_path}/file") == "found\n"
    finally:
        cluster.stop()
        wait_for(lambda: not cluster.status().running)
