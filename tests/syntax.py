"""Python source as a tree."""

from __future__ import annotations

import ast
import gc


def syntax_of(source: str | bytes) -> ast.Module:
    """Parse with no garbage collection in between.

    During a collection another thread may print a traceback, which parses too. Python 3.11 takes that for an error:
    "AST constructor recursion depth mismatch".
    """
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        gc.enable()
