"""Query: which visitors of ranked pages earned most, in five stages; an example of a job in SQL.

    SELECT sourceIP, SUM(adRevenue) AS totalRevenue, AVG(pageRank) AS avgPageRank
    FROM rankings JOIN uservisits ON pageURL = destURL
    WHERE visitDate BETWEEN :since AND :until
    GROUP BY sourceIP ORDER BY totalRevenue DESC, sourceIP LIMIT :most

``rankings`` and ``uservisits`` each read the input of that name and ship the rows that are wanted
to the task of their page's URL. ``join`` brings them together and adds up what it has of each
visitor, ``aggregate`` adds up these sums, and ``top`` has one task that ranks the best of each
``aggregate`` task.  The output has lines "sourceIP<TAB>totalRevenue<TAB>avgPageRank"; sums are
whole numbers, so their order does not matter, and the mean is rounded to thousandths.

Source: the join task of Pavlo et al., SIGMOD 2009, which is query 3 of the BigData benchmark; the
default is its largest variant, C (A is ``until=1980-04-01``, B is ``until=1983-01-01``).
Chosen here: ``most`` rows rather than one, and equal revenues go by address.
"""

from __future__ import annotations

from datetime import date

from railyard.cluster.errors import require
from railyard.jobs.model import Job, Stage
from railyard.jobs.samples.query.sql import Row, Scan, Select
from railyard.jobs.samples.query.tables import DECIMAL_UNIT, RANKINGS, USERVISITS

_SUMS = ("sourceIP", "revenue", "ranks", "visits")
#: The columns of the output.
COLUMNS = ("sourceIP", "totalRevenue", "avgPageRank")


class Query(Job):
    """Finds the `most` visitors who earned most from `since` to `until`."""

    most: int = 10
    since: str = "1980-01-01"
    until: str = "2010-01-01"

    def setup(self) -> None:
        require(self.most >= 1, "most", self.most, "a whole number >= 1")
        for name, day in (("since", self.since), ("until", self.until)):
            require(_is_day(day), name, day, "a day such as 1980-01-31")
        require(self.since <= self.until, "until", self.until, f"{self.since} or later")

    def stages(self) -> tuple[Stage, ...]:
        rankings = Scan(RANKINGS, "SELECT pageURL, pageRank FROM rankings")
        uservisits = Scan(
            USERVISITS,
            """SELECT destURL, sourceIP, adRevenue FROM uservisits
            WHERE visitDate BETWEEN :since AND :until""",
            {"since": self.since, "until": self.until},
        )
        join = Select(
            {
                "rankings": ("pageURL", "pageRank"),
                "uservisits": ("destURL", "sourceIP", "adRevenue"),
            },
            """SELECT sourceIP, SUM(adRevenue), SUM(pageRank), COUNT(*)
            FROM uservisits JOIN rankings ON pageURL = destURL GROUP BY sourceIP""",
        )
        aggregate = Select(
            {"joined": _SUMS},
            """SELECT sourceIP, SUM(revenue), SUM(ranks), SUM(visits) FROM joined
            GROUP BY sourceIP ORDER BY SUM(revenue) DESC, sourceIP LIMIT :most""",
            {"most": self.most},
        )
        top = Select(
            {"best": _SUMS},
            "SELECT * FROM best ORDER BY revenue DESC, sourceIP LIMIT :most",
            {"most": self.most},
            as_pair=_shown,
        )
        return (
            Stage("rankings", rankings, inputs=("rankings",)),
            Stage("uservisits", uservisits, inputs=("uservisits",)),
            Stage("join", join, reads=("rankings", "uservisits")),
            Stage("aggregate", aggregate, reads=("join",)),
            Stage("top", top, reads=("aggregate",), tasks=1),
        )


def _shown(row: Row) -> tuple[str, str]:
    """A row of the result as it is written: revenue as a decimal, and the mean rank."""
    source, revenue, ranks, visits = row
    whole, parts = divmod(revenue, DECIMAL_UNIT)
    thousandths = (2000 * ranks + visits) // (2 * visits)  # the nearest; halves are rounded up
    return source, f"{whole}.{parts:09}\t{thousandths // 1000}.{thousandths % 1000:03}"


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
