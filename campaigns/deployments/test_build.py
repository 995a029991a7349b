"""Distributions have the same bytes wherever and whenever they are built, and hold what they should."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import ml_metrics
from release.archives import normalise_wheel
from release.build import with_version
from release.checks import contents, in_several, unwanted
from release.tree import PROJECT, ReleaseError, distributions, tracked

BUILD = """
import sys
from pathlib import Path
from release.build import Build
files = [Path(name) for name in sys.stdin.read().split("\\0")]
Build(Path(sys.argv[1]), Path(sys.argv[2]), 1_767_225_600, "", files).run()
"""


def build(tree: Path, out: Path, umask: int, mode: int, **variables: str) -> dict[str, Path]:
    """Copy the project, with other modes and times, and build everything there."""
    files = [file for file in tracked() if file.parts[0] not in {"tests", "campaigns", "docs", "benchmarks"}]
    for file in files:
        copy = tree / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PROJECT / file, copy)
        copy.chmod(mode | ((PROJECT / file).stat().st_mode & 0o100))
        os.utime(copy, (mode * 1_000_000, mode * 1_000_000))
    done = subprocess.run(
        [sys.executable, "-c", BUILD, tree, out],
        input="\0".join(map(str, files)),
        env={**os.environ, "PYTHONPATH": str(PROJECT), **variables},
        umask=umask,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {path.name: path for path in sorted(out.iterdir())}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("one")
    return build(folder / "tree", folder / "out", 0o077, 0o600, TZ="Pacific/Apia", PYTHONHASHSEED="1")


def test_each_distribution_is_built_to_the_same_bytes(built: dict[str, Path], tmp_path: Path) -> None:
    again = build(tmp_path / "deep" / "er" / "tree", tmp_path / "out", 0, 0o666, TZ="UTC", PYTHONHASHSEED="2")
    assert {name: sha256(path) for name, path in again.items()} == {name: sha256(path) for name, path in built.items()}
    assert len(built) == 2 * len(distributions())


def test_all_distributions_have_the_version_of_the_package(built: dict[str, Path]) -> None:
    assert [name for name in built if not re.search(rf"-{re.escape(ml_metrics.__version__)}(-|\.tar)", name)] == []


def test_a_release_is_built_from_the_files_as_they_are() -> None:
    named = [file for file in tracked() if file.name in {"pyproject.toml", "__init__.py"}]
    contents_of = {file: (PROJECT / file).read_bytes() for file in named}
    versioned = {file: with_version(file.name, data, ml_metrics.__version__) for file, data in contents_of.items()}
    assert versioned == contents_of
    local = contents_of[Path("packages/local-kube/pyproject.toml")]
    assert b'version = "9"' in with_version("pyproject.toml", local, "9")


def test_members_have_one_time_one_owner_and_known_modes(built: dict[str, Path]) -> None:
    for path in built.values():
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                members = {(info.date_time, info.external_attr >> 16) for info in wheel.infolist()}
            assert members <= {((2026, 1, 1, 0, 0, 0), 0o100644), ((2026, 1, 1, 0, 0, 0), 0o100755)}
            continue
        with tarfile.open(path) as archive:
            found = {(m.mtime, m.uid, m.gid, m.uname, m.mode) for m in archive}
        assert found <= {(1_767_225_600, 0, 0, "", mode) for mode in (0o644, 0o755)}


def test_distributions_hold_files_of_the_project_and_nothing_else(built: dict[str, Path]) -> None:
    known = {(PROJECT / file).read_bytes() for file in tracked()}
    assert [line for path in built.values() for line in unwanted(path, known)] == []


def test_no_file_is_in_two_wheels(built: dict[str, Path], tmp_path: Path) -> None:
    wheels = [path for path in built.values() if path.suffix == ".whl"]
    assert in_several(wheels) == []
    copy = tmp_path / "copy-1-py3-none-any.whl"
    shutil.copy(wheels[0], copy)
    assert f"is in {wheels[0].name} and in {copy.name}" in in_several([wheels[0], copy])[0]


def test_a_link_stands_for_the_files_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "plugins" / "package").mkdir(parents=True)
    (tmp_path / "plugins" / "package" / "a.py").touch()
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "package").symlink_to("../plugins/package")
    subprocess.run("git init --quiet && git add --all", shell=True, cwd=tmp_path, check=True)
    (tmp_path / "plugins" / "package" / "untracked.py").touch()
    assert list(map(str, tracked(tmp_path))) == ["packages/package/a.py", "plugins/package/a.py"]
    (tmp_path / "packages" / "outside").symlink_to("/")
    subprocess.run("git add --all", shell=True, cwd=tmp_path, check=True)
    with pytest.raises(ReleaseError, match="packages/outside: is a link to /, which is outside of the project"):
        tracked(tmp_path)


def test_the_wheel_has_every_module_and_the_source_archive_every_file_of_the_wheel(built: dict[str, Path]) -> None:
    for one in distributions():
        (wheel,) = (
            path for name, path in built.items() if name.startswith(one.name.replace("-", "_") + "-") and "whl" in name
        )
        (sdist,) = (
            path for name, path in built.items() if name.startswith(one.name.replace("-", "_") + "-") and "tar" in name
        )
        packed = {data for name, data in contents(wheel) if ".dist-info/" not in name}
        assert packed <= {data for _, data in contents(sdist)}
    modules = {str(file.relative_to("plugins")) for file in tracked() if file.match("plugins/ml_metrics/**/*.py")}
    (main,) = (
        path
        for name, path in built.items()
        if name.startswith("airflow_provider_ml_metrics-") and path.suffix == ".whl"
    )
    assert modules <= {name for name, _ in contents(main)}


def test_the_source_archive_builds_the_same_wheel_with_pip(built: dict[str, Path], tmp_path: Path) -> None:
    (sdist,) = (path for name, path in built.items() if name.startswith("local_kube-") and path.suffix == ".gz")
    (wheel,) = (path for name, path in built.items() if name.startswith("local_kube-") and path.suffix == ".whl")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--disable-pip-version-check", "-w", tmp_path, sdist], check=True)
    (with_pip,) = tmp_path.glob("*.whl")
    assert dict(contents(with_pip)) == dict(contents(wheel))


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("tests/test_a.py", b"", "should not be in it"),
        ("ml_metrics/__pycache__/a.cpython-311.pyc", b"", "should not be in it"),
        ("ml_metrics/.DS_Store", b"", "should not be in it"),
        ("ml_metrics/.env", b"", "should not be in it"),
        ("ml_metrics/server.pem", b"", "should not be in it"),
        ("ml_metrics/a.py", b"KEY = '''-----BEGIN PRIVATE KEY-----\n" + b"A" * 40, "seems to hold a secret"),
        ("ml_metrics/a.py", b"left over from an earlier build", "is no file of the project"),
    ],
)
def test_what_should_not_be_in_a_wheel_is_found(name: str, data: bytes, why: str, tmp_path: Path) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("ml_metrics/ours.py", b"ours")
        archive.writestr(name, data)
    assert unwanted(wheel, [b"ours", b""]) == [
        f"{wheel.name}: {name} {why}" + (", as git knows it" if "is no" in why else "")
    ]


def test_a_time_that_a_wheel_cannot_express_is_an_error(tmp_path: Path) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    zipfile.ZipFile(wheel, "w").close()
    with pytest.raises(ValueError, match="SOURCE_DATE_EPOCH=0 is before 1980"):
        normalise_wheel(wheel, 0)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
