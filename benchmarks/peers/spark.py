"""Sort or count with PySpark on a local cluster of two workers: python spark.py WHAT FILE OUTPUT.

WHAT is ``sort`` (lines of 100 bytes by their first 10), ``count`` (words) or ``empty``.
"""

from __future__ import annotations

import sys
from operator import add

from pyspark import SparkConf, SparkContext

WORKERS, CORES, MEMORY_MB = 2, 1, 2048


def main() -> None:
    """Run one job."""
    what, source, output = sys.argv[1:]
    conf = SparkConf().setMaster(f"local-cluster[{WORKERS},{CORES},{MEMORY_MB}]")
    conf.set("spark.executor.memory", f"{MEMORY_MB}m").set("spark.ui.enabled", "false")
    context = SparkContext(conf=conf)
    context.setLogLevel("ERROR")
    if what == "empty":
        context.parallelize([1]).count()
        return
    lines = context.textFile(f"file://{source}", minPartitions=2 * WORKERS)
    if what == "sort":
        keyed = lines.map(lambda line: (line[:10], line))
        keyed.sortByKey(numPartitions=WORKERS).values().saveAsTextFile(f"file://{output}")
    else:
        ones = lines.flatMap(str.split).map(lambda word: (word, 1))
        counts = ones.reduceByKey(add, WORKERS).map(lambda item: f"{item[0]}\t{item[1]}")
        counts.saveAsTextFile(f"file://{output}")
    context.stop()


if __name__ == "__main__":
    main()
