"""Join of two inputs: what each customer ordered, and those who ordered nothing.

    railyard run ./examples/join.py --input orders=examples/data/orders.csv \
        --input customers=examples/data/customers.csv --get joined

An order is a line "number,customer,amount", a customer a line "customer,name".  Each input has a
mapper of its own; the reduces get the rows of both, by customer.
"""

from railyard import Job, Map, Reduce, Stage


class Join(Job):
    """Joins orders with customers; with `outer=false` only customers who ordered something."""

    outer: bool = True

    def stages(self):
        return (
            Stage("o", Map(self.order), inputs=("orders",)),
            Stage("c", Map(self.customer), inputs=("customers",)),
            Stage("r", Reduce(self.join), reads=("o", "c")),
        )

    def order(self, line):
        number, customer, amount = line.split(",")
        yield customer, ("order", number, float(amount))

    def customer(self, line):
        customer, name = line.split(",")
        yield customer, ("name", name)

    def join(self, customer, rows):
        rows = list(rows)
        names = [row[1] for row in rows if row[0] == "name"]
        orders = sorted(row[1:] for row in rows if row[0] == "order")
        if not names:
            self.count("orders without a customer", len(orders))
        for name in names:
            for number, amount in orders:
                yield f"{customer} {name}", f"{number}\t{amount:.2f}"
            if self.outer and not orders:
                yield f"{customer} {name}", "-\t0.00"
