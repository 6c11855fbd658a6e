"""Who notices a mutant: the tests of `make test`, or only those that it leaves out."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.mutants.runner import Tier, Verdict

_NOBODY = "nobody"
_ACCEPTED = "accepted"


class Judged(NamedTuple):
    """A mutant with what the tests have said of it.

    Attributes:
        area: the beginning of its path that has a selection of tests.
        text: its name, place and change.
        verdict: what the tests have said.
        accepted: whether it is known to survive, with a reason.
    """

    area: str
    text: str
    verdict: Verdict
    accepted: bool


def table(judged: Sequence[Judged]) -> list[str]:
    """Return the lines of a table by area, and below it what only extended tests kill, each with its test."""
    counts: dict[str, Counter[str]] = {}
    for each in judged:
        who = each.verdict.tier or (_ACCEPTED if each.accepted else _NOBODY)
        counts.setdefault(each.area, Counter())[who] += 1
    width = max(map(len, [*counts, "area"]))
    lines = [f"{'area':{width}}  mutants  make test  only extended  nobody  accepted  make test of the killed"]
    lines += [_row(area, found, width) for area, found in sorted(counts.items())]
    lines.append(_row("all", sum(counts.values(), Counter[str]()), width))
    late = [each for each in judged if each.verdict.tier is Tier.EXTENDED]
    return [*lines, *(f"only by {each.verdict.test}: {each.text}" for each in late)]


def _row(area: str, found: Mapping[str, int], width: int) -> str:
    quick, late, nobody, accepted = (found.get(who, 0) for who in (*Tier, _NOBODY, _ACCEPTED))
    share = f"{100 * quick / (quick + late):21.1f} %" if quick + late else f"{'-':>23}"
    return f"{area:{width}} {sum(found.values()):8} {quick:10} {late:14} {nobody:7} {accepted:9}  {share}"
