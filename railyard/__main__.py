"""``python -m railyard``: the command."""

import sys

from railyard.cli.main import main

sys.exit(main())
