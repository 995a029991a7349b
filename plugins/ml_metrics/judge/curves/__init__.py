"""Judges a tag over the steps of a run, by the curves of past good runs."""
