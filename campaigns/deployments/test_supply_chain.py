"""What is installed is what was locked: hashes of packages, digests of images, and files for their owner only."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml
from cryptography.fernet import Fernet
from hypothesis import example, given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from airflow_home import make_home
from deploy_programs import program
from servers.compose_file import PROJECT

LOCKS = (
    "requirements.lock",
    "requirements-celery.lock",
    "requirements-compose.lock",
    "requirements-detectors.lock",
    "requirements-dev.lock",
    "requirements-integrations.lock",
    "requirements-integrations-torch.lock",
    "requirements-release.lock",
    "requirements-uv.lock",
)
EXTRAS = re.compile(r"\[[a-z,-]+\]")
MAKE_HOME = program("make_home")
DIGEST = "sha256:" + "0123456789abcdef" * 4
DOCKER = f"""#!/bin/sh
test "$1 $2 $3" = "buildx imagetools inspect" || exit 9
echo "${{ANSWER-{DIGEST}}}"
"""


@pytest.mark.parametrize("name", LOCKS)
def test_each_locked_package_has_a_hash_and_no_registry_is_named(name: str) -> None:
    text = (PROJECT / "requirements" / name).read_text()
    packages = re.split(r"\n(?=[a-zA-Z0-9])", text)
    assert packages
    for package in packages:
        assert re.match(r"[A-Za-z0-9_.-]+(\[[a-z,-]+\])?==\S+", package), package[:100]
        assert "--hash=sha256:" in package, package[:100]
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text


def test_everything_that_is_asked_for_is_locked_at_its_version() -> None:
    for name in (lock.removesuffix(".lock") for lock in LOCKS if "torch" not in lock):
        file = PROJECT / "requirements" / name
        locked = file.with_suffix(".lock").read_text()
        if name == "requirements-integrations":  # a build for CPUs, which only its own index has
            locked += file.with_name(f"{name}-torch.lock").read_text().replace("+cpu", "")
        asked_for = PROJECT / "requirements.txt" if name == "requirements" else file.with_suffix(".txt")
        for line in asked_for.read_text().splitlines():
            if line and not line.startswith("#"):
                asked = EXTRAS.sub("", line).lower()
                end = "[ ;\\\\]" if "==" in asked else "=="
                assert re.search(rf"^{re.escape(asked)}{end}", EXTRAS.sub("", locked), re.MULTILINE), line


def test_the_image_has_all_but_google_at_the_same_versions() -> None:
    both = [
        (PROJECT / "requirements" / f"{name}.lock").read_text() for name in ("requirements", "requirements-compose")
    ]
    whole, image = (dict(re.findall(r"^([a-z0-9._-]+)(?:\[.*\])?==(\S+)", text, re.MULTILINE)) for text in both)
    assert image.items() <= whole.items()
    asked = {
        line.partition("==")[0] for line in (PROJECT / "requirements.txt").read_text().splitlines() if "==" in line
    }
    asked = {EXTRAS.sub("", name) for name in asked}
    assert asked - image.keys() == {"apache-airflow-providers-google"}
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert {Requirement(one).name for one in project["dependencies"]} - image.keys() == {"ml-metrics-telemetry"}


def test_no_recipe_installs_without_hashes() -> None:
    installs = [
        line
        for name in ("Makefile", "Dockerfile")
        for line in (PROJECT / name).read_text().splitlines()
        if "pip install" in line
    ]
    assert len(installs) >= 6
    for line in installs:
        assert "--require-hashes" in line or "--no-deps --no-build-isolation" in line, line


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("docker-compose.yaml", "Dockerfile", "deploy/pin-images.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(PROJECT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "docker").write_text(DOCKER)
    (tmp_path / "bin" / "docker").chmod(0o755)
    return tmp_path


def pin(checkout: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{checkout}/bin:/usr/bin:/bin", **variables}
    command = ["sh", "deploy/pin-images.sh"]
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)


def test_images_are_pinned_by_digest_again_and_again(checkout: Path) -> None:
    other = DIGEST.replace("0", "9")
    for digest in (DIGEST, other):
        done = pin(checkout, ANSWER=digest)
        assert done.returncode == 0, done.stderr
        services = yaml.safe_load((checkout / "docker-compose.yaml").read_text())["services"]
        images = {service["image"] for service in services.values()} - {"ml-metrics:local"}
        assert len(images) == 4
        assert all(image.endswith(f"@{digest}") for image in images)
        assert re.search(rf"^FROM python:\S+@{digest}$", (checkout / "Dockerfile").read_text(), re.MULTILINE)


def test_an_answer_that_is_no_digest_changes_nothing(checkout: Path) -> None:
    done = pin(checkout, ANSWER="latest")
    assert done.returncode == 1
    assert "the registry gave no digest: 'latest'" in done.stderr
    assert (checkout / "docker-compose.yaml").read_text() == (PROJECT / "docker-compose.yaml").read_text()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def fernet_key(home: Path) -> str:
    (key,) = re.findall(r"^fernet_key = (\S+)$", (home / "airflow.cfg").read_text(), re.MULTILINE)
    Fernet(key)
    return str(key)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_home_that_make_creates_is_for_its_owner_only(umask: int, tmp_path: Path) -> None:
    home, before = tmp_path / "home", os.umask(umask)
    try:
        make_home(home, "--configuration-only")
    finally:
        os.umask(before)
    assert mode(home) == 0o700
    assert mode(home / "airflow.cfg") == 0o600
    assert fernet_key(home)


def test_secrets_are_values_and_stand_in_no_comment(tmp_path: Path) -> None:
    make_home(tmp_path, "--configuration-only")
    lines = (tmp_path / "airflow.cfg").read_text().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    assert comments == [
        line for line in (PROJECT / "include" / "laptop.cfg").read_text().splitlines() if line.startswith("#")
    ]
    values = [line for line in lines if not line.startswith("#")]
    assert [line for line in values if re.search(r"@[A-Z]+@", line)] == []


@given(st.text(st.characters(codec="utf-8", exclude_characters="/\0?$\n", exclude_categories=["Cc"]), min_size=1))
@example('it\'s a "path" & | #x % \\1 @HOME@')
def test_airflow_reads_the_folders_of_the_configuration_as_they_are(name: str) -> None:
    home = Path("/somewhere", name)
    configuration = ConfigParser()  # as Airflow has it
    configuration.read_string(MAKE_HOME.laptop(home))
    assert configuration["database"]["sql_alchemy_conn"] == f"sqlite:///{home}/airflow.db?timeout=60"
    assert configuration["core"]["dags_folder"] == f"{PROJECT}/dags"


@pytest.mark.parametrize("name", ["a?b", "a$b"])
def test_a_home_that_airflow_would_misread_is_refused(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "deploy/make_home.py"],
        cwd=PROJECT,
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path / name)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"Airflow cannot work in '{tmp_path / name}': rename what has {name[1]} in its name" in done.stderr
    assert not (tmp_path / name).exists()


def test_a_new_configuration_keeps_the_key_of_the_old_one(tmp_path: Path) -> None:
    """Else no connection could be read any more, and no document would be believed."""
    file = tmp_path / "airflow.cfg"
    make_home(tmp_path, "--configuration-only")
    key, made = fernet_key(tmp_path), file.stat().st_mtime_ns
    make_home(tmp_path, "--configuration-only")
    assert file.stat().st_mtime_ns == made, "nothing is newer than the file"
    file.write_text(file.read_text().replace("8080", "8081"))
    os.utime(file, (0, 0))
    make_home(tmp_path, "--configuration-only")
    assert "8081" not in file.read_text()
    assert fernet_key(tmp_path) == key
    file.write_text("[core]\nfernet_key =\n")  # as before there was a key
    os.utime(file, (0, 0))
    make_home(tmp_path, "--configuration-only")
    assert fernet_key(tmp_path) != key


def test_an_older_home_is_narrowed_before_airflow_starts(tmp_path: Path) -> None:
    home = tmp_path / "home"
    files = [home / name for name in ("airflow.cfg", "airflow.db", "simple_auth_manager_passwords.json.generated")]
    home.mkdir(mode=0o755)
    for file in files:
        file.touch(0o644)
    make_home(home, "--configuration-only")
    assert mode(home) == 0o700
    assert [mode(file) for file in files] == [0o600] * 3


def test_every_recipe_that_starts_airflow_keeps_its_files_private() -> None:
    recipes = [line for line in (PROJECT / "Makefile").read_text().splitlines() if line.startswith("\t")]
    starts = [line for line in recipes if re.search(r"\b(deploy/standalone\.py|ml-metrics demo)\b", line)]
    assert len(starts) == 2
    for line in starts:
        assert line.startswith("\t@umask 077;"), line
