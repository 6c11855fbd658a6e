"""Objects of any shape and templates of any text: no error except one printed line."""

from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from modules.kubectl.custom_columns import read_columns, table_of
from modules.kubectl.describers.common import Related
from modules.kubectl.describers.kinds import describe_object
from modules.kubectl.diff import differences
from modules.kubectl.jsonpath import JsonPath, JsonPathError
from tests.modules.kubectl import described_objects as objects
from tests.modules.kubectl.jsonpath_pods import LIST

_NOW: Final = 1_795_222_200.0
_VALUES: Final[tuple[Any, ...]] = (
    None,
    1,
    -1,
    1.5,
    "",
    "x",
    "1Gi",
    True,
    [],
    {},
    [None],
    {"a": 1},
    [{}],
    {"a": [{}]},
    10**30,
    "9" * 6000,
)
_WORDS: Final = (
    *"{}[].@$ \"'\\\n<:,(x#é", "..", "*", "range", "end", "items", "?(", ")]", "==", "0", "-1", "name", "spec", "true",
)  # fmt: skip
_COLUMNS: Final = read_columns("A:.metadata,B:.spec.containers[*].name,C:..")


@st.composite
def spoilt(draw: st.DrawFn) -> dict[str, Any]:
    """One of the objects, with another value at one to three places in it."""
    obj: Any = draw(st.sampled_from(objects.ALL))
    for _ in range(draw(st.integers(1, 3))):
        obj = _spoilt(draw, obj, top=True)
    return dict(obj)


def _spoilt(draw: st.DrawFn, value: Any, *, top: bool = False) -> Any:
    if not (top or draw(st.integers(0, 9))) or not value or not isinstance(value, dict | list):
        return draw(st.sampled_from(_VALUES))
    if isinstance(value, list):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], _spoilt(draw, value[place]), *value[place + 1 :]]
    key = draw(st.sampled_from(sorted(value)))
    return value | {key: _spoilt(draw, value[key])}


@given(spoilt(), spoilt(), spoilt())
@settings(max_examples=80, deadline=None)
def test_a_description_of_any_object(obj: dict[str, Any], event: dict[str, Any], other: dict[str, Any]) -> None:
    text = describe_object(obj, Related([event], pods=[other], lease=other, endpoints=other), _NOW)
    assert text.endswith("\n")
    assert differences(obj, other) is not None


@given(spoilt())
@settings(max_examples=30, deadline=None)
def test_columns_of_any_object(obj: dict[str, Any]) -> None:
    try:
        assert len(table_of(_COLUMNS, [obj])) == 2
    except JsonPathError as error:
        assert "is not array or slice" in str(error)


@given(st.lists(st.sampled_from(_WORDS), min_size=1, max_size=25).map("".join))
@settings(max_examples=200, deadline=None)
def test_any_template(text: str) -> None:
    for template in (text, f"{{{text}}}"):
        try:
            assert isinstance(JsonPath(template).render(LIST), str)
        except JsonPathError as error:
            assert len(str(error).splitlines()) == 1
