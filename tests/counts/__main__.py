"""Print what each step costs, beside the table; see `counts.toml`."""

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.counts.calls import Counted
from tests.counts.table import MEASURES, TABLE, known, with_counts


def main() -> None:
    """Count all steps."""
    parser = argparse.ArgumentParser(prog="python -m tests.counts", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the counts into the table")
    parser.add_argument("--calls", metavar="STEP", help="print the functions that a step calls")
    parser.add_argument("--area", choices=MEASURES, help="count only these steps")
    parser.add_argument("--json", action="store_true", help="print the numbers of each step as JSON")
    chosen = parser.parse_args()
    table = known()
    steps: dict[str, Counted] = {}
    for area, measure in MEASURES.items():
        with TemporaryDirectory(prefix="counts-") as directory:
            if chosen.area in (None, area) and (not chosen.calls or chosen.calls.startswith(area)):
                steps |= measure(Path(directory))
    if chosen.calls:
        sys.stdout.write("\n".join(steps[chosen.calls].lines()) + "\n")
        return
    if chosen.json:
        sys.stdout.write(json.dumps({step: counted.numbers for step, counted in steps.items()}) + "\n")
        return
    for step, counted in steps.items():
        before = table.get(step, {})
        numbers = ", ".join(f"{number:g} {name} ({before.get(name, 0):g})" for name, number in counted.numbers.items())
        sys.stdout.write(f"{step}: {numbers}\n")
    if chosen.write:
        kept = {step: Counted(numbers) for step, numbers in table.items() if chosen.area}
        TABLE.write_text(with_counts(TABLE.read_text(), kept | steps))


if __name__ == "__main__":
    main()
