"""The wheel in an environment that holds nothing but the wheel and what it declares."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from harness import PACKAGE


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "tests")
    shutil.copytree(PACKAGE, folder / "source", ignore=ignored)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    command = [*pip, "--wheel-dir", str(folder), str(folder / "source")]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path) -> Path:
    """A new environment with the wheel, and links to the distributions that the wheel requires, and they in turn."""
    folder = wheel.parent / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True, timeout=120)
    (site,) = folder.glob("lib/python*/site-packages")
    with ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    required = required_by(Distribution.at(site / Path(metadata).parent), {})
    assert "ml-metrics" not in required
    for one in required.values():
        for file in one.files or ():
            top = file.parts[0]
            if top not in {"..", "__pycache__"} and not (site / top).exists():
                (site / top).symlink_to(Path(str(one.locate_file(top))))
    return folder


def required_by(one: Distribution, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """Return what a distribution requires without extras, and what that requires."""
    for line in one.requires or ():
        requirement = Requirement(line)
        if requirement.name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found[requirement.name] = distribution(requirement.name)
            required_by(found[requirement.name], found)
    return found


def test_the_wheel_is_whole(wheel: Path) -> None:
    source = PACKAGE / "src"
    files = {path for path in source.rglob("*") if path.is_file() and path.suffix in {".py", ".typed"}}
    with ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if name.startswith("local_kube/")}
    assert inside == {path.relative_to(source).as_posix() for path in files}


def test_a_container_runs_in_an_environment_with_the_wheel_alone(environment: Path, tmp_path: Path) -> None:
    """With the command that the wheel installs, and the API as `curl` would use it."""
    command = [str(environment / "bin" / "local-kube")]
    home = {"HOME": str(tmp_path), "PATH": f"{environment / 'bin'}:/usr/bin:/bin"}
    root = ["--root", str(tmp_path / "cluster")]

    def run(*arguments: str) -> str:
        whole = [*arguments[:1], *root, *arguments[1:]]
        done = subprocess.run(
            [*command, *whole], env=home, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    kubeconfig = run("kubeconfig")
    try:
        done = subprocess.run(
            [str(environment / "bin" / "python"), "-c", CLIENT, kubeconfig],
            env=home,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout) == {"log": "hello from the container\n", "others": []}
    finally:
        assert run("stop") == "stopped"


CLIENT = """
import base64, importlib.util, json, re, ssl, sys, time, urllib.request
text = open(sys.argv[1]).read()
field = lambda name: re.search(name + r'"?: "?([^"\\s,]+)', text)[1]
trust = ssl.create_default_context(cadata=base64.b64decode(field("certificate-authority-data")).decode())

def call(path, body=None):
    headers = {"Authorization": "Bearer " + field("token"), "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(field("server") + "/api/v1/namespaces/default/pods" + path, data, headers)
    return urllib.request.urlopen(request, context=trust, timeout=30).read().decode()

program = "print('hello from the container')"
container = {"name": "main", "image": "python", "command": ["python3", "-c", program]}
call("", {"metadata": {"name": "hello"}, "spec": {"restartPolicy": "Never", "containers": [container]}})
until = time.monotonic() + 30
while json.loads(call("/hello"))["status"]["phase"] != "Succeeded" and time.monotonic() < until:
    time.sleep(0.05)
others = [name for name in ("airflow", "kubernetes", "ml_metrics", "numpy") if importlib.util.find_spec(name)]
print(json.dumps({"log": call("/hello/log"), "others": others}))
"""
