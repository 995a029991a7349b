"""Who sits at the terminal."""

import getpass


def who() -> str:
    """The name of the person who is logged in."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user need not have a name
        return "unknown"
