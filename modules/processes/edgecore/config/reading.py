"""Reads the values of a file into the structs, and collects all remarks about it. Pure.

It is as lenient as Go's decoder, as KubeEdge's users expect: null is the same as a missing key, and a key may be
written in other upper and lower case (with a warning). Any other fault is a problem; the reading continues, so that all
problems are reported together.
"""

from collections.abc import Collection, Iterator
from typing import Any, TypeVar

import msgspec

from modules.processes.edgecore.config.errors import Problem, Remark
from modules.processes.edgecore.config.section import Section, keys_of
from modules.processes.edgecore.config.value_kinds import UnfitError, ValueKind, shown
from modules.processes.edgecore.config.without_effect import Accepted, AcceptedAny, Known, is_chosen
from modules.processes.edgecore.config.yaml_text import ConfigDocument, Path, join

S = TypeVar("S", bound=Section)


class Findings(msgspec.Struct):
    """Remarks about a document."""

    problems: list[Problem] = []
    """Remarks that make it unusable."""

    warnings: list[Remark] = []
    """Unknown keys, and keys in another spelling than the known one."""

    without_effect: list[Remark] = []
    """Keys with a chosen value that has no effect."""


def read(section: type[S], known: Known, document: ConfigDocument) -> tuple[S, Findings]:
    """Return the settings of a document, with defaults in the place of problems, and the remarks."""
    reader = _Reader(document)
    config = reader.section(section, known, document.value, ())
    return config, reader.findings


class _Reader:
    """A walk through structs, table of known keys and document together."""

    def __init__(self, document: ConfigDocument) -> None:
        self._document = document
        self.findings = Findings(problems=list(document.problems))

    def section(self, section: type[S], known: Known, value: object, path: Path) -> S:
        """Read one section: its settings, its sections, and its keys without effect."""
        keys = {key.name: key for key in keys_of(section)}
        defaults = section()
        settings: dict[str, Any] = {}
        for name, entry, at in self._entries({*keys, *known}, value, path):
            key, beside = keys.get(name), known.get(name, {})
            if key is None:
                self._known(beside, entry, at)
            elif key.section is not None:
                tree = beside if isinstance(beside, dict) else {}
                settings[key.attribute] = self.section(key.section, tree, entry, at)
            elif key.kind is not None and entry is not None:
                default = getattr(defaults, key.attribute)
                if type(entry) is not type(default) or entry != default:  # a whole file of defaults is quick to read
                    settings[key.attribute] = self._setting(key.kind, default, entry, at)
        return section(**settings)

    def _setting(self, kind: ValueKind[Any], default: object, value: object, path: Path) -> object:
        try:
            return kind.read(value)
        except UnfitError as error:
            got = "a value that is not shown" if kind.secret else shown(value)
            self._problem(path, f"got {got}, want {kind.expected}", str(error))
            return default

    def _known(self, known: Accepted | AcceptedAny | Known, value: object, path: Path) -> None:
        if isinstance(known, dict):
            for name, entry, at in self._entries(known, value, path):
                self._known(known[name], entry, at)
        elif is_chosen(known, value):
            self._without_effect(path)

    def _entries(self, names: Collection[str], value: object, path: Path) -> Iterator[tuple[str, object, Path]]:
        """Yield the entries of a mapping with known keys: the known name, the value, the path as written."""
        if value is None:
            return
        if not isinstance(value, dict):
            self._problem(path, f"got {shown(value)}, want a mapping")
            return
        for written, entry in value.items():
            name = self._known_name(names, value, (*path, written), written)
            if name is not None:
                yield name, entry, (*path, written)

    def _known_name(self, names: Collection[str], value: dict[str, object], path: Path, written: str) -> str | None:
        if written in names:
            return written
        folded = {name.lower(): name for name in names}
        name = folded.get(written.lower())
        if name is None:
            from difflib import get_close_matches  # noqa: PLC0415 - most files have no such key

            near = get_close_matches(written.lower(), folded, n=1)
            hint = f"did you mean {folded[near[0]]}?" if near else ""
            self.findings.warnings.append(self._remark(path, "unknown key, ignored", hint))
        elif any(other != written and other.lower() == written.lower() for other in value):
            self._problem(path, f"the same key as another one here: {name}", "remove one of them")
            return None
        else:
            self.findings.warnings.append(self._remark(path, f"read as {name}"))
        return name

    def _without_effect(self, path: Path) -> None:
        self.findings.without_effect.append(self._remark(path, "accepted, has no effect in this edgecore"))

    def _remark(self, path: Path, text: str, hint: str = "") -> Remark:
        return Remark(path=join(path), text=text, hint=hint, line=self._document.line_of(path))

    def _problem(self, path: Path, text: str, hint: str = "") -> None:
        line = self._document.line_of(path)
        self.findings.problems.append(Problem(path=join(path), text=text, hint=hint, line=line))
