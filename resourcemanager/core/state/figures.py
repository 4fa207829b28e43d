"""The policies' own figures for a run's summary, asked for and checked.

A policy that breaks here, or gives what is no number, costs its own figures only: the jobs have
run, and their results are right.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real

from railyard.cluster.errors import UsageError, require, require_name
from railyard.cluster.shown import shown_value
from railyard.resourcemanager.core.state.policies import Policies
from railyard.resourcemanager.interface.decisions import InvalidDecision
from railyard.resourcemanager.interface.policies import Policy

#: {policy: {figure: number}}
Figures = dict[str, dict[str, float]]

#: Figures of one policy.
_FIGURES_MAX = 100
#: So that sums and squares of figures are finite, too.
_FIGURE_MAX = 1e100


def figures_of(policies: Policies) -> tuple[Figures, list[InvalidDecision]]:
    """The figures of all policies that have any, and the errors of those that broke.

    A policy goes by the section of its settings, or else by the name of its class; further ones of
    the same name are NAME-2 and so on.
    """
    found: Figures = {}
    broken: list[InvalidDecision] = []
    for ask in policies.overriding("figures"):
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
    """What a policy gave, if it is figures; raises ``UsageError``."""
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
