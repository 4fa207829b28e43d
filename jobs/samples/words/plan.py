"""The plans of the two jobs: text generated or given; counted or ranked; checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from railyard.cluster.errors import require
from railyard.cluster.shown import printable
from railyard.jobs.model import Job
from railyard.jobs.package import pack_job
from railyard.jobs.samples.sample import Files, Plan, Request, Step, Verdict
from railyard.jobs.samples.steps import decoded, generating_step, lines_of, measured_step, text_of
from railyard.jobs.samples.words.textgen import TextGen
from railyard.jobs.samples.words.topwords import TopWords
from railyard.jobs.samples.words.wordcount import WordCount

#: Compares the (word, count) lines of an output with the independently counted words of the input.
_Compare = Callable[[list[tuple[bytes, int]], Counter[bytes]], Verdict]

#: Number of the most frequent words that are shown.
_TOP = 10
_SHOWN_LETTERS_MAX = 40


def plan_wordcount(request: Request) -> Plan:
    """Count the words of generated or given text."""

    def compare(found: list[tuple[bytes, int]], expected: Counter[bytes]) -> Verdict:
        wrong = sorted(set(found) ^ set(expected.items()))
        if wrong or len(found) != len(expected):
            example = f': "{wrong[0][0].decode(errors="replace")}" {wrong[0][1]}' if wrong else ""
            return Verdict(False, f"{len(wrong)} counts differ from an independent count{example}")
        total = expected.total()
        return Verdict(
            True,
            f"{total} words, {len(expected)} distinct, as counted independently",
            tuple(
                f"{count:>9}  {printable(decoded(word), _SHOWN_LETTERS_MAX)}"
                for word, count in expected.most_common(_TOP)
            ),
        )

    return _plan_text("wordcount", WordCount, request, bytes.split, compare)


def plan_topwords(request: Request) -> Plan:
    """Find the most frequent words of generated or given text."""

    def words(text: bytes) -> list[bytes]:
        # This job reads text as str, so any white space of Unicode ends a word.
        return [word.encode("utf-8", "surrogateescape") for word in decoded(text).split()]

    def compare(found: list[tuple[bytes, int]], expected: Counter[bytes]) -> Verdict:
        ranked = sorted(expected.items(), key=lambda item: (-item[1], decoded(item[0])))
        right = found == ranked[: TopWords(**request.params).most]
        return Verdict(right, "as counted independently" if right else "other words are first")

    return _plan_text("topwords", TopWords, request, words, compare)


def _plan_text(
    name: str,
    job: type[Job],
    request: Request,
    words: Callable[[bytes], list[bytes]],
    compare: _Compare,
) -> Plan:
    generate = None if request.input else _generate_text(request)
    source = generate.output if generate else request.input
    step = measured_step(name, source, request, pack_job(job, request.params))

    def verify(files: Files) -> Verdict:
        """Compare with counts from one simple pass that shares no code with the job."""
        expected: Counter[bytes] = Counter()
        for text in text_of(files, source):
            expected.update(words(text))
        found = []
        for line in lines_of(files, step.output):
            word, _, count = line.rpartition(b"\t")
            if not count.isdigit():
                return Verdict(False, f"the output has a line {line!r:.60}: need word<TAB>count")
            found.append((word, int(count)))
        return compare(found, expected)

    steps = (generate, step) if generate else (step,)
    return Plan(steps=steps, input=job.input, verify=verify)


def _generate_text(request: Request) -> Step:
    size = request.stored_bytes
    require(size >= 1, "size", size, "at least one real byte")
    params = {"size": size, "parts": min(request.parts, size), "seed": request.seed}
    return generating_step("textgen", request, pack_job(TextGen, params), size)
