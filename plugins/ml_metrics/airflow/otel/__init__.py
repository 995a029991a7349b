"""Runs and metrics as OpenTelemetry."""
