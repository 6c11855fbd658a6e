"""Drawn objects of the built-in kinds, and strategic merge patches of them with all directives."""

import random
from typing import Any, Final

import msgspec

from modules.apimachinery.kinds import KINDS, Kind
from modules.cloud.apiserver.fields.validation import field_types, merge_of, root_type_of

_DEEPEST: Final = 7
_LETTERS: Final = "abc"
_NOT_OF_KUBECTL: Final = "CustomResourceDefinition"
"""A kind without a Go type in kubectl, which patches it by JSON merge patches."""
_LATER: Final = {"resource.k8s.io/v1": "resource.k8s.io/v1beta1"}
"""Versions that kubectl 1.32 does not know, and the ones with the same fields."""
_KEPT: Final = frozenset({"apiVersion", "kind", "managedFields", "restartPolicyRules"})
"""Fields that are not drawn: kubectl reads the first two, and kubectl 1.32 does not know the last one."""


class Drawn(msgspec.Struct, frozen=True):
    """An object, and a strategic merge patch of it."""

    kind: str
    original: dict[str, Any]
    patch: dict[str, Any]


def drawn(seed: int) -> Drawn:
    """Return an object of one kind and a patch of it; each seed has its own."""
    kinds = [kind for kind in KINDS if kind.name != _NOT_OF_KUBECTL]
    return _Drawing(random.Random(seed), kinds[seed % len(kinds)]).all()  # noqa: S311


class _Drawing:
    def __init__(self, chance: random.Random, kind: Kind) -> None:
        self._chance = chance
        self._kind = kind
        self._types = field_types(kind.name)
        self._merged = self._with_merges()

    def all(self) -> Drawn:
        root = root_type_of(self._kind.name)
        version = _LATER.get(self._kind.api_version, self._kind.api_version)
        original = self._struct(root, 0)
        original |= {"apiVersion": version, "kind": self._kind.name}
        original["metadata"] = {**original.get("metadata", {}), "name": "n"}
        patch = self._patch(root, original, 0)
        if isinstance(patch.get("metadata"), dict):
            patch["metadata"].pop("name", None)
            patch["metadata"].pop("$patch", None)
            if "$retainKeys" in patch["metadata"]:
                patch["metadata"]["$retainKeys"].append("name")
        else:
            patch.pop("metadata", None)
        return Drawn(self._kind.name, original, patch)

    def _with_merges(self) -> set[str]:
        """Return the types with a tag of strategic merges in them or below them."""
        found = {
            name for name, fields in self._types.items() if any(merge_of(name, one).patch_strategy for one in fields)
        }
        before = -1
        while before != len(found):
            before = len(found)
            found |= {
                name for name, fields in self._types.items() if {of.lstrip("[{") for of in fields.values()} & found
            }
        return found

    def _fields(self, of: str, depth: int) -> list[str]:
        """Return some fields of a type, those with tags more often than others."""
        chosen = []
        for name, kind in self._types[of].items():
            plain = kind.lstrip("[{")
            if name in _KEPT or kind.startswith("{[") or (kind.startswith("{") and plain in self._types):
                continue
            is_deep = depth >= _DEEPEST and plain in self._types
            weight = 0.6 if merge_of(of, name).patch_strategy or plain in self._merged else 0.12
            if not is_deep and self._chance.random() < weight:
                chosen.append(name)
        return chosen

    def _value(self, of: str, depth: int, merge_key: str = "") -> Any:
        if of.startswith("["):
            return [self._value(of[1:], depth + 1, merge_key) for _ in range(self._chance.randrange(4))]
        if of.startswith("{"):
            return {self._chance.choice(_LETTERS): self._value(of[1:], depth) for _ in range(self._chance.randrange(3))}
        if of in self._types:
            found = self._struct(of, depth)
            return {**found, merge_key: self._key(of, merge_key)} if merge_key else found
        if of == "int":
            return self._chance.randrange(3)
        if of == "datetime":
            return f"2026-01-0{self._chance.randrange(1, 4)}T00:00:00Z"
        return self._chance.random() < 0.5 if of == "bool" else self._chance.choice(_LETTERS)

    def _key(self, of: str, merge_key: str) -> Any:
        return self._value(self._types[of].get(merge_key, "str"), 0)

    def _struct(self, of: str, depth: int) -> dict[str, Any]:
        """Return a value of a type. A list of plain values has each once: the order of others depends in Go on the
        room in the list's array.
        """
        found = dict[str, Any]()
        for name in self._fields(of, depth):
            value = self._value(self._types[of][name], depth + 1, merge_of(of, name).patch_merge_key)
            is_plain = isinstance(value, list) and not any(isinstance(each, dict) for each in value)
            found[name] = list(dict.fromkeys(value)) if is_plain else value
        return found

    def _patch(self, of: str, original: dict[str, Any], depth: int) -> dict[str, Any]:
        """Return a patch of an object of a type."""
        chance, patch = self._chance, dict[str, Any]()
        there = [name for name in original if name not in _KEPT and chance.random() < 0.7]
        for name in dict.fromkeys([*there, *self._fields(of, depth)]):
            self._patch_field(patch, of, name, original.get(name), depth)
        if depth and chance.random() < 0.06:
            patch["$patch"] = chance.choice(["replace", "replace", "delete", "merge", "other"])
        if depth and chance.random() < 0.08:
            kept = {name for name in patch if not name.startswith("$")} | {
                name for name in original if chance.random() < 0.5
            }
            patch["$retainKeys"] = sorted(kept)[chance.random() < 0.1 :]
        return patch

    def _patch_field(self, patch: dict[str, Any], of: str, name: str, old: Any, depth: int) -> None:
        kind, key = self._types[of].get(name, ""), merge_of(of, name).patch_merge_key
        if not kind or (kind.startswith("{") and kind.lstrip("[{") in self._types) or kind.startswith("{["):
            return
        if self._chance.random() < 0.08:
            patch[name] = None
        elif kind.startswith("["):
            self._patch_list(patch, of, name, old if isinstance(old, list) else [], depth)
        elif kind in self._types and isinstance(old, dict):
            patch[name] = self._patch(kind, old, depth + 1)
        elif kind.startswith("{") and isinstance(old, dict):
            patch[name] = {**self._value(kind, depth), **{each: None for each in old if self._chance.random() < 0.5}}
        else:
            patch[name] = self._value(kind, depth + 1, key)

    def _patch_list(self, patch: dict[str, Any], of: str, name: str, old: list[Any], depth: int) -> None:
        chance, kind, merge = self._chance, self._types[of][name][1:], merge_of(of, name)
        key = merge.patch_merge_key
        if kind not in self._types:
            if chance.random() < 0.3:
                patch[f"$deleteFromPrimitiveList/{name}"] = self._value(f"[{kind}", depth)
                if chance.random() < 0.5:
                    return
            patch[name] = self._value(f"[{kind}", depth)
            if f"$deleteFromPrimitiveList/{name}" in patch or chance.random() < 0.4:
                patch[f"$setElementOrder/{name}"] = self._order(patch[name], old)
            return
        elements = []
        for each in [each for each in old if chance.random() < 0.5]:
            part = self._patch(kind, each, depth + 1) if chance.random() < 0.7 else {"$patch": "delete"}
            elements.append({**part, key: each[key]} if key in each else part)
        elements += [self._value(kind, depth + 1, key) for _ in range(chance.randrange(3))]
        if chance.random() < 0.05:
            elements.append({"$patch": chance.choice(["replace", "replace", "merge", "other"])})
        if chance.random() < 0.03 and elements:
            elements[-1].pop(key, None)
        patch[name] = elements
        if key and chance.random() < 0.5:
            keys = [each[key] for each in elements if key in each and each.get("$patch") != "delete"]
            patch[f"$setElementOrder/{name}"] = [
                {key: one} for one in self._order(keys, [e[key] for e in old if key in e])
            ]
            if chance.random() < 0.2:
                del patch[name]

    def _order(self, new: list[Any], old: list[Any]) -> list[Any]:
        """Return an order that has the new values, mostly, one after the other, and some of the old ones between."""
        order = list(new)
        for each in old:
            if self._chance.random() < 0.6:
                order.insert(self._chance.randrange(len(order) + 1), each)
        if self._chance.random() < 0.1:
            self._chance.shuffle(order)
        return order
