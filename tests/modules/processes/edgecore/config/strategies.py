"""Random settings of the right kinds, made from the structs themselves, so that a new setting is tested at once."""

from enum import StrEnum
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from modules.apimachinery.types import Taint
from modules.processes.edgecore.config.edge_mesh import Cidr
from modules.processes.edgecore.config.kubelet import EFFECTS, DurationMap, PodCidrs, PriorityPeriods, Taints
from modules.processes.edgecore.config.names import LABEL_KEY, LABEL_VALUE
from modules.processes.edgecore.config.section import Section, keys_of
from modules.processes.edgecore.config.value_kinds import (
    AbsolutePath,
    Choice,
    Duration,
    Secret,
    SecretText,
    Size,
    Switch,
    Text,
    TextList,
    TextMap,
    ValueKind,
    Whole,
)

UTF8 = st.characters(codec="utf-8")


def settings_of(kind: ValueKind[Any]) -> st.SearchStrategy[Any]:
    """Every setting that a kind allows."""
    match kind:
        case Switch():
            return st.booleans()
        case Whole(low=low, high=high) | Size(low=low, high=high):
            return st.integers(low, high)
        case Duration(low=low, high=high):
            return st.integers(round(low * 1e9), round(high * 1e9)).map(lambda nanoseconds: nanoseconds / 1e9)
        case Secret():
            return settings_of(kind.text).map(SecretText)
        case Text():
            texts = st.from_regex(kind.pattern, fullmatch=True, alphabet=UTF8)
            return texts.filter(lambda text: len(text) <= kind.most)
        case AbsolutePath():
            parts = st.text(st.characters(codec="utf-8", exclude_characters="\0/"), max_size=20)
            return st.lists(parts, max_size=4).map(lambda names: Path("/", *names))
        case Choice():
            members: type[StrEnum] = kind.members
            return st.sampled_from(members)
        case TextList():
            return st.lists(settings_of(kind.item), max_size=kind.most).map(tuple)
        case TextMap():
            return st.dictionaries(settings_of(kind.key), settings_of(kind.value), max_size=4)
        case PriorityPeriods():
            return st.dictionaries(settings_of(kind.priority), settings_of(kind.seconds), max_size=4)
        case DurationMap():
            return st.dictionaries(settings_of(kind.key), settings_of(kind.value), max_size=4)
    return _special(kind)


def _special(kind: ValueKind[Any]) -> st.SearchStrategy[Any]:
    """Of a kind that one key has."""
    if isinstance(kind, PodCidrs):
        return st.sampled_from([(), ("10.86.0.0/16",), ("fd00:86::/64",), ("10.0.0.0/8", "fd00:86::/126")])
    if isinstance(kind, Cidr):
        return st.sampled_from(["10.96.0.0/16", "fd00:96::/112", "10.0.0.0/8"])
    if not isinstance(kind, Taints):
        raise NotImplementedError(f"no strategy for {kind}")
    taint = st.builds(
        Taint, key=settings_of(LABEL_KEY), value=settings_of(LABEL_VALUE), effect=st.sampled_from(EFFECTS)
    )
    return st.lists(taint, max_size=3, unique_by=lambda each: (each.key, each.effect)).map(tuple)


def sections_of(section: type[Section]) -> st.SearchStrategy[Any]:
    """Every section whose settings are allowed each by itself."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for key in keys_of(section):
        if key.section is not None:
            fields[key.attribute] = sections_of(key.section)
        elif key.kind is not None:
            fields[key.attribute] = settings_of(key.kind)
    return st.builds(section, **fields)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(UTF8, max_size=20)
    | st.sampled_from(["1m0s", "16Mi", "/x", "embedded://", "ws://a:1", "EdgeCore", "-1", "yes", "y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(UTF8, max_size=8), inner, max_size=3),
    max_leaves=6,
)
"""What a person or a program might put in place of any value."""
