"""Settings that are printed are read as equal ones."""

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edged.eviction_api.thresholds import DEFAULT_HARD
from modules.processes.edgecore.config import EdgeCoreConfig, loads
from modules.processes.edgecore.config.reading import read
from modules.processes.edgecore.config.section import Section, keys_of
from modules.processes.edgecore.config.without_effect import KNOWN
from modules.processes.edgecore.config.writing import MINIMAL_KEYS, comment_of, inline, render
from modules.processes.edgecore.config.yaml_text import ConfigDocument, parse
from tests.modules.processes.edgecore.config.strategies import UTF8, sections_of


def test_the_printed_file_has_the_defaults() -> None:
    """Both printed files load without a remark, and as the default settings."""
    config = EdgeCoreConfig.default()
    for text in (render(config), render(config, MINIMAL_KEYS)):
        loaded = loads(text)
        assert loaded.config == config
        assert loaded.warnings == loaded.without_effect == ()


def test_the_minimal_file_has_exactly_its_keys() -> None:
    """Each of MINIMAL_KEYS names a real key, and nothing else is printed."""
    document = parse(render(EdgeCoreConfig.default(), MINIMAL_KEYS))
    assert isinstance(document, ConfigDocument)
    leaves = [".".join(map(str, path)) for path in document.lines]
    assert [leaf for leaf in leaves if not any(other.startswith(f"{leaf}.") for other in leaves)] == list(MINIMAL_KEYS)


def test_every_key_is_commented() -> None:
    """A docstring stands below each field, and a comment above each printed key."""

    def check(section: type[Section]) -> None:
        for key in keys_of(section):
            assert len(comment_of(section, key)) > 5
            if key.section is not None:
                check(key.section)

    check(EdgeCoreConfig)
    lines = render(EdgeCoreConfig.default()).splitlines()
    for before, line in zip(["", *lines], lines, strict=False):
        is_entry = line.lstrip().split(":")[0] in DEFAULT_HARD
        assert not line or is_entry or line.lstrip().startswith("#") or before.lstrip().startswith("#")
        assert len(line) <= 100


@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], deadline=None)
@given(sections_of(EdgeCoreConfig))
def test_all_settings_survive_the_file(config: EdgeCoreConfig) -> None:
    """Whatever is allowed is written so that it reads as the same."""
    document = parse(render(config))
    assert isinstance(document, ConfigDocument)
    again, findings = read(EdgeCoreConfig, KNOWN, document)
    assert findings.problems == findings.warnings == []
    assert again == config


@given(st.text(UTF8))
def test_any_text_survives(text: str) -> None:
    """Our reader and PyYAML's, which stands for the YAML 1.1 of others, take it for the same text."""
    document = parse(f"a: {inline(text)}")
    assert isinstance(document, ConfigDocument)
    assert document.value == {"a": text}
    assert yaml.safe_load(f"a: {inline(text)}") == {"a": text}


def test_plain_text_needs_no_quotes_and_the_rest_gets_them() -> None:
    """Addresses and paths look as in KubeEdge's own file."""
    bare = ["192.0.2.2:10000", "/var/lib/kubelet", "1m0s", "unix:///run/x.sock", "16Mi"]
    quoted = ["", "yes", "y", "1:30", "2020-01-01", "12", "a b", "a: b", "-", "null", "é", "1e5"]
    assert [inline(text) for text in bare] == bare
    assert [inline(text) for text in quoted] == [f'"{text}"' for text in quoted]
