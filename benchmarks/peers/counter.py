"""WordCount with two processes and ``collections.Counter``: python counter.py FILE OUTPUT."""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from pathlib import Path

PROCESSES = 2
#: The fastest of 64 KiB to 4 MiB.
CHUNK_BYTES = 2**20


def count(part: int) -> Counter[bytes]:
    """Count the words of the lines that begin in one part of the file."""
    path = Path(sys.argv[1])
    size = path.stat().st_size
    start, stop = size * part // PROCESSES, size * (part + 1) // PROCESSES
    words: Counter[bytes] = Counter()
    with open(path, "rb") as file:
        if start:
            file.seek(start - 1)
            file.readline()
        while file.tell() < stop:
            chunk = file.read(min(CHUNK_BYTES, stop - file.tell()))
            words.update((chunk + file.readline()).split())
    return words


def main() -> None:
    """Count the file's words and write "word<TAB>count" lines."""
    with multiprocessing.Pool(PROCESSES) as pool:
        words = sum(pool.map(count, range(PROCESSES)), Counter())
    with open(sys.argv[2], "wb") as output:
        output.writelines(b"%s\t%d\n" % item for item in sorted(words.items()))


if __name__ == "__main__":
    main()
