"""The last good commit of a test file, in real git checkouts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ml_metrics.alerts import watching
from ml_metrics.alerts.watching import last_commit, last_good_commit

GOOD, BAD = "name: nightly\nimage: i\ncommand: [c]\n", "name: nightly\nimage: i\ncomand: [c]\n"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A New User", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "checkout" / "metric_configs"
    root.mkdir(parents=True)
    git(root.parent, "init", "-q")
    return root


def commit(file: Path, content: str | None, subject: str) -> str:
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    git(file.parent, "add", "-A")
    git(file.parent, "commit", "-q", "-m", subject)
    return git(file.parent, "rev-parse", "HEAD")


def test_the_last_commit_in_which_the_file_could_be_read(root: Path) -> None:
    file = root / "nightly.yaml"
    good = commit(file, GOOD, "Add the nightly test")
    commit(file, BAD, "Tidy up")
    commit(file, f"{BAD}# more\n", "More")
    commit(root / "other.yaml", GOOD, "Another file")
    found = last_good_commit(file, file, root)
    assert found is not None
    assert (found.name, found.author, found.subject) == (good, "A New User", "Add the nightly test")
    assert str(found).startswith(f"{good[:12]} (Add the nightly test, A New User, 2")


def test_a_broken_file_that_others_include(root: Path) -> None:
    defaults, file = root / "_defaults.yaml", root / "nightly.yaml"
    good = commit(defaults, "owner: vision\n", "Defaults")
    commit(file, GOOD, "The test")
    commit(defaults, "owner: [", "Oops")
    found = last_good_commit(defaults, file, root)
    assert found is not None
    assert found.name == good


def test_a_change_that_is_not_committed(root: Path) -> None:
    file = root / "nightly.yaml"
    good = commit(file, GOOD, "Add")
    file.write_text(BAD)
    found = last_good_commit(file, file, root)
    assert found is not None
    assert found.name == good


def test_a_deleted_file_was_last_in_the_commit_before(root: Path) -> None:
    file = root / "folder" / "nightly.yaml"
    file.parent.mkdir()
    good = commit(file, GOOD, "Add")
    file.unlink()
    file.parent.rmdir()
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Remove")
    found = last_commit(file)
    assert found is not None
    assert found.name == good


def test_without_a_checkout_or_without_git_there_is_none(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "nightly.yaml"
    file.write_text(BAD)
    assert last_good_commit(file, file, tmp_path) is None
    commit(root / "nightly.yaml", GOOD, "Add")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert last_commit(root / "nightly.yaml") is None


def test_no_program_that_the_checkout_configures_is_started(root: Path, tmp_path: Path) -> None:
    evidence, program = tmp_path / "evidence", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {evidence}\ncat\n")
    program.chmod(0o755)
    file = root / "nightly.yaml"
    commit(file, GOOD, "Add")
    (root / ".gitattributes").write_text("*.yaml diff=evil filter=evil\n")
    for key in ("core.fsmonitor", "core.pager", "diff.evil.textconv", "filter.evil.smudge", "gpg.program"):
        git(root, "config", key, str(program))
    git(root, "config", "log.showSignature", "true")
    git(root, "config", "alias.rev-list", f"!{program}")
    assert last_good_commit(file, file, root) is not None
    assert not evidence.exists()


def test_texts_of_authors_are_data(root: Path) -> None:
    file = root / "-rf --output=x.yaml"
    commit(file, GOOD, "\x1b[31mred \x1f and a separator" + "x" * 500)
    found = last_good_commit(file, file, root)
    assert found is not None
    assert found.subject.isprintable()
    assert len(found.subject) <= watching.MAX_SUBJECT


def test_a_slow_git_is_given_up(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(root / "nightly.yaml", GOOD, "Add")
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(watching, "TIME_LIMIT_SECONDS", 0.2)
    assert last_commit(root / "nightly.yaml") is None
