"""`python -m ml_metrics.ui.cli`."""

import sys

from ml_metrics.ui.cli import main

sys.exit(main())
