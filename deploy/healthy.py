"""Whether an Airflow process says that it is well: exit code 0 if its address answers, and all it tells is healthy."""

import sys
import urllib.request

with urllib.request.urlopen(sys.argv[1], timeout=8) as answer:  # noqa: S310  (the address is ours)
    sys.exit(b"unhealthy" in answer.read())
