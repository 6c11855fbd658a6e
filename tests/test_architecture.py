"""docs/architecture.md names every actor and every package, and its reader finds the errors of a page."""

import ast
import re
from pathlib import Path

import pytest

from tests.architecture import PAGE, Step, calls_in, first_wrong, steps_in
from tests.docs import tables

REPOSITORY = PAGE.parents[1]
PACKAGES = ("beehive", "edgecore_mapper", "edged", "edgehub", "metamanager", "modules", "protos")

A = Step("edged/a.py", "A.one", "edged")
B = Step("edged/b.py", "B.two", "edged/worker")
OTHER = A._replace(thread="other")


def test_steps_are_read_with_file_function_and_thread() -> None:
    page = "1. `edged/a.py` `A.one` [edged]: text\n2. `edged/b.py` `B.two` [edged/worker]\n"
    assert steps_in(page) == [A, B]
    with pytest.raises(ValueError, match="numbered 1, 3"):
        steps_in(page.replace("2. ", "3. "))


def test_calls_lose_the_number_of_their_worker() -> None:
    assert calls_in(["edged/b.py B.two edged/worker-3"]) == [B]


@pytest.mark.parametrize(
    ("steps", "calls", "wrong"),
    [
        ([A, B], [B, A, A, B], None),
        ([B, A], [A, B], "step 2, edged/a.py A.one [edged], does not follow the one before; it was called on edged"),
        ([A, B], [A], "step 2, edged/b.py B.two [edged/worker], does not follow the one before; it was not called"),
        ([OTHER], [A], "step 1, edged/a.py A.one [other], does not follow the one before; it was called on edged"),
    ],
)
def test_the_first_step_that_is_wrong_is_named(steps: list[Step], calls: list[Step], wrong: str | None) -> None:
    assert first_wrong(steps, calls) == wrong


def test_every_actor_is_on_the_page() -> None:
    """Each public class that derives from `Actor` or `Module`."""
    named = {row.cells[0].strip("`") for row in tables(PAGE.read_text()) if row.head[0] == "actor"}
    assert named == _actors()


def test_every_package_is_on_the_page() -> None:
    """import-linter checks its imports (`pyproject.toml`)."""
    named = {row.cells[0].strip("`") for row in tables(PAGE.read_text()) if row.head[0] == "package"}
    found = {
        str(init.parent.relative_to(REPOSITORY))
        for package in PACKAGES
        for init in (REPOSITORY / package).rglob("__init__.py")
    }
    depth = {"edged": 2, "modules": 3}
    wanted = {each for each in found if each.count("/") < depth.get(each.split("/")[0], 1)}
    assert wanted - named == set()
    assert {each for each in named if not (REPOSITORY / each).is_dir()} == set()


def _actors() -> set[str]:
    bases = {"Actor", "Module"}
    found: set[str] = set()
    for package in PACKAGES:
        for file in (REPOSITORY / package).rglob("*.py"):
            if not file.name.endswith("_pb2.py"):
                found |= _derived(file, bases)
    return found - bases


def _derived(file: Path, bases: set[str]) -> set[str]:
    text = file.read_text()
    if not re.search(rf"class \w+\([^:]*\b({'|'.join(bases)})\b", text):
        return set()
    return {
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
        and not node.name.startswith("_")
        and {ast.unparse(base) for base in node.bases} & bases
    }


def test_no_text_is_a_number_by_isdigit() -> None:
    """It accepts `²`, which `int` refuses; of bytes it accepts ASCII only. `beehive.whole_numbers` reads numbers."""
    of_bytes = "modules/runtimes/oci/images/worker/tar_numbers.py"
    files = [path for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py")]
    calls = (".isdigit()", ".isnumeric()")
    found = {str(path.relative_to(REPOSITORY)) for path in files if any(call in path.read_text() for call in calls)}
    assert found == {of_bytes}
