"""Whom to notify about a test file that is invalid: its own lines, as far as they can be read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.config.definition import check_address
from ml_metrics.config.document import MAX_BYTES
from ml_metrics.config.inherit import ConfigFolder
from ml_metrics.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

UNOWNED = "unowned"
MAX_OWNER = 100
OWNER = re.compile(r"""^\s*["']?owner["']?\s*:\s*["']?([^"'#,\n]+)""", re.MULTILINE)
EMAILS = re.compile(r"""^\s*["']?emails["']?\s*:(.*(?:\n\s*-.*)*)""", re.MULTILINE)
ADDRESS = re.compile(r"[^\s,;\[\]\"'<>]+@[^\s,;\[\]\"'<>]+")


@dataclass(frozen=True, slots=True)
class Contact:
    """The owner of a test and the recipients of its messages."""

    owner: str = UNOWNED
    emails: tuple[str, ...] = ()


def contact_in(path: Path, root: Path) -> Contact:
    """Return the owner and the recipients that an invalid file names, or inherits, as far as they can be read."""
    with ConfigFolder(root) as folder:
        try:
            content = folder.complete(path).content
        except (ConfigError, OSError):
            content = _from_lines(path)
        emails = content.get("emails")
        addresses = filter(_is_address, emails if isinstance(emails, list | tuple) else ())
        return Contact(_owner(content.get("owner")), tuple(dict.fromkeys(_allowed(addresses, folder))))


def _allowed(addresses: Iterable[str], folder: ConfigFolder) -> Iterator[str]:
    """Yield the addresses that the policy allows: a file that names another one is invalid for just that reason."""
    try:
        policy = folder.policy
    except ConfigError:  # which is why no test runs; the default recipients are told
        return
    yield from (address for address in addresses if policy.allows("recipients", address))


def _from_lines(path: Path) -> dict[str, Any]:
    """Return what single lines of a file state that cannot be parsed as a whole."""
    if path.suffix == ".jsonnet" or not path.is_file():
        return {}
    try:
        with path.open("rb") as opened:
            text = opened.read(MAX_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return {}
    owner, emails = OWNER.search(text), EMAILS.search(text)
    return {
        "owner": owner.group(1).strip() if owner else None,
        "emails": ADDRESS.findall(emails.group(1)) if emails else [],
    }


def _owner(owner: Any) -> str:
    return owner if isinstance(owner, str) and owner.isprintable() and 0 < len(owner) <= MAX_OWNER else UNOWNED


def _is_address(text: Any) -> bool:
    try:
        return isinstance(text, str) and text.isprintable() and bool(check_address(text))
    except ValueError:
        return False
