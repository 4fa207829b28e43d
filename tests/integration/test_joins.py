"""A join of two inputs on a real cluster, compared with one that shares no code with it."""

import random
from collections import Counter

from tests.command_line import SMALL

JOIN = '''
from railyard import Job, Map, Reduce, Stage


class Join(Job):
    """All pairs of an order and a customer with the same number."""

    def stages(self):
        return (
            Stage("o", Map(self.order), inputs=("orders",)),
            Stage("c", Map(self.customer), inputs=("customers",)),
            Stage("r", Reduce(self.pair), reads=("o", "c")),
        )

    def order(self, line):
        number, customer, amount = line.split(",")
        yield customer, ("order", number, amount)

    def customer(self, line):
        customer, name = line.split(",")
        yield customer, ("customer", name)

    def pair(self, customer, rows):
        rows = list(rows)
        for kind, *order in rows:
            for other, *name in rows:
                if kind == "order" and other == "customer":
                    yield customer, ",".join([*order, *name])
'''


def tables(dice):
    """Rows of orders and of customers; some numbers are in one of them only, some several times."""
    customers = [(str(dice.randrange(900)), f"name{at}") for at in range(700)]
    orders = [
        (f"o{at}", str(dice.randrange(900)), str(dice.randrange(10**6))) for at in range(9000)
    ]
    return orders, customers


def nested_loops(orders, customers):
    """The join as the plainest program has it."""
    return Counter(
        f"{customer}\t{number},{amount},{name}"
        for number, customer, amount in orders
        for other, name in customers
        if other == customer
    )


def test_a_join_of_two_inputs(railyard, tmp_path):
    orders, customers = tables(random.Random(11))
    (tmp_path / "join.py").write_text(JOIN)
    for file, rows in {"o1": orders[:4000], "o2": orders[4000:], "c=1": customers}.items():
        (tmp_path / file).write_text("".join(",".join(row) + "\n" for row in rows))
    given = ("--input", "orders=o1", "--input", "orders=o2", "--input", "customers=./c=1")
    # Blocks of 16 kB: orders have many, so both stages have several maps.
    place = tmp_path / "blocks.toml"
    place.write_text(SMALL.read_text().replace("256MB", "16MB"))
    railyard.ok(
        *("run", "./join.py", *given, "--reduces", "3", "--get", "out", "--topology", place),
        cwd=tmp_path,
    )
    parts = sorted((tmp_path / "out").glob("part-*"))
    assert len(parts) == 3
    found = Counter(line for part in parts for line in part.read_text().splitlines())
    assert found == nested_loops(orders, customers)
    assert railyard.nothing_left()


def test_a_join_with_an_input_of_the_cluster(railyard, tmp_path):
    orders, customers = tables(random.Random(12))
    (tmp_path / "join.py").write_text(JOIN)
    files = {"orders": orders, "o1": orders[:4000], "o2": orders[4000:], "customers": customers}
    for file, rows in files.items():
        (tmp_path / file).write_text("".join(",".join(row) + "\n" for row in rows))
    railyard.ok("up", "--topology", SMALL)
    for file in ("customers", "o1"):
        railyard.ok("fs", "put", file, f"/{file}", cwd=tmp_path)
    texts = ("orders=dfs:/o1", "orders=o2", "customers=dfs:/customers")
    given = [word for text in texts for word in ("--input", text)]
    railyard.ok("run", "./join.py", *given, "--get", "out", cwd=tmp_path)
    parts = (tmp_path / "out").glob("part-*")
    found = Counter(line for part in parts for line in part.read_text().splitlines())
    assert found == nested_loops(orders, customers)
    wrong = {
        ("orders=orders",): "reads orders, customers: need --input customers=FILE",
        ("orders",): "reads orders, customers: need --input orders=FILE",
        ("orders=orders", "customer=customers"): 'unknown input of ./join.py "customer"',
        ("orders=orders", "customers"): "others have names: need NAME=customers",
    }
    for texts, words in wrong.items():
        options = [word for text in texts for word in ("--input", text)]
        done = railyard.run("run", "./join.py", *options, cwd=tmp_path)
        assert done.returncode == 2
        assert words in done.stderr, done.stderr
    railyard.ok("down")
    assert railyard.nothing_left()
