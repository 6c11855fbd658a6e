"""JSONPath: what kubectl 1.32.4 prints for each template, recorded, and compared with it where it is."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from modules.apimachinery import jsonpath
from modules.apimachinery.conversion import number_of_values
from modules.apimachinery.jsonpath_parser import LONGEST
from modules.kubectl.jsonpath import JsonPath, JsonPathError, relaxed
from tests.modules.kubectl.fixed_server import real_kubectl
from tests.modules.kubectl.jsonpath_pods import LIST, PODS

_RECORDED: Final = json.loads((Path(__file__).parent / "jsonpath_cases.json").read_text())
CASES: Final = [
    (PODS[0] if kind == "pod" else LIST, template, printed)
    for kind, cases in _RECORDED.items()
    for template, printed in cases.items()
]


def rendered(template: str, obj: Any) -> str:
    """What a command prints."""
    try:
        return JsonPath(template).render(obj)
    except JsonPathError as error:
        return error.line


@pytest.mark.parametrize(("obj", "template", "printed"), CASES, ids=[template for _, template, _ in CASES])
def test_a_template_prints_what_kubectl_prints(obj: Any, template: str, printed: str) -> None:
    assert rendered(template, obj) == printed


@pytest.mark.slow
def test_the_recorded_texts_equal_the_real_kubectls() -> None:
    """Of every third template; the order of `..` is another each time."""
    cases = [case for case in CASES[::3] if ".." not in case[1]]
    with real_kubectl(PODS) as kubectl:

        def printed(case: tuple[Any, str, str]) -> str:
            names = ["x"] if case[0] is PODS[0] else []
            refused = case[2].startswith("error: ")
            text = kubectl.run("get", "pods", *names, "-o", f"jsonpath={case[1]}", status=int(refused))
            return text.split(". Printing more information")[0].strip() if refused else text

        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(printed, cases))
    assert found == [case[2] for case in cases]


def test_members_come_in_the_order_of_their_names() -> None:
    """Go takes them in any order; here it is always the same."""
    assert rendered("{.a.*}|{..z}", {"a": {"c": 1, "b": 2}, "d": {"z": 3}, "c": {"z": 4}}) == "2 1|4 3"


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        ("{.end}", "3"),
        ("{.range}{.a}", "71"),
        ("{range .items[*]}{.end},{end}", "1,2,"),
        ("{range .items[*]}end{end}", "endend"),
        ("range{.a}end", "range1end"),
        ("{'end'}{.a}", "end1"),
    ],
)
def test_a_field_or_a_text_named_as_a_word_of_the_grammar_is_none(template: str, printed: str) -> None:
    assert rendered(template, {"a": 1, "end": 3, "range": 7, "items": [{"end": 1}, {"end": 2}]}) == printed


def test_as_json_prints_a_list_for_each_expression() -> None:
    text = JsonPath("{.items[*].metadata.name}{.kind}{.nope}").render(LIST, as_json=True)
    assert text == '[\n    "x",\n    "y"\n]\n[\n    "List"\n]\n[]\n'


@pytest.mark.parametrize(
    ("expression", "template"),
    [("metadata.name", "{.metadata.name}"), (".a", "{.a}"), ("{a}", "{.a}"), ("{.a}", "{.a}"), ("[0]", "{.[0]}")],
)
def test_a_relaxed_path_needs_no_braces_and_no_dot(expression: str, template: str) -> None:
    assert relaxed(expression) == template


@pytest.mark.parametrize("expression", ["{.a}{.b}", "", "{}", "{.a", "."])
def test_a_relaxed_path_is_one_path(expression: str) -> None:
    with pytest.raises(JsonPathError, match="unexpected path string"):
        relaxed(expression)


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{.a" + "[0,0]" * 10 + "}", "more than 1000 values"),
        ("{range ..}" * 51, "ranges within each other"),
        ("x" * (LONGEST + 1), "longer than"),
        ('{..a["x,' + "x," * 5000 + "}", "array"),
    ],
)
def test_the_work_of_a_template_is_bounded(template: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonpath, "MOST_STEPS", 1000)
    nested: Any = 1
    for _ in range(40):
        nested = [nested]
    with pytest.raises(JsonPathError, match=why):
        JsonPath(template).render({"a": nested})


def test_ranges_without_an_end_go_to_the_last_part() -> None:
    """Also those within each other, as kubectl takes them."""
    obj = {"a": [{"b": [{"c": 1}, {"c": 2}]}, {"b": [{"c": 3}]}]}
    assert JsonPath("{range .a[*]}{range .b[*]}{.c} ").render(obj) == "1 2 3 "


def test_the_text_of_a_template_is_bounded() -> None:
    with pytest.raises(JsonPathError, match="characters"):
        JsonPath("{range .a[*]}{$}{end}".replace("$", "@.x")).render({"a": [{"x": "y" * 1_000_000}] * 100})


def test_an_error_shows_nothing_of_the_object_and_is_one_line() -> None:
    with pytest.raises(JsonPathError) as caught:
        JsonPath("{.data[?(@.a)]}\n\x1b[2J").render({"data": {"password": "hunter2"}})
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "template", ["{..}", "{..a.*}", "{..a..a..a}", "{.a[*][*]" + "[0,0]" * 12 + "}", "{..['a','a']..a}"]
)
def test_a_column_of_a_definition_takes_steps_in_proportion_to_the_object(template: str) -> None:
    """Whatever its author and the object's do; beyond, it shows nothing."""
    nested: Any = 1
    for _ in range(300):
        nested = {"a": [nested, {"a": "x"}]}
    looked: list[int] = []

    class Counted(jsonpath._Run):
        def _count(self) -> None:
            looked.append(1)
            super()._count()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(jsonpath, "_Run", Counted)
        jsonpath.JsonPath(template).first(nested)
    assert len(looked) <= 1001 + 4 * number_of_values(nested)
