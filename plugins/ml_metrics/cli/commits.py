"""The commits between two of a git repository, and a working tree of each for its build command."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics.cli.arguments import UsageError
from ml_metrics.experiments.candidates import MOST_CANDIDATES
from ml_metrics.values import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 300.0
"""How long git may take to list commits, or to check one out."""


def is_commit(repository: str, revision: str) -> bool:
    """Whether a revision names a commit of the repository."""
    return bool(revision) and _resolved(repository, revision) is not None


def commits_between(repository: str, good: str, bad: str) -> tuple[str, ...]:
    """Return the commits from a good one to a bad one, along the first parents, oldest first."""
    ends = {"good": good, "bad": bad}
    found = {name: _resolved(repository, revision) for name, revision in ends.items()}
    for name, commit in found.items():
        if commit is None:
            raise UsageError(f"{name}: {ends[name]!r} is not a commit of the repository {repository}")
    first, last = str(found["good"]), str(found["bad"])
    if first == last:
        raise UsageError(f"good and bad are the same commit, {first}: something else changed")
    if _git(repository, "merge-base", "--is-ancestor", first, last) is None:
        turned = _git(repository, "merge-base", "--is-ancestor", last, first) is not None
        hint = ": good and bad seem to be swapped" if turned else ", so that nothing is between them"
        raise UsageError(f"the commit {first} is no ancestor of {last}{hint}")
    listed = _git(repository, "rev-list", "--reverse", "--first-parent", f"{first}..{last}")
    between = (listed or "").split()
    if len(between) >= MOST_CANDIDATES:
        raise UsageError(f"{len(between):,} commits are between both, at most {MOST_CANDIDATES:,} are searched")
    return (first, *between)


@contextmanager
def checked_out(repository: str, commit: str) -> Iterator[str]:
    """Check a commit out in a working tree of its own, which is removed afterwards."""
    _git(repository, "worktree", "prune")  # what a killed search has left
    with tempfile.TemporaryDirectory(prefix="ml-metrics-") as above:
        tree = str(Path(above, "tree"))
        if _git(repository, "worktree", "add", "--quiet", "--detach", "--force", tree, commit) is None:
            raise UsageError(f"{repository}: the commit {commit} cannot be checked out")
        try:
            yield tree
        finally:
            shutil.rmtree(tree, ignore_errors=True)
            _git(repository, "worktree", "prune")


def _resolved(repository: str, revision: str) -> str | None:
    name = f"{revision}^{{commit}}"
    found = _git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", name)
    return found.strip() if found else None


def _git(repository: str, *argv: str) -> str | None:
    """Return what git prints; None if it fails. Raises UsageError if there is no repository."""
    try:
        ended = subprocess.run(
            ["git", "-C", repository, *argv],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C"},  # what it says is read below
        )
    except FileNotFoundError:
        raise UsageError("the command `git` was not found") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"git {argv[0]} took more than {SECONDS:g} s in {repository}") from None
    if "not a git repository" in ended.stderr or "cannot change to" in ended.stderr:
        raise UsageError(f"--repository: {printable(repository)} is not a git repository")
    return ended.stdout if ended.returncode == 0 else None
