"""`make dist`: source archives, wheels, bills of materials and checksums of everything that is released, in dist/."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from release import sbom
from release.build import Build, with_version
from release.checks import check_bills, check_with_tools, in_several, unwanted
from release.tree import PROJECT, ReleaseError, tracked
from release.versions import release_of

OUT = PROJECT / "dist"
SUMS = "SHA256SUMS"


def main(argv: list[str]) -> int:
    """Build, check and only then replace what is in dist/."""
    try:
        made = make(PROJECT, OUT, dev="--dev" in argv)
    except ReleaseError as error:
        print(f"make dist: {error}", file=sys.stderr)
        return 1
    for path in made:
        print(f"dist/{path.name}  {path.stat().st_size:,} bytes")
    return 0


def make(project: Path, out: Path, *, dev: bool) -> list[Path]:
    """Return what a release consists of."""
    release = release_of(project, dev=dev)
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder, "dist")
        built = Build(project, fresh, release.epoch, release.version if dev else "").run()
        known = {with_version(file.name, (project / file).read_bytes(), release.version) for file in tracked(project)}
        wrong = [line for path in built for line in unwanted(path, known)]
        wrong += in_several(path for path in built if path.suffix == ".whl")
        wrong += [_misnamed(path) for path in built if f"-{release.version}" not in path.name]
        if wrong:
            raise ReleaseError("\n- ".join(["the distributions are not right:", *wrong]))
        check_with_tools(built)
        bills = _bills(built, fresh, release.epoch)
        check_bills(bills)
        files = [*built, *bills]
        (fresh / SUMS).write_text("".join(f"{_sha256(path)}  {path.name}\n" for path in files))
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(fresh, out)
    return [out / path.name for path in [*files, fresh / SUMS]]


def _bills(built: list[Path], out: Path, epoch: int) -> list[Path]:
    wheels = [path for path in built if path.suffix == ".whl"]
    texts = {f"{path.name}.cdx.json": sbom.of_wheel(path, epoch, set(wheels) - {path}) for path in wheels}
    texts |= {"requirements.lock.cdx.json": sbom.of_lock("requirements.lock", epoch)}
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    return [out / name for name in texts]


def _misnamed(path: Path) -> str:
    return f"{path.name}: all distributions of a release have the version of ml_metrics; set it in their pyproject.toml"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
