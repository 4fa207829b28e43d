"""The latest answers to requests that clients send again, by their tokens.

As HDFS's retry cache: a request whose answer was lost, with its connection or with the NameNode's
process, is not carried out a second time, nor refused since it has been carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from railyard.cluster.messaging.wire import Done, Message
from railyard.dfs.messages.changes import FileReopened
from railyard.dfs.messages.files import FileCompleted, Removed
from railyard.dfs.messages.once import OnceOnly
from railyard.dfs.namenode.journal import AnswerChange

#: Answers that are kept.
ANSWERS_MAX = 10_000

_Answer = Done | Removed | FileCompleted | FileReopened
_DECODER: msgspec.msgpack.Decoder[_Answer] = msgspec.msgpack.Decoder(_Answer)
_ENCODER = msgspec.msgpack.Encoder()

Request = TypeVar("Request", bound=OnceOnly)


class Answers:
    """Kept answers.  ``wrap`` makes a handler answer from them."""

    def __init__(self, kept: Sequence[AnswerChange]) -> None:
        #: {token: (number, answer)}, the oldest first
        self._kept = {each.token: (each.number, each.answer) for each in kept}
        self._next = 1 + max([each.number for each in kept], default=0)
        self._token = ""  #: of the request that is being handled
        self._noted: list[AnswerChange] = []  #: by the journal, for that request

    def wrap(
        self, handler: Callable[[Request, float], Message]
    ) -> Callable[[Request, float], Message]:
        """A handler that carries a request out once, and answers it again from then on."""

        def handle(message: Request, now_s: float) -> Message:
            known = self._kept.get(message.token) if message.token else None
            if known is not None:
                assert known[1] is not None, "only what is removed has no answer"
                return _DECODER.decode(known[1])
            self._token = message.token
            try:
                answer = handler(message, now_s)
                self._keep(self._noted)  # not if it was refused: it may be sent again
                return answer
            finally:
                self._token, self._noted = "", []

        return handle

    def changes(self, answer: object) -> list[AnswerChange]:
        """What the journal is to note before the request that is being handled is answered.

        The oldest answer makes room for it.
        """
        token = self._token
        if not token:
            return []
        assert isinstance(answer, _Answer), "a change's result is the answer"
        self._noted = [AnswerChange(self._next, token, _ENCODER.encode(answer))]
        if len(self._kept) >= ANSWERS_MAX:
            oldest = next(iter(self._kept))
            self._noted.append(AnswerChange(self._kept[oldest][0], oldest, None))
        return self._noted

    def _keep(self, changes: Sequence[AnswerChange]) -> None:
        for change in changes:
            if change.answer is None:
                del self._kept[change.token]
            else:
                self._kept[change.token] = change.number, change.answer
                self._next = 1 + change.number
