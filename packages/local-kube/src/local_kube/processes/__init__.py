"""Containers as processes: the shim that runs each one, its log, and its process tree."""
