"""Health check of an Airflow process: exits with 0 if the address answers and reports nothing unhealthy."""

import sys
import urllib.request

with urllib.request.urlopen(sys.argv[1], timeout=8) as answer:  # noqa: S310  (the address comes from docker-compose.yaml)
    sys.exit(b"unhealthy" in answer.read())
