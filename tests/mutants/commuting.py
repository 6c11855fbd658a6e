"""Adjacent statements that commute: nobody sees their order, so a mutant that swaps them says nothing."""

import ast
from collections import Counter
from collections.abc import Iterator
from enum import Enum, auto
from functools import cache
from typing import NamedTuple

from tests.mutants.selection import ROOT
from tests.mutants.statements import CONTAINER_METHODS, is_silent

_QUESTIONS = frozenset(
    {
        "HasField", "SerializeToString", "abs", "all", "any", "astimezone", "auto", "b64encode", "bisect_left",
        "bisect_right", "bit_length", "bool", "bytearray", "bytes", "casefold", "copy", "count", "deepcopy",
        "defaultdict", "deque", "dict", "divmod", "encode", "endswith", "enumerate", "fileno", "findall", "finditer",
        "float", "from_bytes", "fromkeys", "fromtimestamp", "frozenset", "fsdecode", "fullmatch", "get", "getattr",
        "gethostname", "getsockname", "gmtime", "hasattr", "hexdigest", "int", "is_absolute", "isalnum", "isalpha",
        "isascii", "isdecimal", "isdigit", "isfinite", "isinstance", "islice", "isoformat", "isprintable", "items",
        "iter", "join", "keys", "len", "list", "ljust", "lower", "lstrip", "match", "max", "memoryview", "min",
        "partial", "partition", "range", "relative_to", "removeprefix", "removesuffix", "repr", "reversed", "rfind",
        "rjust", "round", "rpartition", "rsplit", "rstrip", "search", "set", "sha256", "sorted", "split", "splitlines",
        "startswith", "str", "strftime", "strip", "sub", "sum", "timedelta", "timestamp", "title", "to_bytes",
        "token_bytes", "token_hex", "total_seconds", "translate", "tuple", "type", "union", "upper", "urlencode",
        "values", "with_name", "with_suffix", "zip",
    }
)  # fmt: skip
"""Functions and methods of Python that change nothing."""
_OTHER_QUESTIONS = frozenset(
    {"ec.SECP256R1", "ec.generate_private_key", "msgspec.structs.replace", "os.getpid", "replace", "select.poll"}
)
"""The same, where the name alone does not tell it."""
_PARSERS = frozenset({"b64decode", "convert", "decode_json", "fromisoformat", "strptime"})
"""Functions that only read, and may raise."""
_READINGS = frozenset({"monotonic", "monotonic_ns", "new_id", "now", "now_ms", "now_ns", "time"})
"""Methods that read a clock, or take the next number: what may take time, or an effect, stays where it is."""
_MAKERS = frozenset({"message", "new"})
"""Methods of a module, and of the class, that make a message with a new id."""
_TIME = "time"
_LATER = frozenset({"after", "after_commit", "call_soon", "every"})
"""Methods that let a module call something later, on the same thread."""
_SENDS = frozenset(
    {"announce_not_ready", "announce_progress", "announce_ready", "broadcast", "reply", "request", "respond", "send"}
)
"""Methods of a module whose effect on it, if there is one, comes in a later turn."""
_SETTINGS = frozenset({"load_cert_chain", "load_verify_locations", "set_alpn_protocols", "set_ciphers"})
"""Methods of a TLS context that nobody has yet."""
_COUNTERS = frozenset({"_counters", "_meter", "counters", "meter"})
"""Names of what only counts."""
_RULES = "modules/apimachinery/validation/"
"""Directory of the rules of objects, which append their faults to `found`."""
_CAUSES = f"{_RULES}causes.py"
"""Module of the functions that make faults."""
_FAULTS = "Iterator[Cause]"
_TOLD = "found.told"
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await)
_FRESH = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
Function = tuple[str, ast.FunctionDef]
"""Path and definition."""


class _Call(Enum):
    """What a call may do."""

    ACTS = auto()
    ASKS = auto()
    """It only reads."""
    READS_TIME = auto()
    """It only reads, and that a clock or the next number."""
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
    leaves: bool = False
    """Whether it may do so without an error."""


class Method(NamedTuple):
    """A method whose definition is known."""

    path: str
    definition: ast.FunctionDef
    owner: str
    """Dotted name of its object."""


def commute(path: str, first: ast.stmt, second: ast.stmt) -> bool:
    """Return whether it makes no difference which of two statements of a module comes first.

    Statements commute when at most one calls what may have an effect, and neither changes what the other reads or
    changes. A call may change all that it names. A function of the product has no effect when nothing in it has one.
    Which of two refusals or faults comes first is not of importance, nor when something is counted or the turn's end
    asked for, nor the order of commands and options in a help.
    """
    if _registers(first) and _registers(second):
        return True
    uses, later = uses_of(path, first), uses_of(path, second)
    if (_counts(first) and not later.ends) or (_counts(second) and not uses.ends):
        return True
    is_choice = uses.ends and later.ends and (uses.leaves or later.leaves)
    return not (_disturbs(uses, later) or _disturbs(later, uses) or is_choice)


def _counts(statement: ast.stmt) -> bool:
    """Return whether it only counts, or only asks for the turn's end."""
    match statement:
        case ast.AugAssign(target=target):
            return not _COUNTERS.isdisjoint(_name(target).split("."))
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="end_turn_soon"), args=[])):
            return True
    return False


def _registers(statement: ast.stmt) -> bool:
    """Return whether it only adds a command to a command line."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=arguments)):
            is_registration = name in {"add", "add_verbs"} or name.startswith("_add_")
            return is_registration and any(ast.unparse(each) == "commands" for each in arguments)
    return False


def _disturbs(one: Uses, other: Uses) -> bool:
    """Return whether the other statement may do something else behind this one, or nothing."""
    if not any((one.written, one.acts, one.ends)) or not any((other.written, other.acts, other.ends)):
        return False
    is_effect = other.acts or any("." in name for name in other.written)
    if ((one.acts or one.ends) and is_effect) or (one.acts and _TIME in other.read):
        return True
    changed = one.written | {name.partition(".")[0] for name in one.read if one.acts}
    pairs = ((name, used) for name in changed for used in other.written | other.read)
    return any(_overlap(name, used) for name, used in pairs if not name == used == _TOLD)


def uses_of(path: str, statement: ast.stmt) -> Uses:
    """Return what a statement of a module reads, changes and calls."""
    written, read, acts, ends, leaves = set[str](), set[str](), False, False, False
    for node in _walk(path, statement):
        is_told = _tells(path, node)
        ends = ends or (isinstance(node, _ENDS) and not is_told)
        leaves = leaves or (isinstance(node, _ENDS) and not is_told and not isinstance(node, ast.Raise))
        match node:
            case ast.With() | ast.Await() | ast.Global() | ast.Nonlocal():
                acts = True
            case _ if is_told:
                written.add(_TOLD)
            case ast.Call(func=ast.Attribute(value=clock, attr=name)) if _is_reading(path, clock, name):
                read.add(_TIME)
            case ast.Call(func=ast.Attribute(value=changed, attr=name)) if name in CONTAINER_METHODS:
                written.add(f"{_member(changed) or _name(changed)}.[]")
                acts = acts or _name(changed) in {"", "self"}
            case ast.Call() if (own := _changed_by(path, node)) is not None:
                written.add(f"{own}.[]")
            case ast.Call() if (known := _known_method(path, node)) is not None:
                done = _done_by(known)
                written, read, ends = written | done.written, read | done.read, ends or done.ends
            case _ if (member := _member(node)) is not None:
                (written if isinstance(getattr(node, "ctx", None), ast.Store) else read).add(member)
            case ast.Call():
                called = _called(path, node)
                acts, ends = acts or called is _Call.ACTS, ends or called is _Call.REFUSES
                read |= {_TIME} if called is _Call.READS_TIME else set()
            case ast.Name() | ast.Attribute() | ast.Subscript():
                name = _name(node)
                if not isinstance(node.ctx, ast.Load):
                    written.add(f"{name}.[]" if isinstance(node, ast.Subscript) else name)
                read.add(name)
    return Uses(written, read, acts, ends, leaves)


def _tells(path: str, node: ast.AST) -> bool:
    """Return whether it tells a fault, or calls a rule; what yields faults is read as a whole."""
    match node:
        case ast.Yield(value=ast.Call(func=ast.Name(id=name))):
            return (_found(path, name) or ("",))[0] == _CAUSES
        case ast.YieldFrom(value=ast.Call(func=ast.Name(id=name))) if (where := _found(path, name)) is not None:
            return (returned := where[1].returns) is not None and ast.unparse(returned) == _FAULTS
        case ast.Call(func=ast.Attribute(value=ast.Name(id="found"), attr="append")):
            return path.startswith(_RULES)
        case ast.Call(func=called, args=[_, *_, ast.Name(id="found")]):
            return path.startswith(_RULES) and ast.unparse(called) not in _QUESTIONS
    return False


def _is_reading(path: str, clock: ast.expr, name: str) -> bool:
    if name in _MAKERS:
        return ast.unparse(clock) == "Message" or _is_module(path, clock)
    return name in _READINGS and (name == "new_id" or _name(clock).endswith(("clock", "time")))


def _changed_by(path: str, call: ast.Call) -> str | None:
    """Return the name of what a function or method changes that changes nothing else; None for any other."""
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=parser), attr="add_argument"),
            args=[ast.Constant(value=str(option)), *_],
        ):
            return f"{parser}.[{option if option.startswith('-') else 'positional'}]"
        case ast.Call(func=ast.Name(id=name), args=[ast.Name(id=parser), *_]) if _adds_options(path, name):
            return f"{parser}.[{name}]"
        case ast.Call(func=ast.Attribute(value=ast.Name(id=context), attr=name)) if name in _SETTINGS:
            return f"{context}.{name}"
        case ast.Call(func=ast.Attribute(value=module, attr=name)) if name in _SENDS and _is_module(path, module):
            return "bus"
        case ast.Call(func=ast.Attribute(value=timer, attr="cancel"), args=[]) if _name(timer).endswith("timer"):
            return _name(timer)
        case ast.Call(func=ast.Attribute(value=poll, attr="register" | "unregister")) if _name(poll).endswith("poll"):
            return _name(poll)
        case ast.Call(func=ast.Attribute(value=backoff, attr="reset" | "next")) if _name(backoff).endswith("backoff"):
            return _name(backoff)
        case ast.Call(func=ast.Attribute(value=condition, attr="notify" | "notify_all"), args=[]):
            return f"{_name(condition)}.notified"  # who waits needs the lock
        case ast.Call(func=ast.Name(id="insort"), args=[order, _]):
            return _name(order)
        case ast.Call(func=ast.Attribute(attr=name)) if name in _LATER:
            return "later"
    return None


def _adds_options(path: str, name: str) -> bool:
    """Return whether a function only adds options to its first argument."""
    if (where := _found(path, name)) is None:
        return False
    path, function = where
    key = path, function.name
    if key not in _adding:
        _adding[key] = False
        every = [uses_of(path, each) for each in function.body]
        written = {one for uses in every for one in uses.written if "." in one}
        parser = function.args.args[0].arg if function.args.args else ""
        is_quiet = not any(uses.acts or uses.ends for uses in every)
        _adding[key] = is_quiet and bool(written) and all(one.startswith(f"{parser}.[-") for one in written)
    return _adding[key]


_adding: dict[tuple[str, str], bool] = {}


def _is_module(path: str, expression: ast.expr) -> bool:
    """Return whether it is a module of the bus: `self` only in the file of its class."""
    bases = [ast.unparse(base) for node in _body(path) if isinstance(node, ast.ClassDef) for base in node.bases]
    name = ast.unparse(expression)
    return name in {"module", "self.module", "self._module"} or (name == "self" and "Module" in bases)


def _member(node: ast.AST) -> str | None:
    """Return the dotted name of the only member of a dictionary that an expression sets or reads."""
    match node:
        case (
            ast.Subscript(
                value=ast.Name() | ast.Attribute() as of,
                slice=ast.Constant(value=str(key)),
                ctx=ast.Store() | ast.Load(),
            )
            | ast.Call(
                func=ast.Attribute(value=ast.Name() | ast.Attribute() as of, attr="get"),
                args=[ast.Constant(value=str(key)), *_],
            )
        ):
            return f"{_name(of)}.[{key.replace('.', ' ')!r}]"
    return None


def _walk(path: str, node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that count: no log lines, no names of called functions, and of `a.b.c` only the whole."""
    if isinstance(node, ast.stmt) and is_silent(node):
        return
    yield node
    children = list(ast.iter_child_nodes(node))
    match node:
        case ast.Call(args=[ast.Call(args=of_cause)]) | ast.Yield(value=ast.Call(args=of_cause)) if _tells(path, node):
            children = list[ast.AST](of_cause)
        case ast.Call(args=arguments) if _tells(path, node):
            children = list[ast.AST](arguments[:-1])
        case ast.YieldFrom(value=ast.Call(args=arguments)) if _tells(path, node):
            children = list[ast.AST](arguments)
        case ast.Call(func=ast.Attribute()) if _changed_by(path, node) or _known_method(path, node):
            del children[0]
        case _ if _member(node) is not None:
            children = list[ast.AST](node.args[1:]) if isinstance(node, ast.Call) else []
        case ast.Call(func=ast.Attribute(value=value)):
            children[0] = value
        case ast.Call(func=ast.Name(id=name)):
            del children[: 2 if _adds_options(path, name) else 1]
        case ast.Attribute(value=ast.Name() | ast.Attribute()):
            children = []
    for child in children:
        yield from _walk(path, child)


def _known_method(path: str, node: ast.AST) -> Method | None:
    """Return the called method, if it changes nothing but its object: `self`, or what `self` alone makes."""
    found = None
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if name in _methods(path):
            found = Method(path, _methods(path)[name], "self")
        case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=member), attr=name)):
            where, methods = _members(path).get(member, ("", {}))
            found = Method(where, methods[name], f"self.{member}") if name in methods else None
    return None if found is None or _done_by(found).acts else found


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
    """Return whether one of two dotted names is the other, or a part of it; `.[]` is any member."""
    one, two = (f"{each.removesuffix('.[]')}." for each in (name, other))
    return one.startswith(two) or two.startswith(one)


def _called(path: str, call: ast.Call) -> _Call:
    match call.func:
        case ast.Attribute(attr="join") if not call.args:
            return _Call.ACTS
        case ast.Attribute(value=ast.Name(), attr="decode"):
            return _Call.REFUSES
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in _PARSERS:
            return _Call.REFUSES
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(value=ast.Name(id=name)) if (
            name in _QUESTIONS
        ):
            return _Call.ASKS
        case ast.Name(id="next") if isinstance(call.args[0], ast.GeneratorExp | ast.Call):
            return _Call.ASKS
        case ast.Name() | ast.Attribute() if ast.unparse(call.func) in _OTHER_QUESTIONS:
            return _Call.ASKS
        case ast.Name(id=name):
            return _Call.ASKS if name[:1].isupper() else _function(path, name)
        case ast.Attribute(value=ast.Name(), attr=name) if name.istitle() or name.endswith("Error"):
            return _Call.ASKS
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return _function(path, f"{module}.{name}")
    return _Call.ACTS


def _function(path: str, name: str) -> _Call:
    """Return what a function does that a module defines or imports; a recursive one counts as if it acted."""
    where = _found(path, name)
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
            reads = any(_TIME in uses_of(path, each).read for each in function.body)
            _known[key] = _Call.ASKS
            if refuses or reads:
                _known[key] = _Call.READS_TIME if not refuses else _Call.ACTS if reads else _Call.REFUSES
    return _known[key]


_known: dict[tuple[str, str], _Call] = {}


def _done_by(method: Method) -> Uses:
    """Return what a method does to its object: it acts if it changes anything else, or calls itself."""
    path, key = method.path, (method.path, method.definition.lineno)
    if key not in _done:
        _done[key] = _ACTS
        body = method.definition.body
        every, own = [uses_of(path, each) for each in body], {"", *_fresh(method.definition)}
        written = {one for uses in every for one in uses.written if "." in one and one.partition(".")[0] not in own}
        read = {one for uses in every for one in uses.read if one.partition(".")[0] in {"self", _TIME}}
        if all(one.startswith("self.") or one.endswith("timer.[]") for one in written):
            acts = any(uses.acts for uses in every)
            _done[key] = Uses(written, read, acts, any(_may_raise(path, each) for each in ast.walk(method.definition)))
    done = _done[key]
    written, read = ({_renamed(one, method.owner) for one in names} for names in (done.written, done.read))
    return done._replace(written=written, read=read)


def _renamed(name: str, owner: str) -> str:
    first, dot, rest = name.partition(".")
    return f"{owner}{dot}{rest}" if first == "self" else name


def _may_raise(path: str, node: ast.AST) -> bool:
    if (method := _known_method(path, node)) is not None:
        return _done_by(method).ends
    return isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _called(path, node) is _Call.REFUSES)


_ACTS = Uses(set(), set(), acts=True, ends=True)
_done: dict[tuple[str, int], Uses] = {}


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
def _methods(path: str) -> dict[str, ast.FunctionDef]:
    """Return the private methods of a module's classes whose names only one of these has."""
    classes = [node for node in _body(path) if isinstance(node, ast.ClassDef)]
    found = [each for one in classes for each in one.body if isinstance(each, ast.FunctionDef)]
    times = Counter(each.name for each in found)
    return {
        each.name: each
        for each in found
        if each.name.startswith("_") and times[each.name] == 1 and not each.decorator_list
    }


@cache
def _members(path: str) -> dict[str, tuple[str, dict[str, ast.FunctionDef]]]:
    """Return the members that one statement of a module sets, to a new object of a class of the product without a base:
    with the path and the methods of its class.
    """
    nodes = [each for one in _body(path) if isinstance(one, ast.ClassDef) for each in ast.walk(one)]
    times = Counter(each.attr for each in nodes if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store))
    found = dict[str, tuple[str, dict[str, ast.FunctionDef]]]()
    for node in nodes:
        match node:
            case (
                ast.Assign(targets=[ast.Attribute(attr=member)], value=ast.Call(func=ast.Name(id=name)))
                | ast.AnnAssign(target=ast.Attribute(attr=member), value=ast.Call(func=ast.Name(id=name)))
            ) if times[member] == 1 and (known := _class(path, name)) is not None and not known[1].bases:
                where, made = known
                methods = [each for each in made.body if isinstance(each, ast.FunctionDef) and not each.decorator_list]
                found[member] = where, {each.name: each for each in methods}
    return found


def _class(path: str, name: str) -> tuple[str, ast.ClassDef] | None:
    """Return the class of a name that a module imports from another module of the product, or defines."""
    imported = [other for other, own, _ in _imports(path) if own == name]
    for other in (*(f"{each.replace('.', '/')}.py" for each in imported), path):
        for node in reversed(_body(other)):
            if isinstance(node, ast.ClassDef) and node.name == name:
                return other, node
    return None


@cache
def _found(path: str, name: str) -> Function | None:
    """Return the function of a name that a module imports from another module of the product, or defines. Only modules
    that may have it are read.
    """
    outer, dot, inner = name.partition(".")
    for module, own, known in _imports(path):
        if known == outer:
            inside = _own_functions(f"{module}.{own}".replace(".", "/") + ".py").get(inner) if dot else None
            if (found := inside if dot else _exported(module, own)) is not None:
                return found
    return _own_functions(path).get(name)


@cache
def _exported(module: str, name: str) -> Function | None:
    """Return a function of a module, or one that a package takes from its modules."""
    path = module.replace(".", "/")
    for other, own, known in _imports(f"{path}/__init__.py"):
        found = _own_functions(f"{other.replace('.', '/')}.py").get(own) if known == name else None
        if found is not None:
            return found
    return _own_functions(f"{path}.py").get(name)


@cache
def _imports(path: str) -> list[tuple[str, str, str]]:
    """Return what a module imports by `from`, the last first: module, name there and name here."""
    nodes = [node for node in _body(path) if isinstance(node, ast.ImportFrom)]
    found = [(_module_of(node, path), each.name, each.asname or each.name) for node in nodes for each in node.names]
    return found[::-1]


def _module_of(node: ast.ImportFrom, path: str) -> str:
    """Return the whole name of the module that is imported from."""
    above = path.split("/")[: -node.level] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])


@cache
def _own_functions(path: str) -> dict[str, Function]:
    """Return the functions that a module defines; a cache of their results is nobody's business."""
    return {
        node.name: (path, node)
        for node in _body(path)
        if isinstance(node, ast.FunctionDef) and all("cache" in ast.unparse(each) for each in node.decorator_list)
    }


@cache
def _body(path: str) -> list[ast.stmt]:
    return ast.parse((ROOT / path).read_text()).body if (ROOT / path).is_file() else []


def forget() -> None:
    """Forget the files that were read: a million objects, through which the collector looks again and again."""
    for cached in (_methods, _members, _found, _exported, _imports, _own_functions, _body):
        cached.cache_clear()
    for known in (_adding, _known, _done):
        known.clear()
