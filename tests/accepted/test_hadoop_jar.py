"""Options of ``hadoop jar``: each does what its table says, and what stands in none is refused."""

from __future__ import annotations

import random

import pytest

from railyard.cluster.acceptance import Effect
from railyard.cluster.errors import UsageError
from railyard.gateway.shell.jar import OPTIONS, JarOptions

USED, IDLE, REFUSED = (OPTIONS.named(effect) for effect in Effect)
NEEDED = ("-input", "/in", "-output", "/out", "-mapper", "cat")
FLAGS = ("-background", "-help", "--help", "-h", "-info", "-verbose", "-debug")
#: {option: a value that changes something}
PROBES = {
    "-jobconf": "a=b",
    **dict.fromkeys(("-files", "-cacheFile", "-file"), "f"),
    **dict.fromkeys(("-archives", "-cacheArchive"), "a.zip"),
    "-input": "/more",
    **dict.fromkeys(("-output", "-mapper", "-combiner", "-reducer"), "other"),
    "-partitioner": "KeyFieldBasedPartitioner",
    "-inputformat": "NLineInputFormat",
    "-outputformat": "TextOutputFormat",
    **dict.fromkeys(("-numReduceTasks", "-reduces"), "3"),
    "-cmdenv": "A=1",
    **dict.fromkeys(("-background", "-help", "--help", "-h", "-info"), ""),
}
SILLY = ("", "-", "=", "a", "-mapper", "\N{DESERT}", "x" * 300)


def outcome(words):
    """What is sent for some words."""
    made = JarOptions(list(words))
    return [
        made.request,
        made.inputs,
        made.files,
        made.generic.settings(),
        made.environment,
        (made.background, made.help),
    ]


def given(option, value):
    return [option] if option in FLAGS else [option, value]


def test_each_used_option_has_a_probe():
    assert set(PROBES) == set(USED)


@pytest.mark.parametrize("option", USED)
def test_a_used_option_changes_what_is_sent(option):
    words = given(option, PROBES[option])
    at = NEEDED.index(option) if option in ("-output", "-mapper") else None
    others = NEEDED if at is None else NEEDED[:at] + NEEDED[at + 2 :]
    assert outcome([*others, *words]) != outcome(NEEDED)


@pytest.mark.parametrize("option", REFUSED)
def test_a_refused_option_is_named(option):
    with pytest.raises(UsageError) as raised:
        JarOptions([*NEEDED, option, "x"])
    assert str(raised.value) == f"{option}: not supported: {OPTIONS.entries[option].note}"


@pytest.mark.parametrize("option", IDLE)
def test_an_idle_option_changes_nothing(option):
    assert outcome([*given(option, "x"), *NEEDED]) == outcome(NEEDED)


def test_an_unknown_option_is_refused_with_a_near_one():
    with pytest.raises(UsageError, match=r'^unknown option "-maper": did you mean "-mapper"'):
        JarOptions([*NEEDED, "-maper", "cat"])
    with pytest.raises(UsageError, match=r'^unknown option "stray"'):
        JarOptions([*NEEDED, "stray"])


@pytest.mark.parametrize("option", ["-output", "-mapper", "-reducer", "-numReduceTasks"])
def test_an_option_with_one_value_is_given_once(option):
    with pytest.raises(UsageError, match=f"^{option} b: is given twice: need it once"):
        JarOptions([option, "a", option, "b"])


def check_random(dice: random.Random) -> None:
    """Some options at once: refused by the name of one of them, or each used one has an effect."""
    pieces = [[NEEDED[at], NEEDED[at + 1]] for at in (0, 2, 4) if dice.random() < 0.9]
    for _ in range(dice.randint(1, 4)):
        option = dice.choice((*USED, *IDLE, *REFUSED, "-nonsense", "stray", "--reducer", "-Dx"))
        value = PROBES.get(option, "x") if dice.random() < 0.7 else dice.choice(SILLY)
        pieces.append(given(option, value))
    dice.shuffle(pieces)
    words = [word for piece in pieces for word in piece]
    whole = outcome_or_error(words)
    if isinstance(whole, str):
        assert "\n" not in whole
        missing = [f"required option: {name}" for name in ("input", "output", "mapper")]
        names = [*(word[:60] for word in words), *missing, '""']
        assert any(name and name in whole for name in names), (whole, words)
        return
    for piece in pieces:
        others = [other for other in pieces if other is not piece]
        twins = [OPTIONS.entries.get(other[0]) for other in others if other[1:] == piece[1:]]
        if piece[0] in USED and piece[1:] != [""] and not any(twins):
            rest = [word for other in others for word in other]
            assert outcome_or_error(rest) != whole, (piece, words)


def outcome_or_error(words):
    try:
        return outcome(words)
    except UsageError as error:
        return str(error)


def test_any_options_have_an_effect_or_are_refused(seed):
    check_random(random.Random(seed))
