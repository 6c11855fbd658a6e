"""Settings that are changed in the text of a file: all else of it stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.processes.edgecore.config.editing import with_setting
from modules.processes.edgecore.config.errors import ConfigError
from modules.processes.edgecore.config.loading import loads
from modules.processes.edgecore.config.model import EdgeCoreConfig
from modules.processes.edgecore.config.writing import render

PODS = "modules.edged.tailoredKubeletConfig.maxPods"
DEFAULT = render(EdgeCoreConfig.default())


@pytest.mark.parametrize(
    ("text", "key", "value", "want"),
    [
        ("", "modules.edgeHub.heartbeat", "20", "modules:\n  edgeHub:\n    heartbeat: 20\n"),
        ("# mine\n", "kind", "EdgeCore", "# mine\nkind: EdgeCore\n"),
        (
            "modules:\n  # why\n  edged:\n    hostnameOverride: a  # me\n\n# end\nkind: EdgeCore\n",
            "modules.edged.hostnameOverride",
            "b",
            "modules:\n  # why\n  edged:\n    hostnameOverride: b  # me\n\n# end\nkind: EdgeCore\n",
        ),
        (
            "modules:\n    edged:\n        hostnameOverride: a  # me\n# end\n",
            "modules.edged.reportEvent",
            "false",
            "modules:\n    edged:\n        hostnameOverride: a  # me\n        reportEvent: false\n# end\n",
        ),
        ("modules: {edged: {hostnameOverride: a}}", "modules.edgeHub.heartbeat", "20",
         "modules: {edged: {hostnameOverride: a}, edgeHub: {heartbeat: 20}}"),
        ("modules:\nkind: EdgeCore\n", "modules.edgeHub.heartbeat", "20",
         "modules:\n  edgeHub:\n    heartbeat: 20\nkind: EdgeCore\n"),
        ("modules: {}\n", "modules.edgeHub.heartbeat", "20", "modules: {edgeHub: {heartbeat: 20}}\n"),
        ("Modules:\n  EDGEHUB:\n    heartbeat: 15\n", "modules.edgehub.HeartBeat", "20",
         "Modules:\n  EDGEHUB:\n    heartbeat: 20\n"),
        ("modules:\n  edgeHub:\n    heartbeat:\n", "modules.edgeHub.heartbeat", "20",
         "modules:\n  edgeHub:\n    heartbeat: 20\n"),
        ("modules:\n  edged:\n    hostnameOverride: a", "modules.edged.hostnameOverride", "007",
         'modules:\n  edged:\n    hostnameOverride: "007"'),
    ],
)  # fmt: skip
def test_the_rest_of_the_text_stays(text: str, key: str, value: str, want: str) -> None:
    edited = with_setting(text, key, value)
    assert edited.text == want
    assert edited.keeps_comments
    assert not loads(edited.text).without_effect


@given(st.sampled_from([PODS, "modules.edgeHub.heartbeat"]), st.integers(1, 250), st.sampled_from(["\n", "\r\n"]))
def test_any_value_in_the_file_of_all_defaults(key: str, number: int, end: str) -> None:
    """One line differs, also in a file of Windows."""
    text = DEFAULT.replace("\n", end)
    edited = with_setting(text, key, str(number))
    pairs = zip(text.split(end), edited.text.split(end), strict=True)
    changed = [new.strip() for old, new in pairs if old != new]
    assert changed in ([], [f"{key.rpartition('.')[2]}: {number}"])


def test_a_mapping_and_a_list() -> None:
    edited = with_setting(DEFAULT, "modules.edged.tailoredKubeletConfig.evictionHard", "{memory.available: 5%}")
    kubelet = loads(edited.text).config.modules.edged.tailored_kubelet_config
    assert kubelet.eviction_hard == {"memory.available": "5%"}
    edited = with_setting(edited.text, "upgrade.trustedKeys", f"[{'A' * 43}=]")
    assert loads(edited.text).config.upgrade.trusted_keys
    assert edited.keeps_comments


def test_shared_parts_are_written_out() -> None:
    """A change at one place must not change the other; comments are lost then, and that is said."""
    text = "modules:\n  edged: &e  # mine\n    hostnameOverride: a\n  edgeHub:\n    <<: *e\n    heartbeat: 15\n"
    edited = with_setting(text, "modules.edged.hostnameOverride", "b")
    assert loads(edited.text).config.modules.edged.hostname_override == "b"
    text = "a: &x {b: ü}\nmodules:\n  edgeHub: *x\n"
    edited = with_setting(text, "modules.edgeHub.heartbeat", "20")
    assert not edited.keeps_comments
    assert loads(edited.text).config.modules.edge_hub.heartbeat == 20
    assert "b: ü" in edited.text


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("modules.edgeHub.heartbeet", "20", "did you mean heartbeat"),
        ("modules.edgeHub", "20", "is a section"),
        ("modules.edgeHub.heartbeat.x", "20", "there is no setting x"),
        ("", "1", "there is no setting"),
        ("modules.edgeHub.heartbeat", "soon", "want"),
        ("modules.edgeHub.heartbeat", "", "want"),
        ("modules.edged.reportEvent", "[", "want true or false"),
    ],
)
def test_what_is_refused(key: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        with_setting(DEFAULT, key, value)


@pytest.mark.parametrize("text", ["- a\n", "text\n", "a: [\n", "1: 2\n3"])
def test_a_file_that_is_no_mapping(text: str) -> None:
    with pytest.raises(ConfigError):
        with_setting(text, PODS, "5")
