"""`make mutants ARGS='--sample 200 --seed 1 --only edged/pods'`: which mutants do the tests not notice?"""

import argparse
import math
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.collected import BaselineError
from tests.mutants.operators import Mutant, mutants
from tests.mutants.planted import SimulatedBug, planted_bugs, simulated_bugs
from tests.mutants.results import Results
from tests.mutants.runner import NOT_SLOW, MutantResult, Runner, Verdict
from tests.mutants.selection import ROOT, area_of, modules, tests_of
from tests.mutants.survivors import survivors
from tests.mutants.tiers import Judged, table
from tests.support.saying import say

_DEAD = (MutantResult.KILLED, MutantResult.TIMED_OUT)
_SHOWN = 160
"""Characters of a statement that are printed around its change."""


def main() -> int:
    """Return 0 when mutants were run and `survivors.toml` lists every survivor, otherwise 1.

    The files of failed tests, which pytest keeps for people, go with a directory of this process.
    """
    chosen = _arguments()
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        Path(directory).chmod(0o711)  # PostgreSQL's processes are another user's
        os.environ["TMPDIR"] = tempfile.tempdir = directory
        return _judge_planted(tiers=chosen.tiers) if chosen.planted else _judge(chosen)


def _judge_planted(*, tiers: bool) -> int:
    runner, survived = Runner(), 0
    for planted in planted_bugs():
        result = runner.run_planted(planted)
        survived += result not in _DEAD
        tier = f" ({runner.tier_of(planted.test) or 'make slow'})" if tiers else ""
        say(f"{result.value}{tier} {planted.path}: {planted.bug}")
    runner.close()
    return 1 if survived else 0


def _judge(chosen: argparse.Namespace) -> int:
    known = {survivor.name for survivor in survivors()}
    judged = list[Judged]()
    results, failing = Results(chosen.results), list[list[str]]()
    runner = Runner(chosen.quick, processes=chosen.processes, tiers=chosen.tiers)
    end = time.monotonic() + chosen.minutes * 60
    for mutant in _sample(chosen):
        verdict = results.get(mutant)
        if verdict is None or _is_open(verdict, chosen):
            if time.monotonic() > end:
                continue
            tests = chosen.tests or tests_of(mutant.path, simulation=chosen.simulation)
            if tests in failing:
                continue
            try:
                verdict = runner.run(mutant, [*NOT_SLOW, *tests] if chosen.tiers else tests)
            except BaselineError as error:
                say(f"{area_of(mutant.path)} is left out: {error}")
                failing.append(tests)
                continue
            results.put(mutant, verdict)
        accepted = verdict.result not in _DEAD and mutant.name in known
        area = area_of(mutant.path) if isinstance(mutant, Mutant) else "(simulation's bugs)"
        judged.append(Judged(area, _text(mutant), verdict, accepted))
        by = f" by {verdict.test}" if chosen.tiers and verdict.test else ""
        say(f"{verdict.result.value}{by}{' (accepted)' if accepted else ''} {_text(mutant)}")
    runner.close()
    if runner.failed:
        say(f"left out, since they fail without a mutant: {' '.join(sorted(runner.failed))}")
    if time.monotonic() > end:
        say(f"{chosen.minutes:g} minutes are over")
    say("\n" + "\n".join(table(judged) if chosen.tiers else _summary(judged)))
    survived = any(each.verdict.result not in _DEAD and not each.accepted for each in judged)
    return 1 if survived or failing or runner.failed or not judged else 0


def _is_open(verdict: Verdict, chosen: argparse.Namespace) -> bool:
    """Return whether a result of an earlier run is not what this one asks for."""
    is_partial = verdict.result is MutantResult.SURVIVED_QUICK and chosen.quick == math.inf
    return is_partial or (chosen.tiers and verdict.result in _DEAD and verdict.tier is None)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--only", default="", metavar="PATH", help="modules whose paths begin so")
    parser.add_argument("--name", default=[], nargs="*", metavar="NAME", help="these mutants, by their names")
    parser.add_argument("--tests", default=[], nargs="*", metavar="TEST", help="instead of the package's own")
    parser.add_argument("--sample", type=int, default=100, metavar="N", help="mutants, drawn at random (default 100)")
    parser.add_argument("--all", action="store_true", help="all mutants instead of a sample")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keeps results: a later run does not repeat them")
    parser.add_argument(
        "--quick", type=float, default=math.inf, metavar="SECONDS", help="of tests for a mutant, the quickest first"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the sample")
    parser.add_argument("--order", action="store_true", help="only changes of order, of time, and of bounds by one")
    parser.add_argument("--failures", action="store_true", help="only clean-up that is left out after an error")
    parser.add_argument("--states", action="store_true", help="only attributes that keep what has ended")
    parser.add_argument("--planted", action="store_true", help="only the bugs of planted.toml, with their tests")
    parser.add_argument("--simulation", action="store_true", help="run the simulation's plans, too")
    parser.add_argument("--processes", action="store_true", help="as root: in the processes that the tests start, too")
    parser.add_argument("--tiers", action="store_true", help="who kills: make test, or only extended tests")
    parser.add_argument("--minutes", type=float, default=20.0, metavar="N", help="at most (default 20)")
    return parser.parse_args()


def _sample(chosen: argparse.Namespace) -> list[Mutant | SimulatedBug]:
    """Return the chosen mutants, and with `--tiers` the simulation's bugs; those with the same tests come together, and
    first the tests that are for the most.
    """
    bugs = [bug for bug in simulated_bugs() if bug.path.startswith(chosen.only)] if chosen.tiers else []
    found = [mutant for path in modules(chosen.only) for mutant in mutants(path, (ROOT / path).read_text())]
    if chosen.order:
        found = [mutant for mutant in found if mutant.of_order]
    if chosen.failures:
        found = [mutant for mutant in found if mutant.of_failure]
    if chosen.states:
        found = [mutant for mutant in found if mutant.of_state]
    if chosen.name:
        found = [mutant for mutant in found if mutant.name in chosen.name]
        bugs = [bug for bug in bugs if bug.name in chosen.name]
    elif not chosen.all:
        say(f"{min(chosen.sample, len(found))} of {len(found)} mutants")
        drawn = random.Random(chosen.seed)  # noqa: S311 - reproducible on purpose
        found = drawn.sample(found, min(chosen.sample, len(found)))
    changes: list[Mutant | SimulatedBug] = [*found, *bugs]
    counts = Counter(str(tests_of(each.path)) for each in changes)
    return sorted(changes, key=lambda each: (-counts[str(tests_of(each.path))], tests_of(each.path)))


def _text(mutant: Mutant | SimulatedBug) -> str:
    if not isinstance(mutant, Mutant):
        return f"{mutant.name} {mutant.path}"
    head = f"{mutant.name} {mutant.path}:{mutant.line} {mutant.function}"
    pairs = enumerate(zip(mutant.before, mutant.after, strict=False))
    begin = max(0, next((at for at, (one, other) in pairs if one != other), 0) - _SHOWN // 2)
    before, after = mutant.before[begin : begin + _SHOWN], mutant.after[begin : begin + _SHOWN]
    return f"{head}\n    - {before}\n    + {after}"


def _summary(judged: Sequence[Judged]) -> list[str]:
    counts: dict[str, Counter[str]] = {}
    for each in judged:
        counts.setdefault(each.area, Counter())["accepted" if each.accepted else each.verdict.result.value] += 1
    rows = [*sorted(counts.items()), ("all", sum(counts.values(), Counter[str]()))]
    width = max(len(area) for area, _ in rows)
    lines = [f"{'area':{width}}  mutants  killed  accepted  survived  killed of the not accepted"]
    for area, results in rows:
        total, accepted = results.total(), results["accepted"]
        killed = sum(results[result] for result in _DEAD)
        share = 100 * killed / max(1, total - accepted)
        lines.append(f"{area:{width}} {total:8} {killed:7} {accepted:9} {total - killed - accepted:9} {share:7.0f} %")
    return lines


if __name__ == "__main__":
    sys.exit(main())
