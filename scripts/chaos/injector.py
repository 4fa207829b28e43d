"""A plan of faults as it is carried out: each at its time, mended, and watched until recovery."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from railyard.scripts.chaos.effects import Effect, Faults
from railyard.scripts.chaos.plan import Fault
from railyard.scripts.chaos.watches import Watch
from railyard.scripts.clusters.session import Session

#: For how long a fault waits for something that it can be done to.
_TARGET_PATIENCE_S = 20.0
#: A cluster that takes longer has not recovered.
RECOVERY_TIMEOUT_S = 60.0
#: Between two looks at all that is under way.
_PERIOD_S = 0.02


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """What came of a fault."""

    fault: Fault
    what: str  #: "kill -9 of datanode-r1"; "" = there was nothing that it could be done to
    at_s: float  #: when it was done, or given up, on the plan's clock
    took_s: float | None  #: from the fault, or from its end, to recovery; None = none was seen


@dataclass(kw_only=True)
class _UnderWay:
    fault: Fault
    effect: Effect
    at_s: float
    mended_s: float | None = None
    watch: Watch | None = None


class Injector:
    """Carries out a plan on the cluster of a session; ``tell`` is called as each fault is over."""

    def __init__(
        self, session: Session, plan: Iterable[Fault], tell: Callable[[Recovered], None]
    ) -> None:
        self.done: list[Recovered] = []
        self._reactor = session.reactor
        self._faults = Faults(session)
        self.begun_s = time.monotonic()  #: when the plan's clock was 0
        self._to_come = deque(plan)
        self._waiting: list[Fault] = []  #: those that are due, and have found nothing yet
        self._under_way: list[_UnderWay] = []
        self._tell = tell

    def follow(self, is_over: Callable[[], bool]) -> None:
        """Go on until all faults are over, and ``is_over``; or until that raises an error."""
        try:
            while not is_over() or self._is_busy:
                self._reactor.run_until(lambda: False, _PERIOD_S)
                self._turn()
        finally:
            self._mend_all()

    @property
    def now_s(self) -> float:
        """The time on the plan's clock."""
        return time.monotonic() - self.begun_s

    @property
    def _is_busy(self) -> bool:
        return bool(self._to_come or self._waiting or self._under_way)

    def _turn(self) -> None:
        while self._to_come and self._to_come[0].at_s <= self.now_s:
            self._waiting.append(self._to_come.popleft())
        self._waiting = [fault for fault in self._waiting if not self._begin(fault)]
        self._under_way = [one for one in self._under_way if not self._look_at(one)]

    def _begin(self, fault: Fault) -> bool:
        """Whether it need not be tried again."""
        now_s = self.now_s
        effect = self._faults.begin(fault)
        if effect is not None:
            one = _UnderWay(fault=fault, effect=effect, at_s=now_s)
            self._under_way.append(one)
            if not fault.lasts_s:
                self._mend(one, now_s)
            return True
        if now_s < fault.at_s + _TARGET_PATIENCE_S:
            return False
        self._end(Recovered(fault=fault, what="", at_s=now_s, took_s=None))
        return True

    def _mend(self, one: _UnderWay, now_s: float) -> None:
        one.effect.mend()
        one.mended_s = now_s
        one.watch = one.effect.watch()

    def _look_at(self, one: _UnderWay) -> bool:
        """Mend it if it is time; whether it is over."""
        now_s = self.now_s
        if one.watch is None or one.mended_s is None:
            if now_s >= one.at_s + one.fault.lasts_s:
                self._mend(one, now_s)
            return False
        is_well = one.watch.is_well()
        took_s = self.now_s - one.mended_s
        if not is_well and took_s < RECOVERY_TIMEOUT_S:
            return False
        one.watch.close()
        found_s = took_s if is_well else None
        self._end(Recovered(fault=one.fault, what=one.effect.what, at_s=one.at_s, took_s=found_s))
        return True

    def _end(self, recovered: Recovered) -> None:
        self.done.append(recovered)
        self._tell(recovered)

    def _mend_all(self) -> None:
        """Leave nothing stopped or limited, however this ended."""
        for one in self._under_way:
            if one.mended_s is None:
                one.effect.mend()
