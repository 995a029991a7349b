"""Print which settings of an environment its service would refuse; see composer-limits.txt.

Reads the description of the environment from a file, and KEY=VALUE lines of what would change from standard input. It
runs on the Python of the machine that deploys, which needs no packages.
"""

from __future__ import annotations

import json
import sys
from fnmatch import fnmatchcase
from pathlib import Path


def refused(settings: dict[str, str]) -> list[str]:
    """Return what is wrong with the settings, by the lines of composer-limits.txt."""
    found = []
    lines = Path(__file__).with_name("composer-limits.txt").read_text().splitlines()
    for line in (line for line in lines if not line.startswith("#")):
        option, *limits = (part.strip() for part in line.split("|"))
        for key in (name for name in settings if fnmatchcase(name, option)):
            if limits == ["blocked"]:
                found.append(f"{key}: the service does not let it be set")
                continue
            for limit, words, sign in zip(limits, ("at least", "at most"), (1, -1)):
                number = _number(limit, settings)
                if number is not None and not _holds(settings[key], number, sign):
                    of = "" if limit.isdigit() else f", {limit}"
                    found.append(f"{key}={settings[key]}: must be {words} {number}{of}")
    return found


def _number(limit: str, settings: dict[str, str]) -> int | None:
    factor, times, option = limit.rpartition(" * ")
    value = settings.get(option, option if option.isdigit() else "")
    return int(factor if times else 1) * int(value) if value.isdigit() else None


def _holds(value: str, limit: int, sign: int) -> bool:
    try:
        return sign * float(value) >= sign * limit
    except ValueError:
        return False


def main() -> None:
    config = json.loads(Path(sys.argv[1]).read_text())["config"]
    settings = dict((config.get("softwareConfig") or {}).get("airflowConfigOverrides") or {})
    settings.update(line.rstrip("\n").split("=", 1) for line in sys.stdin)
    print(*refused(settings), sep="\n")


if __name__ == "__main__":
    main()
