"""What is read from a directory of examples."""

from pathlib import Path

import pytest

from modules.cloud.apiserver.manifests import ManifestError
from modules.processes.demo.examples import (
    ExampleError,
    Expectation,
    ObjectName,
    read_example,
    read_examples,
    with_own_port,
)

_EXAMPLES = Path(__file__).parents[4] / "examples"
_POD = "kind: Pod\nmetadata: {name: p, annotations: {edgecore.io/expect: %s}}\n"


def test_the_examples_of_this_project() -> None:
    """They show each kind of end, and each file begins with what there is to see."""
    examples = read_examples(_EXAMPLES)
    assert {goal for example in examples for goal in example.expected.values()} == set(Expectation)
    for example in examples:
        head = example.path.read_text().partition("apiVersion")[0]
        assert "# To see:" in head


def test_expectations_are_found_by_namespace_and_name(tmp_path: Path) -> None:
    """Other objects than pods have no expectation."""
    file = tmp_path / "a.yaml"
    file.write_text(_POD % "Running" + "  # end\n---\nkind: ConfigMap\nmetadata: {name: c}\n")
    example = read_example(file)
    assert example.expected == {ObjectName("default", "p"): Expectation.RUNNING}
    assert [obj["kind"] for obj in example.objects] == ["Pod", "ConfigMap"]


def test_an_example_with_a_port_gets_a_free_one(tmp_path: Path) -> None:
    """In a copy of its file, which is the one to change; a file without it stays where it is."""
    shop = with_own_port(read_example(_EXAMPLES / "workloads.yaml"), tmp_path, 12_345)
    assert shop.path == tmp_path / "workloads.yaml" and "8080" not in shop.path.read_text()
    service = next(each for each in shop.objects if each["kind"] == "Service")
    assert service["spec"]["ports"][0]["port"] == 12_345
    assert shop.expected[ObjectName("default", "shop", "Service")] is Expectation.ANSWERS
    hello = read_example(_EXAMPLES / "hello.yaml")
    assert with_own_port(hello, tmp_path, 12_345) is hello


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        (_POD % "Happy", ExampleError, "one of Running, CrashLoopBackOff, Succeeded"),
        ("kind: Pod\nmetadata: {name: p}\n", ExampleError, "edgecore.io/expect"),
        ("kind: ConfigMap\nmetadata: {name: c}\n", ExampleError, "manifests of pods is wanted"),
        ("kind: [", ManifestError, "a.yaml:"),
    ],
)
def test_what_cannot_be_shown(text: str, error: type[Exception], says: str, tmp_path: Path) -> None:
    """The error says where and what is wanted."""
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(error, match=says):
        read_examples(tmp_path)


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    """The error names it."""
    with pytest.raises(ExampleError, match="nowhere"):
        read_examples(tmp_path / "nowhere")
