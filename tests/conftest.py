"""Makes fixtures of tests and of campaigns known to pytest."""

pytest_plugins = ["pools", "everywhere"]
