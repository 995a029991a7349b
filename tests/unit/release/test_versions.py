"""A release has one version, an entry in the changelog, a tag and a clean tree."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import ml_metrics
from release.dist import main
from release.tree import PROJECT, ReleaseError
from release.versions import changelog, release_of, stated_version

INIT = "plugins/ml_metrics/__init__.py"
RELEASED = "# Changelog\n\n## 1.1.0 (2026-02-01)\n\n- Faster.\n\n## 1.0.0 (2026-01-31)\n\n- The first.\n"


def git(project: Path, *arguments: str) -> None:
    own = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *own, *arguments], cwd=project, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / INIT).parent.mkdir(parents=True)
    (tmp_path / INIT).write_text('"""Ours."""\n\n__version__ = "1.1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(RELEASED)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def commit(project: Path) -> None:
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "all", "--date", "2026-02-01T00:00:00Z")


def test_the_project_keeps_its_rules() -> None:
    assert stated_version() == ml_metrics.__version__ == changelog()[0].version


def test_a_tagged_commit_with_a_dated_entry_is_a_release(tree: Path) -> None:
    git(tree, "tag", "v1.1.0")
    assert release_of(tree).version == "1.1.0"


def test_every_reason_against_a_release_is_named(tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text(
        RELEASED.replace("# Changelog\n", "# Changelog\n\n## 1.2.0 (not released yet)\n\n- New.\n")
    )
    with pytest.raises(ReleaseError) as error:
        release_of(tree)
    assert "states version 1.1.0, and the newest in CHANGELOG.md is 1.2.0" in str(error.value)
    assert "1.2.0 is `not released yet`; write its date" in str(error.value)
    assert "no tag v1.1.0 is at the commit" in str(error.value)
    assert "1 files are changed or not tracked, such as CHANGELOG.md; commit them" in str(error.value)


def test_a_tag_at_another_commit_is_no_release(tree: Path) -> None:
    git(tree, "tag", "v1.1.0")
    (tree / "new").touch()
    commit(tree)
    with pytest.raises(ReleaseError, match=r"no tag v1\.1\.0 is at the commit; git tag v1\.1\.0$"):
        release_of(tree)


def test_a_build_for_development_names_its_commit(tree: Path) -> None:
    assert re.fullmatch(r"1\.1\.0\+dev\.g[0-9a-f]{12}", release_of(tree, dev=True).version)
    (tree / "new").touch()
    assert re.fullmatch(r"1\.1\.0\+dev\.g[0-9a-f]{12}\.dirty", release_of(tree, dev=True).version)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("# Changelog\n", "has no version, such as `## 1.2.3 (not released yet)`"),
        ("## Unreleased\n\n- New.\n", "`## Unreleased` should be like `## 1.2.3 (2026-01-31)`"),
        ("## 1.1 (2026-01-31)\n\n- New.\n", "`## 1.1 (2026-01-31)` should be like"),
        ("## 1.1.0 (2026-02-31)\n\n- New.\n", "day is out of range for month"),
        ("## 1.1.0 (2026-02-01)\n\nNothing.\n", "1.1.0 lists no change"),
        (RELEASED.replace("1.0.0", "1.2.0"), "1.1.0 stands above 1.2.0, which is not older"),
        (RELEASED.replace("2026-01-31", "not released yet"), "1.0.0 is not released, and a newer version stands above"),
        (RELEASED.replace("2026-02-01", "2026-01-01"), "1.1.0 is dated before 1.0.0"),
    ],
)
def test_a_changelog_that_breaks_a_rule_is_an_error(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(text)
    with pytest.raises(ReleaseError, match=re.escape(why)):
        changelog(tmp_path)


@pytest.mark.parametrize("line", ["", '__version__ = "1.0"', '__version__ = "01.0.0"', "__version__ = version()"])
def test_a_version_of_another_form_is_an_error(line: str, tree: Path) -> None:
    (tree / INIT).write_text(f"{line}\n")
    with pytest.raises(ReleaseError, match=r"should have a line `__version__ = \"1\.2\.3\"`"):
        stated_version(tree)


def test_make_dist_refuses_what_is_not_released(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("release.dist.PROJECT", tree)
    monkeypatch.setattr("release.dist.OUT", tree / "dist")
    assert main([]) == 1
    assert "this cannot be released (`make dist DEV=1` builds it for development):\n- no tag" in capsys.readouterr().err
    assert not (tree / "dist").exists()


def test_the_makefile_and_the_page_know_the_same_steps() -> None:
    page = (PROJECT / "docs" / "releasing.md").read_text()
    for step in ("make dist DEV=1", "make dist", "make site", "git tag v", "(not released yet)", "UPDATE_GOLDEN=1"):
        assert step in page
