"""Decides under noise whether one version is worse than another. `docs/compare.md` documents it."""
