"""The mutants of a module: each is one small change of its syntax tree.

Docstrings, annotations, log messages and error texts are left alone: tests should not hold them.
"""

import ast
import copy
import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple

from tests.mutants.commuting import commute
from tests.mutants.statements import acts, ends_of, is_lock, is_order_open, is_passable, is_silent, locks_of

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_BOUNDS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_NEIGHBOURS: dict[str, str] = {
    "monotonic": "now",
    "now": "monotonic",
    "popleft": "pop",
    "appendleft": "append",
    "extendleft": "extend",
    "min": "max",
    "max": "min",
}
"""Names of called functions, each with a similar one of another clock, order or bound."""
_DEFERRED: dict[str, int] = {"after_commit": 0, "call_soon": 0, "after": 1}
"""Methods that call a function later, with the place of that among their arguments."""
_REMOVALS = ("clear", "discard", "pop", "popitem", "popleft", "remove")
"""Methods of containers that take something out."""
_NO_ERROR = ast.parse("__import__('sys').exc_info()[0] is None", mode="eval").body
"""In a `finally`: its body has ended without an error."""
_PIECE = 1024
"""Bytes from which on a number says how much is read at a time, and not how much is expected."""
_STACKED = ("callback", "enter_context")
"""Methods of an `ExitStack` that give it something to clean up; one that an object keeps is closed without an error."""
_NO_CLEAN_UP = (
    "suppress", "nullcontext", "open", "fdopen", "scandir", "socket.socket", "create_connection", "memoryview",
    "connect_unix", "listen_tcp", "makefile", "TemporaryFile", "TemporaryDirectory", "ZipFile", "sqlite3.connect",
    "HTTPConnection", "dialling.connect", "wrap_socket", "ThreadPoolExecutor", "ExitStack", "_errors", "one_of_many",
)  # fmt: skip
"""Ends of the names of contexts without clean-up, such as those that convert errors, or with one that the end of their
last reference makes, too; each part of an `ExitStack` is changed where it is given to it.
"""
_COMMANDS = "modules/processes/"
_OF_PROCESS = ("opened", "read", "reading", "connected", "held", "RealClock")
"""Contexts that end with the process of a command, whether it fails or not: databases, traces, connections to the
runtime, locks on files, clocks.
"""
_LARGE = 1000
Undo = Callable[[], None]


class Mutant(NamedTuple):
    """One change."""

    path: str
    """Path of the module, from the root of the repository."""
    number: int
    """Index among the module's mutants."""
    line: int
    function: str
    before: str
    """The statement, or the head of a compound one, as `ast` writes it."""
    after: str
    name: str
    """Hash of path, function, statement and change; it does not depend on the line."""
    of_order: bool = False
    """Whether it changes the order or the time of something, or a bound by one."""
    of_failure: bool = False
    """Whether what a failure leaves behind is not cleaned up."""
    of_state: bool = False
    """Whether an attribute keeps what has ended, such as that it is busy, or the key of a request under way."""


def mutants(path: str, source: str) -> list[Mutant]:
    """Return all mutants of a module, in the order of the source."""
    return _mutants(path, list(_changes(ast.parse(source))))


def existing(path: str, source: str, asked: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return which of some mutants of a module there are, each as its function and name: no others are made."""
    functions = {function for function, _ in asked}
    alike = defaultdict[str, list[Candidate]](list)
    for each in _changes(ast.parse(source), functions):
        if each[0] in functions:
            alike[_text(path, each[0], *_texts(*each[1:]))].append(each)
    changes = list[Candidate]()
    for text, many in alike.items():
        names = {_name(text, count) for count in range(1, len(many) + 1)}
        changes += many if any((many[0][0], name) in asked for name in names) else []
    return {(one.function, one.name) for one in _mutants(path, changes)} & set(asked)


def _mutants(path: str, changes: list["Candidate"]) -> list[Mutant]:
    found: list[Mutant] = []
    seen: Counter[str] = Counter()
    for number, (function, statement, change) in enumerate(changes):
        if change.swapped is not None and commute(path, *change.swapped):
            continue
        if change.context in _OF_PROCESS and path.startswith(_COMMANDS):
            continue
        before, after = _texts(statement, change)
        text = _text(path, function, before, after)
        seen[text] += 1
        flags = change.of_order, change.of_failure, change.of_state
        found.append(Mutant(path, number, statement.lineno, function, before, after, _name(text, seen[text]), *flags))
    return [mutant for mutant in found if mutant.before != mutant.after]


def _texts(statement: ast.stmt, change: "Change") -> tuple[str, str]:
    """Return the statement before and after a change."""
    if change.text:
        return change.text
    before, undo = _head(statement), change.make()
    after = _head(statement)
    undo()
    return before, after


def _text(path: str, function: str, before: str, after: str) -> str:
    return f"{path} {function} {before} {after}"


def _name(text: str, count: int) -> str:
    """Return the name of the mutant that is one of several of the same text."""
    return hashlib.sha256(f"{text} {count}".encode()).hexdigest()[:10]


def mutated(source: str, number: int) -> ast.Module:
    """Return the module's tree with one of its mutants."""
    tree = ast.parse(source)
    for each, (_, _, change) in enumerate(_changes(tree)):
        if each == number:
            change.make()
            break
    return ast.fix_missing_locations(tree)


class Change(NamedTuple):
    """How a tree is changed."""

    make: Callable[[], Undo]
    text: tuple[str, str] | None = None
    """Before and after, if the change is not within the statement."""
    of_order: bool = False
    """As of the mutant."""
    of_failure: bool = False
    """As of the mutant."""
    of_state: bool = False
    """As of the mutant."""
    swapped: tuple[ast.stmt, ast.stmt] | None = None
    without: ast.With | None = None
    """The statement whose contexts are left out."""
    context: str = ""
    """Name of the context that is left open."""


Candidate = tuple[str, ast.stmt, Change]


def _changes(tree: ast.Module, functions: Collection[str] | None = None) -> Iterator[Candidate]:
    """Yield all changes of a module, or at least those of some functions."""
    asked = list(_definitions(tree.body, "", functions))
    nodes = [node for _, each in asked for node in ast.walk(each)]
    last = {id(each) for loop in nodes if isinstance(loop, ast.For | ast.While) for each in ends_of(loop.body)}
    has_contexts = any(isinstance(node, ast.With) for node in nodes)
    locks = locks_of(tree) if has_contexts else set()
    changes = chain.from_iterable(_of_body([each], outer) for outer, each in asked)
    for function, statement, change in changes:
        is_last = isinstance(statement, ast.Continue) and id(statement) in last  # nothing follows in the loop
        if not is_last and (change.without is None or not is_lock(change.without, locks)):
            yield function, statement, change


def _definitions(body: list[ast.stmt], outer: str, functions: Collection[str] | None) -> Iterator[tuple[str, ast.stmt]]:
    """Yield functions and classes, each with the name around it: all of a module, or those that are asked for."""
    for each in body:
        if isinstance(each, ast.FunctionDef | ast.ClassDef):
            name = f"{outer}.{each.name}".lstrip(".")
            if functions is None or name in functions:
                yield outer, each
            elif any(one.startswith(f"{name}.") for one in functions):
                yield from (
                    _definitions(each.body, name, functions) if isinstance(each, ast.ClassDef) else [(outer, each)]
                )


def _of_body(body: list[ast.stmt], function: str) -> Iterator[Candidate]:
    for index, statement in enumerate(body):
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield from _of_body(statement.body, f"{function}.{statement.name}".lstrip("."))
        elif function and not isinstance(statement, ast.Import | ast.ImportFrom | ast.Raise | ast.Pass):
            yield from _of_statement(body, index, statement, function)


def _of_statement(body: list[ast.stmt], index: int, statement: ast.stmt, function: str) -> Iterator[Candidate]:
    if is_silent(statement):
        return
    is_unset = _is_unset(statement) and not function.endswith("__init__")
    if _can_go(statement):
        gone = ast.copy_location(ast.Pass(), statement)
        texts = _head(statement), "pass"
        yield function, statement, Change(lambda: _put(body, index, gone), texts, of_state=is_unset)
    for change in _of_expressions(statement):
        yield function, statement, change._replace(of_state=change.of_state and not is_unset)
    if isinstance(statement, ast.With):
        always = ast.copy_location(ast.If(ast.Constant(value=True), statement.body, []), statement)
        yield (
            function,
            statement,
            Change(
                lambda: _put(body, index, always), (_head(statement), _head(always)), of_order=True, without=statement
            ),
        )
    if index + 1 < len(body) and is_order_open(statement, body[index + 1]) and not function.endswith("__init__"):
        first, second = _head(statement), _head(body[index + 1])
        texts = f"{first}; {second}", f"{second}; {first}"
        yield (
            function,
            statement,
            Change(lambda: _swap(body, index), texts, of_order=True, swapped=(statement, body[index + 1])),
        )
    if not function.endswith("__init__"):
        for start, change in _moves(body, index):
            yield function, start, change
    yield from _of_clean_up(statement, function)
    for part in ("body", "orelse", "finalbody"):
        yield from _of_body(getattr(statement, part, []), function)
    for handler in getattr(statement, "handlers", []):
        raises = any(isinstance(each, ast.Raise) for each in ast.walk(handler))
        for name, each, change in _of_body(handler.body, function):
            is_gone = change.text is not None and change.text[1] == "pass"
            cleans_up = raises and is_gone and not isinstance(each, ast.AugAssign | ast.Continue)
            yield name, each, change._replace(of_failure=change.of_failure or cleans_up)
    for case in getattr(statement, "cases", []):
        yield from _of_body(case.body, function)


def _can_go(statement: ast.stmt) -> bool:
    """Return whether all names stay defined without the statement."""
    if isinstance(statement, ast.Assign):
        return all(not isinstance(target, ast.Name | ast.Tuple) for target in statement.targets)
    return isinstance(statement, ast.Expr | ast.AugAssign | ast.Delete | ast.Continue)


def _is_unset(statement: ast.stmt) -> bool:
    """Return whether it takes back what was set in an attribute."""
    match statement:
        case ast.Assign(targets=[ast.Attribute()], value=ast.Constant(value=None | False)):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name, value=ast.Attribute()))):
            return name in _REMOVALS
        case ast.Delete(targets=[ast.Subscript(value=ast.Attribute())]):
            return True
        case ast.AugAssign(target=ast.Attribute(), op=ast.Sub()):
            return True
    return False


def _of_expressions(statement: ast.stmt) -> Iterator[Change]:
    """Yield the changes of the statement itself, not of the statements in it."""
    for node in _own_nodes(statement):
        match node:
            case ast.Compare(ops=[operator]) if type(operator) in _COMPARISONS:
                yield _of_comparison(node, type(operator))
            case ast.BoolOp():
                other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
                yield _replace(node, "op", other)
            case ast.UnaryOp(op=ast.Not()):
                yield _replace(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                yield _replace(node, "op", _ARITHMETIC[type(node.op)]())
            case ast.Constant(value=bool(value)):
                yield _replace(node, "value", not value)
            case ast.Constant(value=int(value) | float(value)):
                yield _replace(node, "value", value + 1)
            case ast.IfExp():
                yield _replace(node, "test", ast.UnaryOp(ast.Not(), node.test))
            case ast.If() | ast.While() if not isinstance(node.test, ast.Compare | ast.UnaryOp):
                yield _replace(node, "test", ast.UnaryOp(ast.Not(), node.test))
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield _replace(node, "value", ast.Constant(None))
            case ast.Call():
                yield from _of_call(node, is_used=not _is_unset(statement))


def _of_comparison(node: ast.Compare, operator: type[ast.cmpop]) -> Change:
    if _is_about_descriptor(node):
        return _replace(node, "ops", [ast.Lt() if operator is ast.GtE else ast.GtE()])
    return _replace(node, "ops", [_COMPARISONS[operator]()], of_order=operator in _BOUNDS)


def _is_about_descriptor(node: ast.AST) -> bool:
    """Return whether an expression asks whether there is a descriptor: number 0 is the standard input's."""
    match node:
        case ast.Compare(
            left=ast.Name(id=name) | ast.Attribute(attr=name),
            ops=[ast.GtE() | ast.Lt()],
            comparators=[ast.Constant(value=0)],
        ):
            return name.endswith(("descriptor", "fd"))
    return False


def _of_clean_up(statement: ast.stmt, function: str) -> Iterator[Candidate]:
    """Yield a change for each clean-up after an error: it is left out then."""
    if isinstance(statement, ast.With):
        for change in _of_contexts(statement):
            yield function, statement, change
    elif isinstance(statement, ast.Try):
        yield from _of_try(statement, function)


def _of_try(statement: ast.Try, function: str) -> Iterator[Candidate]:
    if statement.finalbody and not all(map(is_silent, statement.finalbody)):
        first = statement.finalbody[0]
        only = ast.copy_location(ast.If(_NO_ERROR, statement.finalbody, []), first)
        texts = f"finally: {_head(first)}", f"without an error: {_head(first)}"
        yield function, first, Change(lambda: _set(statement, "finalbody", [only]), texts, of_failure=True)


def _of_contexts(statement: ast.With) -> Iterator[Change]:
    """Yield a change for each context that cleans up: an error leaves it open; none comes from an empty body."""
    for item in statement.items:
        context = item.context_expr
        name = _name_of(context)
        if name.endswith(_NO_CLEAN_UP) or isinstance(statement.body[0], ast.Pass):
            continue
        texts = _head(statement), f"without an error: {ast.unparse(item)}"
        change = partial(_set, item, "context_expr", _left_open("LeftOpen", context))
        named = None if isinstance(context, ast.Call) else ast.With([item], [])
        yield Change(change, texts, of_failure=True, without=named, context=name)


def _name_of(context: ast.expr) -> str:
    """Return the name of the function that makes a context, or what `closing` closes; "" for any other expression."""
    match context:
        case ast.Call(func=ast.Name("closing") | ast.Attribute(attr="closing"), args=[closed]):
            return _name_of(closed)
        case ast.Call(func=called):
            return ast.unparse(called)
    return ""


def _left_open(name: str, value: ast.expr) -> ast.Call:
    """Return the expression that wraps a value in a class of `left_open`."""
    made = ast.parse(f"__import__('tests.mutants.left_open', fromlist=['_']).{name}(0)", mode="eval").body
    assert isinstance(made, ast.Call)
    made.args = [value]
    return made


def _moves(body: list[ast.stmt], index: int) -> Iterator[tuple[ast.stmt, Change]]:
    """Yield the moves of a statement over the next call, and over the last one, past statements that call nothing, with
    the first of the statements: tests that end there notice what is moved before it.
    """
    for step in (1, -1):
        target = index + step
        while 0 <= target < len(body) and is_passable(body[index], body[target]) and not acts(body[target]):
            target += step
        if not 0 <= target < len(body) or abs(target - index) == 1:
            continue  # neighbours change places
        pair = (body[index], body[target]) if step > 0 else (body[target], body[index])
        if not is_order_open(*pair):
            continue
        moved, over = _head(body[index]), _head(body[target])
        texts = (f"{moved}; …; {over}", f"…; {over}; {moved}")
        if step < 0:
            texts = (f"{over}; …; {moved}", f"{moved}; {over}; …")
        yield pair[0], Change(partial(_move, body, index, target), texts, of_order=True, swapped=pair)


def _of_call(node: ast.Call, *, is_used: bool) -> Iterator[Change]:
    match node:
        case ast.Call(func=ast.Attribute(attr=name), args=arguments) if len(arguments) > _DEFERRED.get(name, math.inf):
            yield _replace_all(node, {"func": arguments[_DEFERRED[name]], "args": [], "keywords": []}, of_order=True)
        case ast.Call(func=ast.Attribute(ast.Name(), name) as called, args=[given, *_]) if name in _STACKED:
            context = _name_of(given)
            if context.endswith(_NO_CLEAN_UP):
                return
            texts = ast.unparse(node), f"without an error: {ast.unparse(node)}"
            left = _left_open("LeftOpenStack", called.value)
            yield Change(partial(_set, called, "value", left), texts, of_failure=True, context=context)
        case ast.Call(func=ast.Attribute(attr="pop", value=owner) as called, args=[_, _]):
            yield _replace(called, "attr", "get", of_order=True, of_state=isinstance(owner, ast.Attribute))
        case ast.Call(func=ast.Attribute(attr="pop", value=ast.Attribute()) as called, args=[_]) if is_used:
            yield _replace(called, "attr", "__getitem__", of_state=True)
        case ast.Call(func=ast.Attribute(attr=name) as called) if name in _NEIGHBOURS:
            yield _replace(called, "attr", _NEIGHBOURS[name], of_order=True)
        case ast.Call(func=ast.Name(id=name) as called) if name in _NEIGHBOURS:
            yield _replace(called, "id", _NEIGHBOURS[name], of_order=True)


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    yield statement
    waiting, left_out = list[ast.AST]([statement]), set(_open_bounds(statement))
    while waiting:
        parent = waiting.pop(0)
        for name, value in ast.iter_fields(parent):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case) or name in (
                    "annotation",
                    "returns",
                ):
                    continue
                if isinstance(child, ast.AST) and child not in left_out and not _is_unseen(parent, child):
                    yield child
                    waiting.append(child)


def _open_bounds(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the numbers that may as well be one more: where a text for people is cut off, the bytes that are read at a
    time, the yes of an option of a socket, and the least descriptor.
    """
    for node in ast.walk(statement):
        match node:
            case (
                ast.FormattedValue(value=ast.Subscript(slice=ast.Slice(lower=None, upper=ast.Constant() as number)))
                | ast.Subscript(
                    value=ast.Call(func=ast.Name(id="str" | "repr")),
                    slice=ast.Slice(lower=None, upper=ast.Constant() as number),
                )
            ):
                yield number
            case ast.Call(func=ast.Attribute(attr="setsockopt"), args=[*_, ast.Constant(value=1) as number]):
                yield number
            case ast.Call(func=ast.Attribute(attr="read" | "recv"), args=[*_, ast.Constant(value=int(size)) as number]):
                if size >= _PIECE:
                    yield number
            case ast.Compare(comparators=[number]) if _is_about_descriptor(node):
                yield number


def _is_unseen(parent: ast.AST, child: ast.AST) -> bool:
    """Return whether nobody can see a change: of an error's text, of numbers that only have to differ, by one of a
    large factor, as in a time-out in milliseconds, or of what only an interpreter for authorities looks at.
    """
    match parent, child:
        case _, ast.Call(func=called):
            return ast.unparse(called).endswith(("Error", "itertools.count"))
        case ast.BinOp(op=ast.Mult() | ast.Div() | ast.FloorDiv()), ast.Constant(value=int(value) | float(value)):
            return value >= _LARGE
        case _, ast.keyword(arg="usedforsecurity"):
            return True
    return False


def _replace(node: ast.AST, field: str, value: object, *, of_order: bool = False, of_state: bool = False) -> Change:
    def change() -> Undo:
        before = getattr(node, field)
        setattr(node, field, value)
        return lambda: setattr(node, field, before)

    return Change(change, of_order=of_order, of_state=of_state)


def _replace_all(node: ast.AST, values: dict[str, object], *, of_order: bool) -> Change:
    def change() -> Undo:
        before = {field: getattr(node, field) for field in values}
        vars(node).update(values)
        return lambda: vars(node).update(before)

    return Change(change, of_order=of_order)


def _set(node: ast.AST, field: str, value: object) -> Undo:
    return _replace(node, field, value).make()


def _move(body: list[ast.stmt], index: int, target: int) -> Undo:
    before = body[:]
    body.insert(target, body.pop(index))

    def undo() -> None:
        body[:] = before

    return undo


def _put(body: list[ast.stmt], index: int, statement: ast.stmt) -> Undo:
    before = body[index]
    body[index] = statement

    def undo() -> None:
        body[index] = before

    return undo


def _swap(body: list[ast.stmt], index: int) -> Undo:
    def swap() -> None:
        body[index], body[index + 1] = body[index + 1], body[index]

    swap()
    return swap


def _head(statement: ast.stmt) -> str:
    """Return the statement as text; of a compound statement the first line."""
    head = copy.copy(statement)
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        if getattr(head, part, []):
            setattr(head, part, [])
    head.lineno = 0  # wanted for comments with types
    return ast.unparse(head).partition("\n")[0]
