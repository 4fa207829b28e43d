"""Started by the scripts ``hadoop``, ``hdfs`` and ``yarn`` with a bare Python: -I -S."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from railyard.gateway.shell.main import main

    sys.exit(main(sys.argv[1], sys.argv[2:]))
