"""References are expanded as Kubernetes expands them, in time and memory that no pod can drive up."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import TooLargeError
from edged.pods.config.container_config import ContainerContext, container_config
from edged.pods.config.downward import DownwardView
from edged.pods.config.env import environment
from edged.pods.config.expansion import LARGEST_START, LARGEST_TEXT, expand, expand_all
from edged.pods.config.resources import HostResources
from modules.apimachinery.types import ConfigMap, ConfigMapEnvSource, EnvFromSource, EnvVar, Secret
from tests.edged.pods.builders import a_container, a_pod

_MANY = 400_000
"""Repetitions that keep a quadratic scan busy for minutes."""


class Large:
    """A namespace with one configmap of a megabyte."""

    def config_map(self, name: str) -> ConfigMap | None:
        """The object with this name; `impossible` has only keys that no variable can have."""
        key = "k=" if name == "impossible" else "k"
        return ConfigMap(data={f"{key}{n}": "x" * 100_000 for n in range(10)})

    def secret(self, _: str) -> Secret | None:
        """None."""
        return None


def reference(text: str, variables: Mapping[str, str]) -> str:
    """`Expand` and `tryReadVariableName` of Kubernetes' expansion.go, statement by statement, on characters."""
    out, checkpoint, cursor = "", 0, 0
    while cursor < len(text):
        if text[cursor] == "$" and cursor + 1 < len(text):
            out += text[checkpoint:cursor]
            read, is_variable, advance = _try_read(text[cursor + 1 :])
            out += variables.get(read, f"$({read})") if is_variable else read
            cursor += advance
            checkpoint = cursor + 1
        cursor += 1
    return out + text[checkpoint:]


def _try_read(text: str) -> tuple[str, bool, int]:
    if text[0] == "$":
        return "$", False, 1
    if text[0] == "(":
        end = text.find(")", 1)
        return (text[1:end], True, end + 1) if end > 0 else ("$(", False, 1)
    return "$" + text[0], False, 1


_TEXTS = st.text(alphabet="$()AB é", max_size=40)


@given(_TEXTS, st.dictionaries(st.text(alphabet="AB$( ", max_size=3), _TEXTS, max_size=5))
def test_expansion_is_kubernetes_own(text: str, variables: Mapping[str, str]) -> None:
    """Whatever dollars, parentheses and names come together."""
    assert expand(text, variables) == reference(text, variables)


@pytest.mark.parametrize("piece", ["$(", "$", "$$", "$()", "$(A)", "(", "$(A"])
def test_time_grows_with_the_text_only(piece: str) -> None:
    """A text of one thing many times is expanded in linear time. Scanning each reference to its end froze the agent."""
    text = piece * _MANY
    assert len(expand(text, {"A": "1"}, limit=len(text))) <= len(text)


def test_a_chain_of_doubled_values_ends_with_an_error() -> None:
    """`V1=$(V0)$(V0)` and so on was a pod of one kilobyte that took all memory at each start of the agent."""
    variables = [EnvVar(name="V0", value="x" * 16)]
    variables += [EnvVar(name=f"V{n}", value=f"$(V{n - 1})$(V{n - 1})") for n in range(1, 60)]
    pod = a_pod(a_container("a", env=tuple(variables)))
    with pytest.raises(TooLargeError, match=r"set the variable: V13 .*131071 bytes") as raised:
        environment(pod, pod.spec.containers[0], Large(), DownwardView())
    assert len(str(raised.value)) < 200


def test_one_variable_may_have_what_linux_takes() -> None:
    """128 KiB with its name and the closing zero, and not a byte more."""
    for size, fits in ((LARGEST_TEXT - 2, True), (LARGEST_TEXT - 1, False)):
        pod = a_pod(a_container("a", env=(EnvVar(name="A", value="x" * size),)))
        if fits:
            assert len(environment(pod, pod.spec.containers[0], Large(), DownwardView())["A"]) == size
        else:
            with pytest.raises(TooLargeError):
                environment(pod, pod.spec.containers[0], Large(), DownwardView())


@pytest.mark.parametrize("name", ["settings", "impossible"])
def test_all_variables_together_are_bounded(name: str) -> None:
    """Each reference to a configmap adds all of it, also keys that are left out."""
    froms = tuple(EnvFromSource(config_map_ref=ConfigMapEnvSource(name=name)) for _ in range(100))
    pod = a_pod(a_container("a", env_from=froms))
    with pytest.raises(TooLargeError, match="all variables have more than 2097152 bytes"):
        environment(pod, pod.spec.containers[0], Large(), DownwardView())


def test_arguments_are_bounded_with_the_variables() -> None:
    """What a process is started with is one sum for the kernel."""
    value = "x" * 100_000
    assert len(expand_all(["$(A)"] * 20, {"A": value})) == 20
    with pytest.raises(TooLargeError, match="expand the command"):
        expand_all(["$(A)"] * 21, {"A": value})
    container = a_container("a", command=("$(A)",) * 10, args=("$(A)",) * 10)
    context = ContainerContext("i", 0, {"A": value}, (), HostResources(memory=2**30))
    with pytest.raises(TooLargeError, match=str(LARGEST_START)):
        container_config(a_pod(container), container, context)


def test_a_result_of_many_bytes_and_few_characters_is_measured_in_bytes() -> None:
    """Linux counts bytes."""
    assert expand("$(A)", {"A": "é" * 5}, limit=10) == "é" * 5
    with pytest.raises(TooLargeError):
        expand("$(A)", {"A": "é" * 5}, limit=9)


def test_arguments_fill_the_room_with_their_closing_zeros() -> None:
    """As Linux counts them: what fills it is taken, and a byte more is not."""
    assert expand_all(["ab", "$(A)", ""], {"A": "é"}, room=7) == ("ab", "é", "")
    with pytest.raises(TooLargeError, match="arguments and variables in all"):
        expand_all(["ab", "$(A)", ""], {"A": "é"}, room=6)
    assert expand_all([], {}, room=0) == ()
