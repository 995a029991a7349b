"""Finds the problems of this installation, and their remedies."""
