"""`make site`: the pages of docs/ as a site, one folder for each version, in build/site.

Other versions that are there are kept: to publish several, check out each tag and run `make site` with the same folder.
The newest release, or `next` if there is none, is where the first page leads.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from release.pages import collect
from release.site_check import check
from release.tree import PROJECT, ReleaseError
from release.versions import NUMBER, changelog

TOOLS = PROJECT / ".venv-release" / "bin"
NEXT = "next"
REDIRECT = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>ML Metrics for Apache Airflow</title>
<meta http-equiv="refresh" content="0; url={version}/index.html">
<p><a href="{version}/index.html">ML Metrics for Apache Airflow, {version}</a></p>
</html>
"""


def main() -> int:
    """Build the site of this version, and look at it in a browser."""
    site = Path(os.environ.get("SITE") or PROJECT / "build" / "site")
    try:
        version = folder_of_version()
        build(site, version)
        write_versions(site)
        seen = check(site, version)
    except ReleaseError as error:
        print(f"make site: {error}", file=sys.stderr)
        return 1
    print(f"{site}/{version}: {len(list((site / version).rglob('*.html')))} pages; {seen}")
    print(f"To look at it: python -m http.server --bind 127.0.0.1 --directory {site} 8000")
    return 0


def folder_of_version() -> str:
    """Return the folder of the version: its number if it is released."""
    newest = changelog()[0]
    return newest.version if newest.released else NEXT


def build(site: Path, version: str) -> None:
    """Build the pages into the folder of a version. A link that leads nowhere is an error."""
    with tempfile.TemporaryDirectory() as folder:
        pages, made = Path(folder, "pages"), Path(folder, "site")
        collect(pages)
        done = subprocess.run(
            [TOOLS / "mkdocs", "build", "--strict", "--site-dir", made],
            cwd=PROJECT,
            env={**os.environ, "PYTHONPATH": str(PROJECT), "ML_METRICS_PAGES": str(pages)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("INFO")]
            raise ReleaseError("\n".join(["mkdocs:", *lines]))
        shutil.rmtree(site / version, ignore_errors=True)
        shutil.copytree(made, site / version)


def write_versions(site: Path) -> None:
    """Write what the chooser of versions reads, and the first page."""
    there = [folder.name for folder in site.iterdir() if (folder / "index.html").is_file()]
    released = sorted(filter(NUMBER.fullmatch, there), key=lambda name: tuple(map(int, name.split("."))), reverse=True)
    unreleased = [NEXT] if NEXT in there else []
    entries = [
        {"version": name, "title": name, "aliases": ["latest"] if name in released[:1] else []}
        for name in [*unreleased, *released]
    ]
    (site / "versions.json").write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
    first = REDIRECT.format(version=[*released, *unreleased][0])
    (site / "index.html").write_text(first, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
