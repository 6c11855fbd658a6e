"""Names stay unambiguous, and docstrings and pages explain themselves without files that a reader does not have."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

REPOSITORY: Final = Path(__file__).parents[1]
PACKAGES: Final = ("beehive", "edgecore_mapper", "edged", "edgehub", "metamanager", "modules", "protos")
ROOMS: Final = ("modules/apimachinery", "modules/runtimes")
"""Rooms of their own: the one has the names of Kubernetes' API, and of the other only CRI is known outside."""
_CLASS: Final = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
_PRIVATE: Final = re.compile(r"\n(?:\n(?:class|def) )?(_[a-zA-Z]\w*)(?=[:(]| =)")
"""A private name at the top of a file; a function with a decorator, such as a fixture, is read by that."""
_EMPTY_DOCSTRING: Final = re.compile(r"See the module['’]s docstring")
_VERB_OF_A_CLASS: Final = re.compile(
    r'^ *class \w+(?:\([^:]*\))?:\n\s+r?"""('
    r"Accepts|Adds|Allocates|Appends|Applies|Asks|Authenticates|Authorizes|Builds|Carries|Chooses|Collects|Compares|"
    r"Connects|Converts|Creates|Decides|Decodes|Deletes|Delivers|Encodes|Evicts|Explains|Fetches|Finds|Follows|"
    r"Generates|Gives|Holds|Iterates|Keeps|Kills|Knows|Lets|Listens|Looks|Makes|Measures|Notices|Observes|Opens|"
    r"Passes|Prepares|Prints|Publishes|Reaches|Receives|Reconciles|Refuses|Registers|Remembers|Removes|Renews|Replaces|"
    r"Resolves|Rotates|Runs|Schedules|Selects|Sends|Serves|Splits|Supplies|Takes|Tells|Terminates|Waits|Wraps|Writes"
    r")\b(?! of\b| that\b)",
    re.MULTILINE,
)
"""The first word of a class's docstring, if it is a verb in the third person, and no plural ("runs of …")."""
_FOREIGN_PATH: Final = re.compile(r"\bspec/0\d|\bdesign/[\w-]+\.md")


@pytest.mark.parametrize("package", [*PACKAGES, *ROOMS])
def test_public_classes_of_a_package_have_different_names(package: str) -> None:
    """A class is found by its name alone, so each top-level name of a package is given once."""
    defined = defaultdict(list)
    for path in _python_files(package):
        if package == "modules" and any(path.is_relative_to(REPOSITORY / room) for room in ROOMS):
            continue
        for where, name in _matches(path, _CLASS):
            defined[name].append(where)
    wrong = [f"{where}: class {name}" for name, all_ in sorted(defined.items()) if len(all_) > 1 for where in all_]
    assert not wrong, "classes with a common name:\n" + "\n".join(wrong)


def test_docstrings_do_not_refer_to_their_module() -> None:
    wrong = [f"{where}: {text}" for path in _python_files(*PACKAGES, "tests")
             for where, text in _matches(path, _EMPTY_DOCSTRING)]  # fmt: skip
    assert not wrong, "docstrings that explain nothing:\n" + "\n".join(wrong)


def test_docstrings_of_classes_begin_with_nouns() -> None:
    """Verbs that may be plurals, such as "counts" and "reports", pass."""
    wrong = [f"{where}: {verb} …" for path in _python_files(*PACKAGES)
             for where, verb in _matches(path, _VERB_OF_A_CLASS)]  # fmt: skip
    assert not wrong, "classes whose docstring says what they do instead of what they are:\n" + "\n".join(wrong)


def test_no_file_is_called_keeper() -> None:
    """The kubelet has managers, stores and workers; a keeper can be each of them."""
    wrong = [f"{path.relative_to(REPOSITORY)}:1" for path in _python_files(*PACKAGES) if path.name == "keeper.py"]
    assert not wrong, "\n".join(wrong)


def test_nothing_cites_files_outside_the_repository() -> None:
    pages = [*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").glob("*.md"))]
    files = (path for path in (*_python_files(*PACKAGES, "tests"), *pages) if _has_one_of(path, "spec/0", "design/"))
    wrong = [f"{where}: {text}" for path in files for where, text in _matches(path, _FOREIGN_PATH)]
    assert not wrong, "citations of files that are not in the repository:\n" + "\n".join(wrong)


def test_private_names_are_read_in_their_file() -> None:
    """No other tool finds a private constant or function that nobody reads any more."""
    wrong = []
    for path in _python_files(*PACKAGES, "tests"):
        text = path.read_text()
        unread = (name for name in _PRIVATE.findall(text) if text.count(name) == 1)
        wrong += [f"{path.relative_to(REPOSITORY)}: {name}" for name in unread]
    assert not wrong, "private names that nobody reads:\n" + "\n".join(wrong)


def _python_files(*directories: str) -> Iterator[Path]:
    """The Python files below these directories, without generated ones."""
    for directory in directories:
        for path in sorted((REPOSITORY / directory).rglob("*.py")):
            if not path.name.endswith("_pb2.py"):
                yield path


def _has_one_of(path: Path, *words: str) -> bool:
    text = path.read_text()
    return any(word in text for word in words)


def _matches(path: Path, pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """`file:line` and the pattern's group, or whole text, for each match in a file."""
    text = path.read_text()
    for found in pattern.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield f"{path.relative_to(REPOSITORY)}:{line}", found[pattern.groups]
