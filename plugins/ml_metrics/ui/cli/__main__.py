"""`python -m ml_metrics.cli`."""

import sys

from ml_metrics.ui.cli import main

sys.exit(main())
