"""What is installed is what was locked: hashes of packages, digests of images, and files for their owner only."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
import yaml
from cryptography.fernet import Fernet

from servers.compose_file import PROJECT

LOCKS = (
    "requirements.lock",
    "requirements-celery.lock",
    "requirements-dev.lock",
    "requirements-integrations.lock",
    "requirements-integrations-torch.lock",
    "requirements-release.lock",
    "requirements-uv.lock",
)
EXTRAS = re.compile(r"\[[a-z,-]+\]")
DIGEST = "sha256:" + "0123456789abcdef" * 4
DOCKER = f"""#!/bin/sh
test "$1 $2 $3" = "buildx imagetools inspect" || exit 9
echo "${{ANSWER-{DIGEST}}}"
"""


@pytest.mark.parametrize("name", LOCKS)
def test_each_locked_package_has_a_hash_and_no_registry_is_named(name: str) -> None:
    text = (PROJECT / name).read_text()
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
        locked = (PROJECT / f"{name}.lock").read_text()
        if name == "requirements-integrations":  # a build for CPUs, which only its own index has
            locked += (PROJECT / f"{name}-torch.lock").read_text().replace("+cpu", "")
        for line in (PROJECT / f"{name}.txt").read_text().splitlines():
            if line and not line.startswith("#"):
                asked = EXTRAS.sub("", line).lower()
                assert re.search(rf"^{re.escape(asked)}[ ;\\]", EXTRAS.sub("", locked), re.MULTILINE), line


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


def make(home: Path, *arguments: str, umask: str = "022", **variables: str) -> None:
    command = ["sh", "-c", f"umask {umask}; exec make -s AIRFLOW_HOME={home} {' '.join(arguments)}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    subprocess.run(command, cwd=PROJECT, env={**environment, **variables}, check=True)


def fernet_key(home: Path) -> str:
    (key,) = re.findall(r"^fernet_key = (\S+)$", (home / "airflow.cfg").read_text(), re.MULTILINE)
    Fernet(key)
    return str(key)


@pytest.mark.parametrize("umask", ["000", "022", "077"])
def test_the_home_that_make_creates_is_for_its_owner_only(umask: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    make(home, str(home / "airflow.cfg"), umask=umask)
    assert mode(home) == 0o700
    assert mode(home / "airflow.cfg") == 0o600
    assert fernet_key(home)
    assert not re.search(r"@[A-Z]+@", (home / "airflow.cfg").read_text())


def test_a_new_configuration_keeps_the_key_of_the_old_one(tmp_path: Path) -> None:
    """Else no connection could be read any more, and no document would be believed."""
    make(tmp_path, str(tmp_path / "airflow.cfg"))
    key = fernet_key(tmp_path)
    make(tmp_path, "-W include/laptop.cfg", str(tmp_path / "airflow.cfg"))
    assert fernet_key(tmp_path) == key
    (tmp_path / "airflow.cfg").write_text("[core]\nfernet_key =\n")  # as before there was a key
    make(tmp_path, "-W include/laptop.cfg", str(tmp_path / "airflow.cfg"))
    assert fernet_key(tmp_path) != key


def test_an_older_home_is_narrowed_before_airflow_starts(tmp_path: Path) -> None:
    home, programs = tmp_path / "home", tmp_path / "bin"
    files = [home / name for name in ("airflow.cfg", "airflow.db", "simple_auth_manager_passwords.json.generated")]
    for folder in (home, programs):
        folder.mkdir()
    for file in files:
        file.touch()
        file.chmod(0o644)
    home.chmod(0o755)
    (programs / "python").write_text("#!/bin/sh\ntouch $AIRFLOW_HOME/new\n")
    (programs / "python").chmod(0o755)
    # without the environment, whose program would come first
    make(home, "-o install up VENV=none", PATH=f"{programs}:/usr/bin:/bin")
    assert mode(home) == 0o700
    assert [mode(file) for file in (*files, home / "new")] == [0o600] * 4


def test_every_recipe_that_starts_airflow_keeps_its_files_private() -> None:
    recipes = [line for line in (PROJECT / "Makefile").read_text().splitlines() if line.startswith("\t")]
    starts = [line for line in recipes if re.search(r"\b(deploy/standalone\.py|airflow db|ml-metrics demo)\b", line)]
    assert len(starts) == 3
    for line in starts:
        assert line.startswith(("\t@umask 077;", "\t@$(PRIVATE);")), line
