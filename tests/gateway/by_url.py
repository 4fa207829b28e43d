"""Run by a test: pandas, pyarrow and dask read and write the block store by URL."""

from __future__ import annotations

import pickle
import sys

import dask.dataframe as dd
import fsspec
import pandas as pd
import pyarrow.dataset
import pyarrow.parquet as pq
from pyarrow.fs import FSSpecHandler, PyFileSystem


def main(base: str) -> None:
    """Each round trip below ``base``, a URL such as railyard://c-dm7zomey/x."""
    trips = pd.DataFrame({"city": ["Oslo", "Rome", "Oslo"] * 20_000, "km": range(60_000)})
    store, path = fsspec.url_to_fs(base)

    trips.to_csv(f"{base}/trips.csv", index=False)
    assert pd.read_csv(f"{base}/trips.csv").equals(trips)
    trips.to_parquet(f"{base}/trips.parquet", row_group_size=10_000)
    back = pd.read_parquet(f"{base}/trips.parquet", filters=[("km", ">=", 55_000)])
    assert back["km"].tolist() == list(range(55_000, 60_000))

    arrow = PyFileSystem(FSSpecHandler(store))
    assert pq.read_table(f"{path}/trips.parquet", filesystem=arrow).num_rows == 60_000
    table = pyarrow.Table.from_pandas(trips)
    pyarrow.dataset.write_dataset(
        table, f"{path}/by-city", format="parquet", partitioning=["city"], filesystem=arrow
    )
    read = pyarrow.dataset.dataset(f"{path}/by-city", partitioning=["city"], filesystem=arrow)
    assert read.count_rows(filter=pyarrow.dataset.field("city") == "Rome") == 20_000

    dd.from_pandas(trips, npartitions=3).to_parquet(f"{base}/dask")
    again = dd.read_parquet(f"{base}/dask")
    assert again.npartitions == 3
    assert again.groupby("city")["km"].sum().compute()["Rome"] == sum(range(1, 60_000, 3))
    dd.from_pandas(trips, npartitions=2).to_csv(f"{base}/parts/*.csv", index=False)
    assert dd.read_csv(f"{base}/parts/*.csv")["km"].sum().compute() == sum(range(60_000))

    assert [name.rsplit("/", 1)[1] for name in store.glob(f"{path}/**/*.csv")] == [
        "0.csv",
        "1.csv",
        "trips.csv",
    ]
    assert store.du(f"{path}/parts") == sum(
        store.info(f)["size"] for f in store.ls(f"{path}/parts")
    )
    assert store.cat_file(f"{path}/trips.csv", start=8, end=14) == b"Oslo,0"
    copy = pickle.loads(pickle.dumps(store))
    assert copy.exists(f"{path}/trips.csv")
    print("all round trips", type(store).__name__)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        main(each)
