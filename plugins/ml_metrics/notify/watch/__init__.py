"""Notices when a test no longer runs: its file, its DAG or its schedule broke."""
