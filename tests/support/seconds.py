"""The files that take `make test`, or `make extended`, a second or more: `sharing.py` makes equal shares by them.

    make test ARGS=--junitxml=/tmp/tests.xml && .venv/bin/python -m tests.support.seconds test /tmp/tests.xml

writes `seconds-test.txt` anew. A file that is not in it counts by the number of its tests.
"""

import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

FILES: Final = {each: Path(__file__).with_name(f"seconds-{each}.txt") for each in ("test", "extended")}
"""By what make makes."""
_LEAST: Final = 1.0


def seconds(lines: Iterable[str]) -> dict[str, float]:
    """Return the seconds of each file, by its path in the repository."""
    return {path: float(taken) for taken, _, path in (line.partition(" ") for line in lines)}


def measured(report: str) -> dict[str, float]:
    """Return the seconds of each file in a report in JUnit's form."""
    found: defaultdict[str, float] = defaultdict(float)
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314
        module = "/".join(each for each in case.attrib["classname"].split(".") if each[:1].islower())
        found[f"{module}.py"] += float(case.attrib["time"])
    return found


def written(found: Mapping[str, float]) -> str:
    """Return the text of the file: of those that take long, in the order of their names."""
    return "".join(f"{taken:.1f} {path}\n" for path, taken in sorted(found.items()) if taken >= _LEAST)


if __name__ == "__main__":
    FILES[sys.argv[1]].write_text(written(measured(Path(sys.argv[2]).read_text())))
