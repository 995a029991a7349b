"""The programs of deploy/, as modules."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING

from servers.compose_file import PROJECT

if TYPE_CHECKING:
    from types import ModuleType


def program(name: str) -> ModuleType:
    """Import a program. It finds those beside it, as it does when it is run."""
    if str(PROJECT / "deploy") not in sys.path:
        sys.path.append(str(PROJECT / "deploy"))
    spec = spec_from_file_location(name, PROJECT / "deploy" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
