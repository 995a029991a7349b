"""The licences of everything that is locked, and which of them are allowed."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from importlib.metadata import Distribution
from typing import Any

from release.locks import LOCKS, Locked, read_lock
from release.tree import PROJECT, ReleaseError

PERMISSIVE = frozenset(
    {
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "ISC", "MIT", "MIT-0"),
        *("MIT-CMU", "PSF-2.0", "Unlicense", "Zlib"),
    }
)
"""Licences that ask for no more than their text beside the code."""
ALLOWED = {
    ("psycopg", "LGPL-3.0-only"): "the driver of PostgreSQL, imported as it is; nothing of it is copied or changed",
    ("psycopg-binary", "LGPL-3.0-only"): "the compiled part of psycopg, a library that can be replaced",
    ("certifi", "MPL-2.0"): "certificates, as a file that nobody changes; the licence ends at the file",
    ("tqdm", "MPL-2.0"): "comes with openai and others; the licence ends at the file, and no file is changed",
    ("pathspec", "MPL-2.0"): "comes with Airflow; the licence ends at the file, and no file is changed",
    ("hypothesis", "MPL-2.0"): "runs in tests only, and is not shipped",
    ("axe-playwright-python", "MPL-2.0"): "axe-core, in tests only, and not shipped",
    ("docutils", "LicenseRef-Public-Domain"): "dedicated to the public domain but for some files; for releases only",
    ("docutils", "GPL-3.0-or-later"): "one file for the editor Emacs, which is not in the wheel",
    ("fqdn", "MPL-2.0"): "checks bills of materials; for releases only, and not shipped",
    ("text-unidecode", "Artistic-1.0-Perl"): "offered under the Artistic License or the GPL: taken under the former",
}
"""What is not permissive, and why it may be used all the same."""
READ = {
    "async-timeout": ("Apache-2.0", "LICENSE in its wheel; for Python below 3.11.3 only"),
    "coverage": ("Apache-2.0", "LICENSE.txt in its wheel, which declares it in License-Expression"),
    "colorama": ("BSD-3-Clause", "LICENSE.txt in its wheel; for Windows only"),
    "gojsonnet": ("Apache-2.0", "LICENSE in the package, which declares none"),
    "httpx2-jsfetch": ("BSD-3-Clause", "METADATA in its wheel; for browsers only"),
    "pyyaml-ft": ("MIT", "PKG-INFO in its source archive; for one kind of Python 3.13 only"),
    "axe-playwright-python": ("MIT AND MPL-2.0", "LICENSE in the package, which declares none, and axe.min.js in it"),
    "ml-goodput-measurement": ("Apache-2.0", "LICENSE in the package, which declares none"),
    "tiktoken": ("MIT", "the whole text stands in the field License"),
    "google-ads": ("Apache-2.0", "the whole text stands in the field License"),
    "docutils": (
        "LicenseRef-Public-Domain AND 0BSD AND BSD-2-Clause AND GPL-3.0-or-later",
        "COPYING.rst in the package",
    ),
    "pywin32-ctypes": ("BSD-3-Clause", "METADATA in its wheel; for Windows only"),
    "text-unidecode": ("Artistic-1.0-Perl OR GPL-2.0-or-later", "its classifiers; README: the user chooses"),
}
"""Packages that declare no licence, or not in a comparable form, or are not installed here, and where it was read."""
SPELLINGS = (
    (r"MIT OR Apache-2\.0|MIT -or- Apache License 2\.0", "MIT OR Apache-2.0"),
    (r"BSD 3-Clause OR Apache-2\.0|Dual License", "BSD-3-Clause OR Apache-2.0"),
    (r"(the )?apache( software)?( license)?,?( version)? ?-?(2(\.0)?)?|Apache", "Apache-2.0"),
    (r"(the )?mit( license)?( \(mit\))?", "MIT"),
    (r"(the )?(new |modified )?bsd( license)?|(BSD )?3-Clause( BSD)?( License)?|BSD-3-Clause", "BSD-3-Clause"),
    (r"BSD 2-Clause( License)?", "BSD-2-Clause"),
    (r"Python Software Foundation License|PSF(-2\.0)?( License)?", "PSF-2.0"),
    (r"ISC License( \(ISCL\))?|ISC", "ISC"),
    (r"The Unlicense \(Unlicense\)|Unlicense", "Unlicense"),
    (r"Mozilla Public License 2\.0 \(MPL 2\.0\)", "MPL-2.0"),
)
"""How packages write the identifiers of SPDX."""
BUNDLE = "plugins/ml_metrics/ui/dashboard/bundle/package-lock.json"
PLACES = sys.path
"""Where installed packages are looked for."""
NOT_IDENTIFIERS = {"AND", "OR", "WITH"}


@dataclass(frozen=True, slots=True)
class Licensed:
    """One package and its licence."""

    name: str
    version: str
    licence: str
    """An expression of SPDX; empty if nothing is known."""
    source: str
    """Where the licence was read, if not in the package's own declaration."""


def licences_of(lock: str) -> list[Licensed]:
    """Return the licence of each package in a lock file."""
    return [licence_of(one) for one in read_lock(lock)]


def licence_of(one: Locked) -> Licensed:
    """Return the licence of a package: as read by a person, else as it declares it."""
    if one.name in READ:
        return Licensed(one.name, one.version, *READ[one.name])
    try:
        installed = next(iter(Distribution.discover(name=one.name, path=PLACES)))
    except StopIteration:
        return Licensed(one.name, one.version, "", "")
    if installed.version != one.version and not one.marker:
        raise ReleaseError(
            f"{one.name} {installed.version} is installed, and {one.version} is locked: make install-dev"
        )
    return Licensed(one.name, one.version, declared(installed.metadata), "")


def declared(metadata: Any) -> str:
    """Return the licence that a package declares, in its metadata, as an expression of SPDX; or nothing."""
    if expression := metadata.get("License-Expression"):
        return str(expression)
    text = (metadata.get("License") or "").strip()
    named = [each for each in metadata.get_all("Classifier") or [] if each.startswith("License :: OSI Approved :: ")]
    # a short text is more particular than a classifier: BSD-2-Clause, not only BSD
    if exact := _spdx(text):
        return exact
    classified = {_spdx(each.rpartition(" :: ")[2]) for each in named}
    # of several, one that is not known may be what counts; and whether all or one of them hold is not stated
    return classified.pop() if len(classified) == 1 else ""


def bundled() -> list[Licensed]:
    """Return what is built into the dashboard's chart library. Packages that only build it are left out."""
    packages = json.loads((PROJECT / BUNDLE).read_text())["packages"]
    return [
        Licensed(path.rpartition("node_modules/")[2], about["version"], about.get("license", ""), "")
        for path, about in sorted(packages.items())
        if path and not about.get("dev")
    ]


def refused(one: Licensed) -> str:
    """Return why a licence is not allowed; nothing if it is. Of a choice, one allowed licence is enough."""
    if not one.licence:
        return f"{one.name} {one.version}: no licence is known; read it, and name it in READ of release/licences.py"
    choices = [_identifiers(part) for part in re.split(r"\bOR\b", one.licence)]
    if any(all(each in PERMISSIVE or (one.name, each) in ALLOWED for each in choice) for choice in choices):
        return ""
    return f"{one.name} {one.version}: {one.licence} is neither permissive nor allowed by name in release/licences.py"


def _identifiers(expression: str) -> list[str]:
    return [each for each in re.findall(r"[A-Za-z0-9.+-]+", expression) if each not in NOT_IDENTIFIERS]


def _spdx(text: str) -> str:
    for pattern, spdx in SPELLINGS:
        if re.fullmatch(pattern, text, re.IGNORECASE):
            return spdx
    # some write a field with an expression of SPDX
    return text if text and set(_identifiers(text)) <= PERMISSIVE | {lic for _, lic in ALLOWED} else ""


def page() -> str:
    """Return the text of requirements/licences.md."""
    parts = [INTRODUCTION, "## Not permissive, and allowed\n\n| package | licence | reason |\n| --- | --- | --- |\n"]
    parts += [f"| {name} | {licence} | {reason} |\n" for (name, licence), reason in ALLOWED.items()]
    shown: set[tuple[str, str]] = set()
    for lock, about in LOCKS.items():
        if lock != "requirements-release.lock":
            packages = [one for one in licences_of(lock) if (one.name, one.version) not in shown]
            shown |= {(one.name, one.version) for one in packages}
            parts.append(_table(f"`{lock}`: {about}", packages))
    parts.append(_table("The dashboard's chart library", bundled()))
    return "".join(parts)


INTRODUCTION = """\
# Licences of other software

ML Metrics is under the [Apache License 2.0](https://www.apache.org/licenses/LICENSE-2.0). This page lists every package
that the lock files name, and what the dashboard's chart library contains, with the licence that each declares. `make
docs` makes it; a test fails if a licence is neither permissive nor allowed by name, with a reason.

The wheels of ML Metrics contain none of these packages but the chart library, whose licences are in
`ui/dashboard/assets/vega-licences.txt`. The site has files of mkdocs-material and iframe-worker, both under the MIT
License. Some packages contain compiled libraries of others; their own licence files name
those. Where a lock file has one version of a package for each Python, the licence is that of the version which is
installed.

"""


def _table(title: str, packages: list[Licensed]) -> str:
    lines = [f"\n## {title}\n\n| package | version | licence | read in |\n| --- | --- | --- | --- |\n"]
    return "".join([*lines, *(f"| {p.name} | {p.version} | {p.licence} | {p.source} |\n" for p in packages)])


if __name__ == "__main__":
    (PROJECT / "requirements" / "licences.md").write_text(page(), encoding="utf-8")
