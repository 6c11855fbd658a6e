"""`make fuzz`: runs any number of cases on all cores, and prints progress and findings.

A finding names its target, seed and case, and the smallest failing input. Add it to `tests/fuzz/test_regressions.py`
together with its fix.
"""

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from random import randrange
from time import monotonic

from tests.fuzz.campaign import Finding, Outcome, run, shares
from tests.fuzz.targets import TARGETS

_PART = 5000
"""Cases that a process runs before it reports."""


def main() -> int:
    """Run the chosen targets; return 1 when there are findings."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="over all targets (default 100000)")
    parser.add_argument("--seed", type=int, default=randrange(1 << 32), help="default: another one each time")
    parser.add_argument("--target", choices=sorted(TARGETS), action="append", help="only this one; may be repeated")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1, help="processes (default: one for each core)")
    chosen = parser.parse_args()
    targets = [TARGETS[name] for name in chosen.target or TARGETS]
    sys.stderr.write(f"seed {chosen.seed}\n")
    return _campaign(shares(targets, chosen.cases), chosen.seed, chosen.cores)


def _campaign(cases: dict[str, int], seed: int, cores: int) -> int:
    whole, done, began = sum(cases.values()), 0, monotonic()
    outcomes = {name: Outcome(name) for name in cases}
    parts = [
        (name, range(at, min(at + _PART, count))) for name, count in cases.items() for at in range(0, count, _PART)
    ]
    with ProcessPoolExecutor(cores) as pool:
        running = [pool.submit(partial(_part, name, seed, numbers)) for name, numbers in parts]
        for finished in as_completed(running):
            outcome = finished.result()
            _add(outcomes[outcome.target], outcome)
            done += outcome.cases
            rate = done / (monotonic() - began)
            sys.stderr.write(f"\r{done} of {whole} cases, {rate:.0f} a second ")
            sys.stderr.flush()
    sys.stderr.write("\n")
    return _report(list(outcomes.values()))


def _part(name: str, seed: int, numbers: range) -> Outcome:
    return run(TARGETS[name], seed, numbers)


def _add(whole: Outcome, part: Outcome) -> None:
    whole.cases += part.cases
    whole.seconds += part.seconds
    whole.slowest = max(whole.slowest, part.slowest)
    whole.growth = max(whole.growth, part.growth)
    known = {finding.location for finding in whole.findings}
    whole.findings += [finding for finding in part.findings if finding.location not in known]


def _report(outcomes: list[Outcome]) -> int:
    for each in outcomes:
        rate = each.cases / each.seconds if each.seconds else 0.0
        sys.stdout.write(
            f"{each.target:15} {each.cases:8} cases  {rate:7.0f}/s  slowest {each.slowest * 1000:6.1f} ms  "
            f"growth {each.growth / 2**20:5.1f} MiB  findings {len(each.findings)}\n"
        )
    findings: list[Finding] = [finding for each in outcomes for finding in each.findings]
    for finding in findings:
        sys.stdout.write(f"\n{finding}\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
