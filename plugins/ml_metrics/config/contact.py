"""The recipients of a message about an invalid test file: its own lines, as far as they can be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ml_metrics.config.document import content_of
from ml_metrics.config.loading import ConfigFolder
from ml_metrics.config.naming import is_address
from ml_metrics.config.patterns import compiled
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.config.reading_time import ReadingTime
from ml_metrics.core.errors import ConfigError

MAX_OWNER = 100
OWNER = r"""(?m)^\s*["']?owner["']?\s*:\s*["']?([^"'#,\n]+)"""
ADDRESS = r"[^\s,;\[\]\"'<>]+@[^\s,;\[\]\"'<>]+"
"""Any text is searched for these, so it is done in linear time."""


@dataclass(frozen=True, slots=True)
class Contact:
    """The owner of a test and the recipients of its messages."""

    owner: str = "unowned"
    emails: tuple[str, ...] = ()


def contact_in(path: Path, root: Path, reading_time: ReadingTime | None = None) -> Contact:
    """The owner and the recipients that an invalid file names, or inherits, as far as they can be read."""
    reading_time = reading_time or ReadingTime.of_settings()
    with ConfigFolder(root, reading_time=reading_time) as folder:
        try:
            with reading_time.of(path):
                content = folder.complete(path).content
        except (ConfigError, OSError):
            content = _from_lines(path, root)
        owner, emails = content.get("owner"), content.get("emails")
        is_owner = isinstance(owner, str) and owner.isprintable() and 0 < len(owner) <= MAX_OWNER
        texts = [one for one in emails if isinstance(one, str)] if isinstance(emails, list | tuple) else []
        try:  # a file that names an address that the policy does not allow is invalid for just that reason
            policy = folder.policy
            allowed = [
                one for one in texts if one.isprintable() and is_address(one) and policy.allows("recipients", one)
            ]
        except ConfigError:  # which is why no test runs; the default recipients are notified
            allowed = []
        return Contact(str(owner) if is_owner else "unowned", tuple(dict.fromkeys(allowed)))


def _from_lines(path: Path, root: Path) -> dict[str, Any]:
    if path.suffix == ".jsonnet":
        return {}
    try:
        text = content_of(path, root).decode("utf-8", errors="replace")
    except InvalidFileError:
        return {}
    owner, emails = (
        compiled(OWNER).search(text),
        compiled(r"""(?m)^\s*["']?emails["']?\s*:(.*(?:\n\s*-.*)*)""").search(text),
    )
    return {
        "owner": owner.group(1).strip() if owner else None,
        "emails": compiled(ADDRESS).findall(emails.group(1)) if emails else [],
    }
