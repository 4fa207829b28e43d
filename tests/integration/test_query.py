"""The query on a real cluster: its bytes against nested loops, and tables that it cannot read."""

import random
from decimal import Decimal

from tests.command_line import SMALL


def tables(dice):
    """Rows of both tables; some pages are ranked twice, and some not at all."""
    rankings = [(f"http://p{dice.randrange(60)}", dice.randrange(100)) for _ in range(50)]
    visits = [
        (
            f"10.0.0.{dice.randrange(40)}",
            f"http://p{dice.randrange(60)}",
            f"{dice.randrange(1975, 2020)}-07-{dice.randrange(1, 31):02}",
            f"{dice.randrange(1000)}.{dice.randrange(10**9):09}",
        )
        for _ in range(6000)
    ]
    return rankings, visits


def nested_loops(rankings, visits, most):
    """The first rows of the result, as the plainest program has it."""
    revenue, ranks = {}, {}
    for address, visited, day, earned in visits:
        for url, rank in rankings:
            if url == visited and "1980-01-01" <= day <= "2010-01-01":
                revenue[address] = revenue.get(address, Decimal(0)) + Decimal(earned)
                ranks.setdefault(address, []).append(rank)
    best = sorted(revenue, key=lambda address: (-revenue[address], address))[:most]
    return [
        (address, str(revenue[address]), float(sum(ranks[address]) / len(ranks[address])))
        for address in best
    ]


def test_the_query_over_tables_of_the_users(railyard, tmp_path):
    rankings, visits = tables(random.Random(5))
    rows = [f"{','.join(row)},Agent,DEU,de-DE,word,1\n" for row in visits]
    (tmp_path / "ranks.csv").write_text("".join(f"{url},{rank},3\n" for url, rank in rankings))
    for name, part in {"v1.csv": rows[:3500], "v2.csv": rows[3500:]}.items():
        (tmp_path / name).write_text("".join(part))
    (tmp_path / "bad.csv").write_text("".join([*rows[:4500], "10.0.0.1,page\n", *rows[4500:]]))
    # Blocks of 64 kB: the visits have several, so lines are counted over more than one.
    place = tmp_path / "blocks.toml"
    place.write_text(SMALL.read_text().replace("256MB", "64MB"))
    railyard.ok("up", "--topology", place)
    given = ("--input", "rankings=ranks.csv", "--input", "uservisits=v1.csv")
    more = ("--input", "uservisits=v2.csv", "--param", "most=7", "--reduces", "3")
    done = railyard.ok("run", "query", *given, *more, "--get", "out", cwd=tmp_path)
    assert "the first 7 of 40 rows, as computed independently" in done
    [part] = (tmp_path / "out").glob("part-*")
    found = [line.split("\t") for line in part.read_text().splitlines()]
    expected = nested_loops(rankings, visits, 7)
    assert [row[:2] for row in found] == [[address, total] for address, total, _ in expected]
    for (*_, mean), (*_, exact) in zip(found, expected, strict=True):
        assert abs(float(mean) - exact) <= 0.0005001
    # What is in the store already is read by the tasks only: they name the file and the line.
    railyard.ok("fs", "put", "bad.csv", "/bad.csv", cwd=tmp_path)
    done = railyard.run(
        *("run", "query", "--input", "rankings=ranks.csv", "--input", "uservisits=dfs:/bad.csv"),
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert "/bad.csv:4501: 2 columns: need the 9 of uservisits: sourceIP" in done.stderr
    railyard.ok("down")
    assert railyard.nothing_left()
