"""Writes objects as YAML for reading and editing: texts of several lines as they are (`|`)."""

from __future__ import annotations

from typing import Any

import yaml


class _Dumper(yaml.CSafeDumper):
    """The safe dumper, with literal blocks."""


def _represented(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represented)


def yaml_text(value: Any) -> str:
    """Return a value of JSON's types as YAML, with the members of objects in the order of their names."""
    text: str = yaml.dump(value, Dumper=_Dumper, allow_unicode=True, width=1000)
    return text
