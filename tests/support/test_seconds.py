"""How long files of tests take, and what is written of it."""

from pathlib import Path

import pytest

from tests.mutants.selection import ROOT
from tests.support.seconds import FILES, measured, seconds, written

REPORT = """<testsuites><testsuite>
<testcase classname="tests.beehive.test_bus" name="test_a" time="0.75" />
<testcase classname="tests.beehive.test_bus.TestClass" name="test_b" time="0.5" />
<testcase classname="tests.test_docs" name="test_c[x.y]" time="0.9" />
</testsuite></testsuites>"""


def test_files_of_a_second_are_written_with_their_seconds() -> None:
    found = measured(REPORT)
    assert found == {"tests/beehive/test_bus.py": 1.25, "tests/test_docs.py": 0.9}
    assert written(found) == "1.2 tests/beehive/test_bus.py\n"


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_files_that_are_there_are_named(file: Path) -> None:
    assert [path for path in seconds(file.read_text().splitlines()) if not (ROOT / path).is_file()] == []
