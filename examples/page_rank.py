"""PageRank in rounds: each round is a stage that reads what the one before it wrote.

    railyard run ./examples/page_rank.py --input examples/data/links.txt \
        --param rounds=10 --get ranks

A line of the input is a page and the pages that it links to, "page target target ...".  A line of
the output is "page<TAB>rank".  Ranks are as in Page et al. (1999), not normalised: a page has
(1 - damping) + damping x the sum over the pages that link to it of rank / number of their links.
"""

from itertools import pairwise

from railyard import Job, Map, Reduce, Stage

LINKS, RANK = 0, 1  # what a value is: a page's links, or a share of the rank of a page that links


class PageRank(Job):
    """Ranks pages in `rounds` rounds."""

    rounds: int = 5
    damping: float = 0.85

    def setup(self):
        if not (1 <= self.rounds <= 20 and 0 < self.damping < 1):
            raise ValueError("need rounds from 1 to 20, and damping between 0 and 1")

    def stages(self):
        names = ["links", *(f"round{letter}" for letter in "abcdefghijklmnopqrst"[: self.rounds])]
        stages = [Stage("links", Map(self.read_links))]
        for before, name in pairwise(names):
            function = self.rank if name == names[-1] else self.pass_on
            stages.append(Stage(name, Reduce(function), reads=(before,)))
        return tuple(stages)

    def read_links(self, line):
        page, *targets = line.split()
        yield from self._shares(page, tuple(targets), 1.0)

    def pass_on(self, page, values):
        targets, rank = self._collected(values)
        yield from self._shares(page, targets, rank)

    def rank(self, page, values):
        _, rank = self._collected(values)
        yield page, f"{rank:.6f}"

    def _shares(self, page, targets, rank):
        """A page's links, for its next round, and a share of its rank for each target."""
        yield page, (LINKS, targets)
        for target in targets:
            yield target, (RANK, rank / len(targets))

    def _collected(self, values):
        """A page's links and its new rank."""
        targets, shares = (), []
        for kind, value in values:
            if kind == LINKS:
                targets += tuple(value)
            else:
                shares.append(value)
        # Values come in any order, and a sum of floats depends on it: sorted, runs agree.
        return targets, (1 - self.damping) + self.damping * sum(sorted(shares))
