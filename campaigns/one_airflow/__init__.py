"""Tests that share an Airflow; with this file, pytest stops it when they have run."""
