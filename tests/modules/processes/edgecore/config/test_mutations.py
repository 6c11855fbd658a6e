"""Whatever happens to a file, the only answer beside settings is a ConfigError that points into the file."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from modules.processes.edgecore.config import ConfigError, LoadResult, loads
from modules.processes.edgecore.config.yaml_text import ConfigDocument, join, parse
from tests.modules.processes.edgecore.config.strategies import JSON_VALUES

TEXT = Path(__file__).with_name("kubeedge_default.yaml").read_text(encoding="utf-8")
PARSED = parse(TEXT)
assert isinstance(PARSED, ConfigDocument)
BASE: Any = PARSED.value
PATHS = sorted(PARSED.lines, key=str)


def paths_in(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[str]:
    """The dotted path of everything in a document."""
    yield join(path)
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, entry in entries:
        yield from paths_in(entry, (*path, name))


def mutated(changes: list[tuple[tuple[str | int, ...], str, Any]]) -> Any:
    """The default file with values put in, left out, or given another key."""
    document = deepcopy(BASE)
    for path, how, value in changes:
        place = document
        for part in path[:-1]:
            place = place[part] if isinstance(place, dict) and part in place else None
        if not isinstance(place, dict) or path[-1] not in place:
            continue
        old = place.pop(path[-1])
        if how == "replace":
            place[path[-1]] = value
        elif how == "rename":
            place[str(value)[:20]] = old
    return document


CHANGES = st.lists(
    st.tuples(st.sampled_from(PATHS), st.sampled_from(["replace", "remove", "rename"]), JSON_VALUES),
    min_size=1,
    max_size=5,
)


def outcome(text: str) -> LoadResult | ConfigError:
    """What reading a text gives; any other exception fails the test."""
    try:
        return loads(text)
    except ConfigError as error:
        return error


@settings(max_examples=100, deadline=None)
@given(CHANGES)
def test_problems_and_warnings_point_into_the_file(changes: list[tuple[tuple[str | int, ...], str, Any]]) -> None:
    """Each named path exists in the file, and an untouched path has no problem."""
    document = mutated(changes)
    result = outcome(json.dumps(document).replace("NaN", ".nan").replace("Infinity", ".inf"))
    there = {path.replace("NaN", ".nan").replace("Infinity", ".inf") for path in paths_in(document)}
    if isinstance(result, ConfigError) and result.problems[0].column is not None:  # not YAML
        return
    remarks = [*result.warnings, *(result.problems if isinstance(result, ConfigError) else result.without_effect)]
    assert {remark.path for remark in remarks} <= there
    assert all(remark.line == 1 for remark in remarks if remark.path)
