"""One run, as JSON:

    python -m railyard.benchmarks.simulator WORKLOAD TOPOLOGY SCHEDULER FLOWS [KEY=VALUE]...

KEY=VALUE is as for ``--behaviour``.
"""

import json
import sys

from railyard.benchmarks.simulator._onerun import one_run

json.dump(one_run(*sys.argv[1:]), sys.stdout)
