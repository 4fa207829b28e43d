"""The policies of a recipe at work: how the core asks them, and what it says when one breaks.

Policies are third parties' code: every exception of theirs becomes an ``InvalidDecision`` that
names the policy.

Never here: what an answer leads to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from numbers import Real
from typing import Any, TypeVar

from railyard.cluster.errors import InvariantError, UsageError, require, require_name, shown_value
from railyard.resourcemanager.core.jobs import Job, Node
from railyard.resourcemanager.interface.decisions import Decision, InvalidDecision, Proposal
from railyard.resourcemanager.interface.policies import (
    CopyPolicy,
    DataPolicy,
    FlowPolicy,
    OrderPolicy,
    Policy,
    ShufflePolicy,
    TaskPolicy,
)
from railyard.resourcemanager.interface.recipe import (
    Option,
    Recipe,
    read_links_options,
    read_options,
)
from railyard.resourcemanager.interface.views import ClusterView

T = TypeVar("T")

#: What a policy may answer.
ROLES = ("data", "order", "tasks", "shuffle", "copies", "flows")


class Observer:
    """Whoever observes a core's policies.  It reads, and changes nothing."""

    def answered(self, job: Job, slot: Node, answer: Decision) -> None:
        """A slot was offered to a job, and this is the answer; it was not carried out yet."""

    def proposed(self, proposal: Proposal) -> None:
        """A policy has proposed this; it was not carried out yet."""


class Policies:
    """The objects made of a recipe's classes, one of each class."""

    def __init__(self, recipe: Recipe, options: Mapping[str, Option], cluster: ClusterView) -> None:
        configs = read_options(recipe, options)
        made: dict[type[Policy], Any] = {
            kind: kind(configs[kind], cluster, *[configs[part] for part in kind.part_settings])
            for kind in recipe.classes
        }
        self.name = recipe.name
        #: how links are observed; None if no policy uses the network
        self.links = read_links_options(recipe, options)
        self.data: DataPolicy = made[recipe.data]
        self.order: OrderPolicy = made[recipe.order]
        self.tasks: TaskPolicy = made[recipe.tasks]
        self.shuffle: ShufflePolicy = made[recipe.shuffle]
        self.copies: CopyPolicy = made[recipe.copies]
        self.flows: FlowPolicy = made[recipe.flows]
        self._cluster = cluster
        whole = [part for policy in made.values() for part in policy.with_parts()]
        #: {hook: methods of those policies and their parts that override it}
        self.hooks: dict[str, tuple[Callable[..., Any], ...]] = dict.fromkeys(_HOOKS, ())
        for part in whole:
            kind: Any = type(part)  # of which mypy does not see that it can be hashed
            for name in _overridden(kind):
                self.hooks[name] += (getattr(part, name),)

    def notify(self, hook: str, *about: object) -> None:
        for call in self.hooks[hook]:
            try:
                call(*about)
            except Exception as error:
                raise self.broken(call, about, error) from error

    def roles_of(self, policy: Policy) -> tuple[str, ...]:
        """The questions that a policy answers, by itself or as a part, such as ("tasks",)."""
        return tuple([role for role in ROLES if policy in getattr(self, role).with_parts()])

    def ask(self, question: Callable[..., T], *about: object) -> T:
        """The answer of a policy's method, which is called with ``about``.

        Raises ``InvalidDecision`` if it breaks.
        """
        try:
            return question(*about)
        except (InvariantError, UsageError):
            raise
        except Exception as error:
            raise self.broken(question, about, error) from error

    def each(self, question: Callable[[], Iterable[T]]) -> Iterator[T]:
        """The items of a policy's answer to a question, which may be made one by one."""
        try:
            yield from question()
        except Exception as error:
            raise self.broken(question, (), error) from error

    def ask_number(self, question: Callable[..., float], *about: object) -> float:
        answer = self.ask(question, *about)
        if not isinstance(answer, int | float):
            raise self.invalid(_name(question), f"answered {answer!r}", "need a number", *about)
        return answer

    def invalid(self, who: str, what: str, why: str, *about: object) -> InvalidDecision:
        """The error for an answer that can't be; ``about``: nodes, jobs, tasks, or their names."""
        text = f"{self.name}/{who} {what} at {self._cluster.now_s:.3f} s, but {why}"
        return InvalidDecision(text, map(_subject, about))

    def failed(self, who: str, doing: str, error: Exception, *about: object) -> InvalidDecision:
        what = f"{type(error).__name__}: {error}"
        text = f"{self.name}/{who} failed at {self._cluster.now_s:.3f} s, {doing}: {what}"
        return InvalidDecision(text, map(_subject, about))

    def broken(
        self, question: Callable[..., Any], about: tuple[object, ...], error: Exception
    ) -> InvalidDecision:
        """The error for a policy's method, called with ``about``, that raised one."""
        names = ", ".join([each.id for each in about if hasattr(each, "id")])
        return self.failed(_name(question), f"called with {names or 'nothing'}", error, *about)


#: {method that policies may override: what it is if they do not}
_HOOKS = {
    name: plain
    for name, plain in vars(Policy).items()
    if callable(plain) and not name.startswith("_")
}


@cache
def _overridden(kind: type[Policy]) -> tuple[str, ...]:
    return tuple([name for name, plain in _HOOKS.items() if getattr(kind, name) != plain])


def _name(question: Callable[..., Any]) -> str:
    """Say "SlowStart.limit" of a policy's method."""
    return f"{type(getattr(question, '__self__', None)).__name__}.{question.__name__}"


def _subject(about: object) -> str:
    """The name by which events of something are found: of a stage, its job's."""
    named = getattr(about, "job", about)
    return str(getattr(named, "id", named))


# Figures for a run's summary ---------------------------------------------------------------------
#: {policy: {figure: number}}
Figures = dict[str, dict[str, float]]

#: Figures of one policy.
_FIGURES_MAX = 100
#: So that sums and squares of figures are finite, too.
_FIGURE_MAX = 1e100


def figures_of(policies: Policies) -> tuple[Figures, list[InvalidDecision]]:
    """The figures of all policies that have any, and the errors of those that broke.

    A policy that breaks here, or gives what is no number, costs its own figures only.  It goes by
    the section of its settings, or else by the name of its class; further ones of the same name are
    NAME-2 and so on.
    """
    found: Figures = {}
    broken: list[InvalidDecision] = []
    for ask in policies.hooks["figures"]:
        policy = getattr(ask, "__self__", None)
        assert isinstance(policy, Policy), "a hook is a policy's method"
        who = f"{type(policy).__name__}.figures"
        try:
            given = ask()
        except Exception as error:
            broken.append(policies.failed(who, "asked for its figures", error))
            continue
        try:
            figures = _checked(given)
        except UsageError as error:
            broken.append(policies.invalid(who, "gave something else than figures", str(error)))
        else:
            if figures:
                found[_free_name(policy.section or type(policy).__name__, found)] = figures
    return found, broken


def _checked(given: object) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise UsageError(f"{shown_value(given)}: need {{name: number}}")
    require(len(given) <= _FIGURES_MAX, "figures", len(given), f"at most {_FIGURES_MAX}")
    figures = {}
    for name, value in given.items():
        require(isinstance(name, str), "a figure's name", name, "text")
        require_name("a figure's name", name)
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        fits = is_number and abs(value) <= _FIGURE_MAX  # False for NaN
        require(fits, name, value, "a finite number")
        figures[name] = float(value)
    return figures


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free
