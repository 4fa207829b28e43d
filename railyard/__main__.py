"""``python -m railyard``: the command."""

import sys

from railyard.scripts.main import main

sys.exit(main())
