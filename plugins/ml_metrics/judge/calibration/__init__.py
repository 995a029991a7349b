"""Conditions that fit the noise of a metric."""
