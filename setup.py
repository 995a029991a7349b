"""What pyproject.toml cannot say: files of `include/` are in the wheel, and setuptools keeps its notes in `build/`.

The files stay in `include/` in a checkout, where forks and Composer's DAGs folder have them.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

INCLUDED = ("metric_configs/mnist-cpu.yaml", "templates/*.libsonnet", "workloads/digits.py")


class BuildWithIncluded(build_py):
    """Copies the files below `include/` to `ml_metrics/include/`."""

    def run(self) -> None:
        """Build the package, then copy."""
        super().run()
        if self.editable_mode:
            return  # the checkout's own files are found
        root = Path(__file__).resolve().parent / "include"
        for source in (path for pattern in INCLUDED for path in sorted(root.glob(pattern))):
            target = Path(self.build_lib, "ml_metrics", "include", source.relative_to(root))
            target.parent.mkdir(parents=True, exist_ok=True)
            self.copy_file(str(source), str(target), preserve_mode=0)


# By default the notes would be in `plugins/`, which is on `sys.path`: Airflow would find each entry point twice.
NOTES = Path(__file__).resolve().parent / "build"
NOTES.mkdir(exist_ok=True)

setup(cmdclass={"build_py": BuildWithIncluded}, options={"egg_info": {"egg_base": str(NOTES)}})
