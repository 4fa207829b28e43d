"""One attack of each cheap kind, and that attacks leave nothing behind whatever ends them."""

from __future__ import annotations

import importlib
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import msgpack
import msgspec
import pytest

from railyard.benchmarks.attacks import KINDS, frames, http
from railyard.benchmarks.attacks._grounds.guard import processes_of
from railyard.benchmarks.attacks._grounds.home import SMALL, Broken, Grounds
from railyard.benchmarks.attacks._grounds.trials import Skipped, Trial, run_trials
from railyard.benchmarks.attacks._hostile.frames import ORDERS, Frames
from railyard.benchmarks.attacks._hostile.ids import of_nothing, of_running
from railyard.benchmarks.attacks._hostile.messages import message_shapes
from railyard.benchmarks.attacks._hostile.values import Values
from railyard.cli.commands.bench import benchmark_names, parts_of
from railyard.cluster.messaging.wire import Message
from railyard.cluster.topology import load_topology
from railyard.dfs.messages import WriteBlock
from railyard.netemu.messages import OpenFlow
from tests.waiting import wait_for

ROOT = Path(__file__).parent.parent.parent

_MAKER = """
import random, time
from railyard.benchmarks.attacks._grounds.home import Grounds
with Grounds() as grounds:
    home = grounds.home(random.Random(1))
    home.up()
    print(grounds.folder, flush=True)
    time.sleep(60)
"""


def require_held(rows):
    broken = [f"{row['name']}: {row['note']}" for row in rows if row["ok"] is False]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("kind", "trial"),
    [
        ("homes", "linked"),
        ("corruption", "swapped-one-before"),
        ("fulldisk", "put"),
        ("descriptors", "DataNode-0"),
        ("stops", "NameNode-1"),
        ("duplicates", "several"),
    ],
)
def test_holds(kind, trial):
    require_held(importlib.import_module(f"railyard.benchmarks.attacks.{kind}").run(only=trial))


def test_thousands_of_hostile_frames_are_borne():
    require_held(frames.run(frames=6_000))


def test_hundreds_of_malformed_requests_are_borne():
    require_held(http.run(requests=300, silent=False))


def test_every_kind_is_a_part_of_the_benchmark():
    assert "attacks" in benchmark_names()
    assert parts_of("attacks") == sorted(f"attacks.{kind}" for kind in KINDS)
    assert parts_of("startup") == []


def test_names_of_trials_are_unique_and_quick_has_some_of_each_kind():
    for kind in KINDS:
        if kind not in ("frames", "http"):
            trials = importlib.import_module(f"railyard.benchmarks.attacks.{kind}").trials()
            names = [trial.name for trial in trials]
            assert len(set(names)) == len(names)
            assert any(trial.quick for trial in trials)


def test_rows_say_how_many_were_tried_and_held_and_how_to_repeat_one():
    def fail(_):
        raise Broken("wrong bytes")

    def skip(_):
        raise Skipped("only root can")

    trials = [
        Trial(name="a", row="one sort", attack=lambda home: None, quick=True),
        Trial(name="b", row="one sort", attack=fail, quick=True),
        Trial(name="c", row="another", attack=skip, quick=True),
        Trial(name="d", row="another", attack=fail),
    ]
    rows = {row["name"]: row for row in run_trials("tries", trials, quick=True, seed=3)}
    broken = rows["one sort: of 2 tried, those that held"]
    assert (broken["value"], broken["ok"]) == (1, False)
    assert broken["note"].startswith(
        "wrong bytes; again with: python -m railyard.benchmarks.attacks tries"
    )
    assert broken["note"].endswith("--seed 3 --trial b")
    skipped = rows["another: of 0 tried, those that held"]
    assert (skipped["ok"], skipped["note"]) == (None, "skipped: only root can")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_whatever_ends_the_attacks(number):
    maker = subprocess.Popen([sys.executable, "-c", _MAKER], stdout=subprocess.PIPE, cwd=ROOT)
    folder = Path(maker.stdout.readline().decode().strip())
    assert processes_of(folder)
    maker.send_signal(number)
    maker.communicate()
    wait_for(lambda: not (folder.exists() or processes_of(folder)), why="all is gone")


def test_a_closed_place_starts_no_commands():
    with Grounds() as grounds:
        home = grounds.home(random.Random(1))
        assert grounds.folder.is_dir()
    with pytest.raises(Broken, match="were stopped"):
        home.start("status")
    assert not grounds.folder.exists()


# What hostile frames are made of: all messages, all fields, all edges.


TOPOLOGY = load_topology(str(SMALL))


@pytest.fixture(scope="module")
def hostile_frames():
    return Frames(TOPOLOGY, tuple(message_shapes()))


def opened(frame):
    """The message of a frame; None if it is no sound header."""
    try:
        number, message = msgpack.unpackb(frame.parts[0], strict_map_key=False)
    except Exception:
        return None
    return message if isinstance(number, int) and isinstance(message, dict) else None


def leaves(value):
    if isinstance(value, dict):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    else:
        yield value


def test_shapes_of_all_message_classes_are_found():
    shapes = message_shapes()
    assert {OpenFlow.tag(), WriteBlock.tag(), "describe", "read-outputs", "kill-job"} <= set(shapes)
    assert len(shapes) > 100


def test_all_fields_of_all_messages_are_swept(hostile_frames):
    swept = {(make.args[0], make.args[1].encode_name) for make in hostile_frames.sweep()}
    shapes = message_shapes().items()
    assert swept == {(tag, field.encode_name) for tag, shape in shapes for field in shape.fields}


def test_every_edge_can_be_packed(hostile_frames):
    for number, make in enumerate(hostile_frames.sweep()):
        assert make(random.Random(number)).parts


def test_the_same_seed_makes_the_same_frames(hostile_frames):
    first, again = random.Random(5), random.Random(5)
    assert [hostile_frames.draw(first) for _ in range(500)] == [
        hostile_frames.draw(again) for _ in range(500)
    ]


def test_random_frames_are_of_all_messages(hostile_frames):
    dice = random.Random(6)
    messages = filter(None, (opened(hostile_frames.draw(dice)) for _ in range(8000)))
    assert set(message_shapes()) <= {str(message.get("type")) for message in messages}


class Bounded(Message, frozen=True, kw_only=True):
    whole: Annotated[int, msgspec.Meta(ge=3, le=10)]
    real: Annotated[float, msgspec.Meta(gt=0, le=2.5)]
    names: tuple[str, ...]


def values_of(field_name, dice=None):
    [field] = [
        field
        for field in msgspec.inspect.type_info(Bounded).fields
        if field.encode_name == field_name
    ]
    values = Values(dice or random.Random(7), of_running(TOPOLOGY))
    return [edge() for edge in values.edges(field.type, field.encode_name)], values, field


def test_edges_are_the_bounds_and_what_is_next_to_them():
    whole = values_of("whole")[0]
    assert {2, 3, 4, 9, 10, 11, 2**63, -(2**63)} <= {v for v in whole if isinstance(v, int)}
    real = values_of("real")[0]
    assert {0.0, 5e-324, 2.5, 2.5000000000000004} <= {v for v in real if isinstance(v, float)}
    assert any(v != v for v in real)
    assert any(v == [] for v in values_of("names")[0])


def test_sound_values_are_within_the_bounds():
    made = [values_of(name)[1:] for name in ("whole", "real", "names")]
    for _ in range(300):
        fields = {f.encode_name: values.sound(f.type, f.encode_name) for values, f in made}
        msgspec.convert({"type": Bounded.tag(), **fields}, Bounded)


def test_orders_that_anybody_may_give_name_nobodys_things(hostile_frames):
    pools = of_running(TOPOLOGY).pools
    theirs = {name for pool in ("job", "flow", "coflow", "path", "link") for name in pools[pool]}
    dice = random.Random(8)
    orders = Frames(TOPOLOGY, tuple(sorted(ORDERS)))
    own = set(of_nothing(TOPOLOGY).pools["path"])
    seen = 0
    for _ in range(6000):
        message = opened(orders.draw(dice))
        if message is None or str(message.get("type")) not in ORDERS:
            continue
        about = {k: v for k, v in message.items() if k in ("job", "path", "flow", "coflow", "link")}
        named = {leaf for leaf in leaves(about) if isinstance(leaf, str)}
        assert not named & theirs, message
        if message["type"] == "set-slots":
            assert message.get("node") not in list(pools["one_node"]), message
        seen += bool(named & own)
    assert seen > 100
    assert set(message_shapes()) >= ORDERS, "an order is called otherwise now: see ORDERS"
