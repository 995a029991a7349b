"""Test files: reading, checking, conditions, policy."""
