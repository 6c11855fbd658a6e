"""Adjacent statements that commute: nobody sees their order, so a mutant that swaps them says nothing."""

import ast
from collections.abc import Iterator
from enum import Enum, auto
from functools import cache
from typing import NamedTuple

from tests.mutants.selection import ROOT
from tests.mutants.statements import CONTAINER_METHODS, is_silent

_QUESTIONS = frozenset(
    {
        "abs", "all", "any", "bool", "copy", "deepcopy", "dict", "endswith", "enumerate", "float", "frozenset", "get",
        "getattr", "hasattr", "int", "isinstance", "items", "join", "keys", "len", "list", "lower", "lstrip", "max",
        "min", "partition", "range", "repr", "reversed", "rpartition", "rsplit", "rstrip", "set", "sorted", "split",
        "startswith", "str", "strip", "sum", "tuple", "type", "upper", "values", "zip",
    }
)  # fmt: skip
"""Builtin functions and methods that change nothing."""
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await)
_FRESH = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
Functions = dict[str, tuple[str, ast.FunctionDef]]


class _Call(Enum):
    """What a call may do."""

    ACTS = auto()
    ASKS = auto()
    """It only reads."""
    REFUSES = auto()
    """It only reads, and may raise."""


class Uses(NamedTuple):
    """What a statement does."""

    written: set[str]
    """Names that it assigns, and objects that it changes, with dots."""
    read: set[str]
    acts: bool
    """Whether it calls what may have an effect."""
    ends: bool
    """Whether it may end the function or the loop, or raise an error of its own."""


def commute(path: str, first: ast.stmt, second: ast.stmt) -> bool:
    """Return whether it makes no difference which of two statements of a module comes first.

    Statements commute when at most one calls what may have an effect, and neither changes what the other reads or
    changes. A call may change all that it names. A function of the product has no effect when nothing in it has one.
    """
    uses, later = uses_of(path, first), uses_of(path, second)
    return not (_disturbs(uses, later) or _disturbs(later, uses) or (uses.ends and later.ends))


def _disturbs(one: Uses, other: Uses) -> bool:
    """Return whether the other statement may do something else behind this one, or nothing."""
    if not any((one.written, one.acts, one.ends)) or not any((other.written, other.acts, other.ends)):
        return False
    is_effect = other.acts or any("." in name for name in other.written)
    if (one.acts or one.ends) and is_effect:
        return True
    changed = one.written | {name.partition(".")[0] for name in one.read if one.acts}
    return any(_overlap(name, used) for name in changed for used in other.written | other.read)


def uses_of(path: str, statement: ast.stmt) -> Uses:
    """Return what a statement of a module reads, changes and calls."""
    written, read, acts, ends = set[str](), set[str](), False, False
    for node in _walk(statement):
        ends = ends or isinstance(node, _ENDS)
        match node:
            case ast.With() | ast.Await() | ast.Delete() | ast.Global() | ast.Nonlocal():
                acts = True
            case ast.Call(func=ast.Attribute(value=changed, attr=name)) if name in CONTAINER_METHODS:
                written.add(f"{_name(changed)}.[]")
                acts = acts or _name(changed) in {"", "self"}
            case ast.Call():
                called = _called(path, node)
                acts, ends = acts or called is _Call.ACTS, ends or called is _Call.REFUSES
            case ast.Name() | ast.Attribute() | ast.Subscript():
                name = _name(node)
                if not isinstance(node.ctx, ast.Load):
                    written.add(f"{name}.[]" if isinstance(node, ast.Subscript) else name)
                read.add(name)
    return Uses(written, read, acts, ends)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that count: no log lines, no names of called functions, and of `a.b.c` only the whole."""
    if isinstance(node, ast.stmt) and is_silent(node):
        return
    yield node
    children = list(ast.iter_child_nodes(node))
    match node:
        case ast.Call(func=ast.Attribute(value=value)):
            children[0] = value
        case ast.Call(func=ast.Name()):
            del children[0]
        case ast.Attribute(value=ast.Name() | ast.Attribute()):
            children = []
    for child in children:
        yield from _walk(child)


def _name(node: ast.AST) -> str:
    """Return the dotted name of what an expression is a part of."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute(value=ast.Name() | ast.Attribute()):
            return f"{_name(node.value)}.{node.attr}"
        case ast.Attribute() | ast.Subscript() | ast.Starred():
            return _name(node.value)
        case ast.Call(func=ast.Attribute() as called):
            return _name(called.value)
    return ""


def _overlap(name: str, other: str) -> bool:
    """Return whether one of two dotted names is the other, or a part of it."""
    return f"{name}.".startswith(f"{other}.") or f"{other}.".startswith(f"{name}.")


def _called(path: str, call: ast.Call) -> _Call:
    match call.func:
        case ast.Attribute(attr="join") if not call.args:
            return _Call.ACTS
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in _QUESTIONS:
            return _Call.ASKS
        case ast.Name(id=name):
            return _Call.ASKS if name[:1].isupper() else _function(path, name)
    return _Call.ACTS


def _function(path: str, name: str) -> _Call:
    """Return what a function does that a module defines or imports; a recursive one counts as if it acted."""
    where = _functions(path).get(name)
    if where is None:
        return _Call.ACTS
    path, function = where
    key = path, function.name
    if key not in _known:
        _known[key] = _Call.ACTS
        own, calls = _fresh(function), [node for node in ast.walk(function) if isinstance(node, ast.Call)]
        if not any(_has_effect(path, each, own) for each in function.body):
            refuses = any(isinstance(node, ast.Raise) for node in ast.walk(function))
            refuses = refuses or any(_called(path, call) is _Call.REFUSES for call in calls)
            _known[key] = _Call.REFUSES if refuses else _Call.ASKS
    return _known[key]


_known: dict[tuple[str, str], _Call] = {}


def _has_effect(path: str, statement: ast.stmt, own: set[str]) -> bool:
    uses = uses_of(path, statement)
    return uses.acts or any("." in name and name.partition(".")[0] not in own for name in uses.written)


def _fresh(function: ast.FunctionDef) -> set[str]:
    """Return the local names of lists, dicts and sets that the function makes."""
    found = set[str]()
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if isinstance(value, _FRESH):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if isinstance(value, _FRESH):
                found.add(name)
    return found


@cache
def _functions(path: str) -> Functions:
    """Return the functions that a module defines, and the ones that it imports from other modules of the product."""
    found = dict(_own_functions(path))
    for node in _body(path):
        if isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            others = _own_functions(f"{node.module.replace('.', '/')}.py")
            found.update({each.asname or each.name: others[each.name] for each in node.names if each.name in others})
    return found


@cache
def _own_functions(path: str) -> Functions:
    return {
        node.name: (path, node) for node in _body(path) if isinstance(node, ast.FunctionDef) and not node.decorator_list
    }


@cache
def _body(path: str) -> list[ast.stmt]:
    return ast.parse((ROOT / path).read_text()).body if (ROOT / path).is_file() else []
