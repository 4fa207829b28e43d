"""The story of a job's stage: when it could run, what its tasks waited for, where they went.

Pure.  Never here: replaying.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from railyard.cluster.ids import rack_of, stage_id, stage_of
from railyard.resourcemanager.driving.explaining.explanation import AttemptStory, StageStory
from railyard.resourcemanager.driving.explaining.recorder import Recorder
from railyard.resourcemanager.driving.explaining.waits import Waits
from railyard.resourcemanager.interface.events import StagePlan

_PLANS_MAX = 10
#: Figures in a reason that differ from attempt to attempt, such as seconds waited.
_DECIMALS = re.compile(r"\d+\.\d+(e[+-]?\d+)?")


def stage_story(recorder: Recorder, plan: StagePlan) -> StageStory:
    """What was noted of a stage."""
    name = stage_id(recorder.job, plan.name)
    waits = recorder.waits.get(name, Waits())
    stories = [s for s in recorder.attempts.stories.values() if stage_of(s.attempt) == name]
    slots_s = [story.slot_s for story in stories if story.slot_s is not None]
    return StageStory(
        stage=name,
        tasks=plan.tasks,
        needed=plan.needed or plan.tasks,
        reads=plan.reads,
        runnable_s=waits.runnable_s,
        first_launch_s=min(slots_s, default=None),
        done_s=recorder.done_s.get(name),
        waits=waits.waits,
        answers=waits.answers,
        turns=waits.turns,
        attempts=len(stories),
        copies=sum(s.chosen is not None and s.chosen.how == "copied" for s in stories),
        levels=dict(Counter(story.level for story in stories)),
        racks=dict(sorted(Counter(rack_of(story.node) for story in stories).items())),
        whys=_whys(stories),
        planned=list(dict.fromkeys(_planned(stories)))[:_PLANS_MAX],
    )


def _whys(stories: Iterable[AttemptStory]) -> dict[str, int]:
    """{why: attempts}, the most usual first; decimals that differ are the first one's."""
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for story in stories:
        why = story.chosen.why if story.chosen else "unknown"
        counts[first.setdefault(_DECIMALS.sub("#", why), why)] += 1
    return dict(counts.most_common())


def _planned(stories: Iterable[AttemptStory]) -> Iterable[str]:
    return (story.chosen.planned for story in stories if story.chosen and story.chosen.planned)
