"""Thin adapters for Google's services."""
