"""What a statement does: whether mutants of it would say something."""

import ast
from collections.abc import Iterator
from functools import lru_cache

_SILENT = ("_log", "logging", "warnings")
"""Names whose calls no test checks."""
_LOCKS = ("threading.Lock", "threading.RLock", "threading.Condition")
_FIXED = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Raise, ast.Return, ast.Break, ast.Continue)
_PURE = frozenset(
    {"len", "isinstance", "str", "int", "list", "dict", "set", "tuple", "frozenset", "bool", "float", "get", "field"}
)


CONTAINER_METHODS = frozenset(
    {
        "append", "appendleft", "extend", "add", "discard", "remove", "clear", "insert", "move_to_end", "pop",
        "popitem", "popleft", "setdefault", "sort",
    }
)  # fmt: skip
"""Methods that change their own object and nothing else."""


def is_silent(statement: ast.stmt) -> bool:
    """Return whether it is a log line, also under a condition that calls nothing, or a docstring."""
    if isinstance(statement, ast.If) and not statement.orelse and not any(_uses(ast.Expr(statement.test))[::2]):
        return all(map(is_silent, statement.body))
    value = getattr(statement, "value", None)
    if not isinstance(statement, ast.Expr):
        return False
    if isinstance(value, ast.Constant):
        return True
    return isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[0] in _SILENT


def is_lock(statement: ast.With, locks: set[str]) -> bool:
    """Return whether it only holds a lock, which no test of one thread notices, or names what its body uses.

    Args:
        locks: names of locks.
    """
    return any(
        item.optional_vars is not None
        or ast.unparse(item.context_expr).rpartition(".")[2].lower().endswith("lock")
        or ast.unparse(item.context_expr).rpartition(".")[2] in locks
        for item in statement.items
    )


def locks_of(tree: ast.Module) -> set[str]:
    """Return the names of attributes and variables of a module that are locks."""
    found = set[str]()
    for node in ast.walk(tree):
        match node:
            case (
                ast.Assign(targets=[target], value=ast.Call(func=func))
                | ast.AnnAssign(target=target, value=ast.Call(func=func))
            ) if ast.unparse(func).endswith(_LOCKS):
                found.add(ast.unparse(target).rpartition(".")[2])
    return found


def ends_of(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that are last in a body, also within its last one."""
    if not body:
        return
    yield body[-1]
    for node in (body[-1], *getattr(body[-1], "handlers", []), *getattr(body[-1], "cases", [])):
        for part in ("body", "orelse"):
            if not isinstance(node, ast.For | ast.While):
                yield from ends_of(getattr(node, part, []))


def is_order_open(first: ast.stmt, second: ast.stmt) -> bool:
    """Return whether two adjacent statements can change places, and somebody may see it.

    Both have an effect beside local names, one of them by a call or on what the other reads; and neither defines a
    local name that the other uses, ends the function or the loop, or is a log line.
    """
    if any(isinstance(each, _FIXED) or is_silent(each) for each in (first, second)):
        return False
    if _is_guard(first) and _is_guard(second):
        return False
    (stored, read, calls), (later_stored, later_read, later_calls) = _uses(first), _uses(second)
    if any("." not in name for name in stored & (later_read | later_stored) | later_stored & read):
        return False
    if not any((calls, later_calls)):
        return bool(stored & (later_read | later_stored) | later_stored & read)
    return (calls or any("." in name for name in stored)) and (later_calls or any("." in name for name in later_stored))


def is_passable(moved: ast.stmt, other: ast.stmt) -> bool:
    """Return whether a statement can move past another: neither defines a local name that the other uses, and none of
    them ends the function or the loop, or may.
    """
    if any(isinstance(each, _FIXED) or _may_leave(each) for each in (moved, other)):
        return False
    (stored, read, _), (others_stored, others_read, _) = _uses(moved), _uses(other)
    return not any("." not in name for name in stored & (others_read | others_stored) | others_stored & read)


def acts(statement: ast.stmt) -> bool:
    """Return whether a statement calls what may have an effect."""
    return not is_silent(statement) and _uses(statement)[2]


@lru_cache(maxsize=1024)
def _may_leave(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Raise | ast.Return | ast.Continue | ast.Break) for node in ast.walk(statement))


def _is_guard(statement: ast.stmt) -> bool:
    """Return whether it is one of the checks after which nothing else happens; their order is rarely of importance."""
    return isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Raise | ast.Return | ast.Continue)


@lru_cache(maxsize=1024)
def _uses(statement: ast.stmt) -> tuple[set[str], set[str], bool]:
    """Return the local names and attributes that it stores, those that it reads, and whether it calls what may act."""
    stored, read, calls = set[str](), set[str](), False
    for node in ast.walk(statement):
        if isinstance(node, ast.Name | ast.Attribute):
            name = ast.unparse(node)
            (read if isinstance(node.ctx, ast.Load) else stored).add(name)
            read.add(f"{name}.[]")
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            stored.add(f"{ast.unparse(node.value)}.[]")
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
            if name in CONTAINER_METHODS and isinstance(node.func, ast.Attribute):
                stored.add(f"{ast.unparse(node.func.value)}.[]")
            else:
                calls = calls or not (name in _PURE or name[:1].isupper())
    return stored, read, calls
