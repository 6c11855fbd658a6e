"""Each mutant is one small change, and has a name of its own."""

import ast
import re
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing, nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.mutants.commuting import commute
from tests.mutants.left_open import LeftOpenStack
from tests.mutants.operators import existing, mutants, mutated
from tests.mutants.survivors import Survivor, without_mutants

SOURCE = '''
LIMIT = 3


def larger(a: int, b: int = 1) -> bool:
    """Whether it is."""
    _log.info("%d", 1 + 1)
    if a is None:
        raise ValueError("no number", 1 + 2)
    return a > b and not b


class Counter:
    def add(self, number):
        self.total += number
        other = self.total
        return None
'''


def test_each_mutant_is_one_small_change() -> None:
    changes = {(one.function, one.before, one.after) for one in mutants("m.py", SOURCE)}
    assert changes == {
        ("larger", "if a is None:", "if a is not None:"),
        ("larger", "return a > b and (not b)", "return None"),
        ("larger", "return a > b and (not b)", "return a > b or not b"),
        ("larger", "return a > b and (not b)", "return a >= b and (not b)"),
        ("larger", "return a > b and (not b)", "return a > b and (not not b)"),
        ("Counter.add", "self.total += number", "pass"),
        ("Counter.add", "self.total += number; other = self.total", "other = self.total; self.total += number"),
    }


@pytest.mark.parametrize(
    "unseen",
    [
        "raise_(KeyError(1))",
        "itertools.count(1)",
        "left * 1000",
        "left // 1024",
        "sha1(b'', usedforsecurity=False)",
    ],
)
def test_what_nobody_can_see_stays(unseen: str) -> None:
    found = {one.after for one in mutants("m.py", f"def f(left):\n    x = {unseen}")}
    assert found <= {"x = left // 1000", "x = left * 1024"}


ORDER = """
class Sender:
    def __init__(self):
        self.names = make()
        self.found = make()

    def send(self, item):
        with self.lock:
            self.count = 1
        with transaction():
            self.store.write(item)
            self.link.send(item)
        self.timers.pop(item, None)
        line = render(item)
        self.items = [line]
        if not item:
            return
        if line:
            return

    def next(self):
        self.until = self.clock.monotonic() + max(self.least, item.wait)
        return self.items.popleft()
"""


TWICE = """
def outer(a):
    for each in a:
        a.add(each)
        a.add(each)
        a.add(each)
    if a:
        def inner(b):
            return b
    return inner
"""


def test_mutants_of_order_and_time() -> None:
    changes = {
        (one.before, one.after)
        for one in mutants("m.py", ORDER)
        if one.after not in {"pass", "return None"} and " not " not in one.after and "count" not in one.before
    }
    assert changes == {
        ("with transaction():", "if True:"),
        ("with transaction():", "without an error: transaction()"),
        ("self.store.write(item); self.link.send(item)", "self.link.send(item); self.store.write(item)"),
        ("self.timers.pop(item, None)", "self.timers.get(item, None)"),
        ("self.timers.pop(item, None); line = render(item)", "line = render(item); self.timers.pop(item, None)"),
        ("with transaction():; self.timers.pop(item, None)", "self.timers.pop(item, None); with transaction():"),
        ("with self.lock:; with transaction():", "with transaction():; with self.lock:"),
        ("return self.items.popleft()", "return self.items.pop()"),
        ("with transaction():; …; line = render(item)", "…; line = render(item); with transaction():"),
        ("with transaction():; …; line = render(item)", "line = render(item); with transaction():; …"),
        (
            "self.until = self.clock.monotonic() + max(self.least, item.wait)",
            "self.until = self.clock.now() + max(self.least, item.wait)",
        ),
        (
            "self.until = self.clock.monotonic() + max(self.least, item.wait)",
            "self.until = self.clock.monotonic() + min(self.least, item.wait)",
        ),
        (
            "self.until = self.clock.monotonic() + max(self.least, item.wait)",
            "self.until = self.clock.monotonic() - max(self.least, item.wait)",
        ),
    }


def test_a_last_continue_stays() -> None:
    source = """
def f(items):
    for each in items:
        if each.first:
            continue
        try:
            g(each)
        except KeyError:
            continue
"""
    assert [one.line for one in mutants("m.py", source) if one.before == "continue"] == [5]


def test_locks_are_held() -> None:
    """What one thread does says nothing of them; other contexts are left out."""
    source = "_making: Final = threading.Lock()\nclass A:\n    def __init__(self):\n"
    source += "        self._writing = threading.Lock()\n    def f(self):\n"
    source += "".join(f"        with {one}:\n            g()\n" for one in ("self._writing", "_making", "self._file"))
    assert [one.before for one in mutants("m.py", source) if one.after == "if True:"] == ["with self._file:"]


def test_a_condition_of_log_lines_alone_stays() -> None:
    source = "def f(reason, lines):\n    if reason:\n        _log.info(1)\n    if lines.pop():\n        _log.info(1)\n"
    assert {one.before for one in mutants("m.py", source)} == {"if lines.pop():"}


def test_a_descriptor_is_there_or_not() -> None:
    """Number 0 is the standard input's, and 1 the standard output's."""
    found = [
        one.after for one in mutants("m.py", "def f(self):\n    if self._descriptor >= 0 or self.fd < 0:\n        g()")
    ]
    assert found[:4] == [
        "if not (self._descriptor >= 0 or self.fd < 0):",
        "if self._descriptor >= 0 and self.fd < 0:",
        "if self._descriptor < 0 or self.fd < 0:",
        "if self._descriptor >= 0 or self.fd >= 0:",
    ]


def test_a_mutant_is_made_by_its_number() -> None:
    for one in mutants("m.py", SOURCE):
        text = ast.unparse(mutated(SOURCE, one.number))
        assert text != ast.unparse(ast.parse(SOURCE))
        assert all(part in text for part in one.after.split("; "))


def test_names_are_unique_and_stay_when_lines_move() -> None:
    names = [one.name for one in mutants("m.py", SOURCE)]
    assert len(set(names)) == len(names)
    assert names == [one.name for one in mutants("m.py", f"# a line\n{SOURCE}")]


def test_a_listed_survivor_is_a_mutant(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(SOURCE)
    mutant = next(one for one in mutants("m.py", SOURCE) if one.function == "Counter.add")
    listed = [
        Survivor(mutant.name, "m.py Counter.add: it adds nothing", ""),
        Survivor("0123456789", "m.py Counter.add: it adds nothing", ""),
        Survivor(mutant.name, "m.py larger: it is elsewhere", ""),
        Survivor(mutant.name, "gone.py Counter.add: its module has another name", ""),
    ]
    assert without_mutants(listed, tmp_path) == listed[1:]


def test_mutants_that_are_asked_for_are_those_of_the_whole_module() -> None:
    source = SOURCE + ORDER + TWICE
    whole = [(one.function, one.name) for one in mutants("m.py", source)]
    assert {"Counter.add", "Sender.send", "outer", "outer.inner"} <= {function for function, _ in whole}
    for one in whole:
        assert existing("m.py", source, [one, ("outer.inner", "0123456789"), ("absent", one[1])]) == {one}
    assert existing("m.py", source, whole) == set(whole)


def test_mutants_of_order_are_marked() -> None:
    """For `--order`: swapped statements, another end, clock or bound; no opposite, and no bound by one of a number."""
    order = {one.before for one in mutants("m.py", SOURCE) if one.of_order}
    assert order == {"return a > b and (not b)", "self.total += number; other = self.total"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("self.ready = None", "self.count = 0"),
        ("self.count += 1", "if self.ready:\n    _log.info('%s', self.count)\n    self.names.add('a')"),
        ("a = number(item)", "b = bound(item, 3)"),
        ("self.send(item)", "b = bound(3, 4)"),
        ("entry.unknown = isinstance(error, KeyError)", "entry.sure = bool(error)"),
        ("if item is None:\n    return", "size = bound(item, 3)"),
        ("self.send(item)", "a = remembered(3)"),
        ("LOW = auto()", "HIGH = auto()"),
        ("check(item)", "size = bound(item, 3)"),
        ("check(item)", "for each in item:\n    if not each:\n        raise ValueError"),
        ("self.names[item] = 1", "self.holders.pop(item, None)"),
        ("if text:\n    _log.info('%s', text)", "self.send(text)"),
        ("self._note(item)", "self.names.discard(item)"),
        ("self._end(item)", "self.due = item"),
        ("self.timer.cancel()", "self.due = item"),
        ("del self.entries[item]", "self.count -= 1"),
        ("self._counters.sent += 1", "for each in item:\n    self.send(each)"),
        ("self.is_due = True", "self.module.call_soon(self._tell)"),
        ("self._backoff.reset()", "self.problem = ''"),
        ("self.ranks[item] = rank", "insort(self.order, rank)"),
        ("number = int.from_bytes(item, 'big')", "try:\n    name = text.decode()\nexcept ValueError:\n    name = ''"),
        ("if item:\n    meta['kind'] = item", "if other:\n    meta['name'] = other"),
        ("meta['kind'] = item['kind'] or meta.get('name')", "item['names'].sort(key=len)"),
        ("self.write(item)", "self._module.end_turn_soon()"),
        ("self.due = item", "self._module.request(item, self._tell)"),
        ("now = self.clock.monotonic()", "self.due = item"),
        ("self.due = self.clock.now()", "if not self.timer:\n    self.timer = self.module.after(3, self._tell)"),
        ("parser.add_argument('--all', help=item)", "parser.add_argument('name')"),
        ("parser.add_argument('name')", "options(parser)"),
        ("self.is_closed = True", "self.changed.notify_all()"),
        ("self.due = item", "self._module.send(stamped(clock), self._module.message(item))"),
        ("self.due = item", "delay = backoff.next(item)"),
        ("token_command.add(commands)", "_add_unit(commands)"),
        ("context.set_ciphers(item)", "context.minimum_version = other"),
        ("self.shelf.put(item)", "self.due = item"),
        ("items.sort(key=len)", "by_name = defaultdict(list)"),
        ("poll.register(item, 1)", "now = self.clock.monotonic()"),
    ],
)
def test_statements_that_commute_are_not_swapped(first: str, second: str, own_module: str) -> None:
    one, other = ast.parse(first).body[0], ast.parse(second).body[0]
    assert commute(own_module, one, other)
    assert commute(own_module, other, one)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("self.write(item)", "self.send(item)"),
        ("self.send(item)", "self.ready = None"),
        ("self.count += 1", "other = self.count"),
        ("self.entries[item] = 1", "size = len(self.entries)"),
        ("self.lanes = self.lanes.later", "first = self.lanes.first"),
        ("entry = self.lanes[item]", "self.pop(item)"),
        ("complete(item)", "size = bound(item, 3)"),
        ("complete(item)", "keep(item)"),
        ("self.send(twice(item))", "self.count = unknown(item)"),
        ("if item is None:\n    return", "self.send(item)"),
        ("if item is None:\n    return", "self.count += 1"),
        ("with self.transaction():\n    pass", "self.send(item)"),
        ("check(item)", "self.send(item)"),
        ("check(item)", "self.count = 1"),
        ("check(item)", "if item is None:\n    return"),
        ("self.server.shutdown()", "self.thread.join()"),
        ("items.append(item)", "size = bound(items, 3)"),
        ("self._note(item)", "self._end(item)"),
        ("self._note(item)", "size = len(self.seen)"),
        ("self._tell(item)", "self.due = item"),
        ("self._fill(item)", "self.due = item"),
        ("self._end(item)", "self.send(item)"),
        ("self.timer.cancel()", "self.timer = None"),
        ("del self.entries[item]", "size = len(self.entries)"),
        ("self._counters.sent += 1", "if item is None:\n    return"),
        ("self.entries.sent += 1", "self.send(item)"),
        ("self.send(item)", "self.module.call_soon(self._tell)"),
        ("self.due = item", "self.module.after(self.due, self._tell)"),
        ("self._backoff.reset()", "wait = self._backoff.next()"),
        ("insort(self.order, item)", "first = self.order[0]"),
        ("meta['kind'] = item", "meta['kind'] = other"),
        ("meta['kind'] = item", "size = len(meta)"),
        ("meta['kind'] = item", "size = meta.get('kind', 3)"),
        ("meta['kind']['name'] = item", "size = meta['kind']"),
        ("meta['names'].sort()", "size = meta['names']"),
        ("meta.pop(item)", "size = meta['kind']"),
        ("now = self.clock.monotonic()", "self.send(item)"),
        ("now = stamped(clock)", "self.send(item)"),
        ("self.module.send(item)", "self.module.reply(item)"),
        ("if item is None:\n    return", "self.module.send(item)"),
        ("if item is None:\n    return", "self.module.end_turn_soon()"),
        ("parser.add_argument('kind')", "parser.add_argument('name')"),
        ("options(parser)", "item.add(parser)"),
        ("token_command.add(commands)", "add_help(parser, commands)"),
        ("self.shelf.put(item)", "size = len(self.shelf.items)"),
        ("self.shelf.tell(item)", "self.due = item"),
        ("self.either.put(item)", "self.due = item"),
        ("poll.register(item, 1)", "found = poll.poll()"),
    ],
)
def test_statements_whose_order_may_be_seen_are_swapped(first: str, second: str, own_module: str) -> None:
    one, other = ast.parse(first).body[0], ast.parse(second).body[0]
    assert not commute(own_module, one, other)
    assert not commute(own_module, other, one)


@pytest.fixture
def own_module(tmp_path: Path) -> str:
    """A module with functions that have no effect, and others."""
    path = tmp_path / "functions.py"
    path.write_text(FUNCTIONS)
    return str(path)


FUNCTIONS = """
def number(item):
    found = []
    found.append(item)
    return bound(len(found), 1)


def bound(value, most):
    return min(value, most)


@cache
def remembered(item):
    return len(item)


def check(item):
    if item is None:
        raise ValueError("no item")


def complete(item):
    item.setdefault("kind", "Pod")


def keep(item):
    KEPT.append(item)


def twice(item):
    return twice(item) if item else []


def stamped(clock):
    return clock.now()


def options(parser):
    parser.add_argument("--all", help="everything")


class Shelf:
    def put(self, item):
        self.items.append(item)

    def tell(self, item):
        self.send(item)


class Books:
    def __init__(self, other):
        self.shelf = Shelf()
        self.either = Shelf()
        self.either = other

    def _note(self, item):
        self.seen.add(item)
        self._end(item)

    def _end(self, item):
        entry = self.entries.pop(item, None)
        if entry is not None:
            entry.timer.cancel()

    def _tell(self, item):
        self.seen.add(item)
        self.send(item)

    def _fill(self, item):
        entry = self.entries[item]
        entry.size = 1
"""


def test_a_function_of_an_imported_module_is_known() -> None:
    told, kept = ast.parse("topic = topics.device_topic(device.id, end); self.count = 1").body
    assert commute("modules/edge/devicetwin/answers.py", told, kept)


@pytest.mark.parametrize(
    ("second", "commutes"),
    [
        ("if not name:\n    found.append(required(path))", True),
        ("non_negative(size, path, found)", True),
        ("size = len(found)", False),
        ("if found:\n    return", False),
        ("self.send(item)", False),
    ],
)
def test_nobody_minds_which_fault_is_told_first(second: str, commutes: bool) -> None:
    one, other = ast.parse("keeping('kind')(new, live, found)").body[0], ast.parse(second).body[0]
    assert commute("modules/apimachinery/validation/rules.py", one, other) is commutes
    assert commute("modules/apimachinery/validation/rules.py", other, one) is commutes
    assert not commute("modules/apimachinery/options.py", one, other)


@pytest.mark.parametrize(
    ("second", "commutes"),
    [
        ("if not spec.get('scope'):\n    yield required('spec.scope')", True),
        ("yield from _name_faults(names)", True),
        ("if not names:\n    yield required('spec.names')\n    return", False),
        ("yield self.next()", False),
    ],
)
def test_nobody_minds_which_fault_is_yielded_first(second: str, commutes: bool) -> None:
    one, other = ast.parse("yield from _option_faults(spec)").body[0], ast.parse(second).body[0]
    assert commute("modules/cloud/apiextensions/definitions.py", one, other) is commutes
    assert commute("modules/cloud/apiextensions/definitions.py", other, one) is commutes
    assert not commute("modules/apimachinery/options.py", one, other)


def test_a_number_that_may_as_well_be_one_more_stays() -> None:
    """Where a text for people is cut off, of bytes that are read at a time, and of an option; not of bytes that are
    expected.
    """
    source = """
def read(self, error):
    self.say(f"{error[:200]!r} {1 + 2}", str(error)[:200])
    self.keep(error[:200], os.read(self.file, 4096), self.socket.recv(1024), self.file.read(16))
    self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
"""
    numbers = [[set(re.findall(r"\d+", text)) for text in (one.before, one.after)] for one in mutants("m.py", source)]
    assert set[str]().union(*(after - before for before, after in numbers)) == {"3", "201", "17"}


def test_a_swap_of_what_commutes_is_no_mutant() -> None:
    source = """
def look(self, item):
    self.count += 1
    if self.count:
        _log.info("%d", self.count)
    if item:
        _log.info("an item")
    return self.count
"""
    swaps = [(one.before, one.after) for one in mutants("m.py", source) if one.of_order]
    assert swaps == []


FAILURES = """
class Store:
    def write(self, item):
        file = open_file(item)
        try:
            file.write(item)
            self.size += 1
            self.names.append(item)
            self.notify(item)
        except BaseException:
            self.forget(item)
            raise
        finally:
            file.close()
        try:
            self.check(item)
        except ValueError as error:
            self.unlock(item)
            raise StoreError from error
        except KeyError:
            self.note(item)
        self.module.call_soon(self.flush)
        self.clock.after(2.0, lambda: self.flush())
"""


def test_clean_up_is_left_out_after_an_error_only() -> None:
    """`exc_info` in a `finally` has the error that leaves its body. A handler that raises cleans up, any other may go
    on.
    """
    found = [one for one in mutants("m.py", FAILURES) if one.of_failure]
    assert [(one.before, one.after) for one in found] == [
        ("finally: file.close()", "without an error: file.close()"),
        ("self.forget(item)", "pass"),
        ("self.unlock(item)", "pass"),
    ]
    calls: list[str] = []
    for one in found[:2]:
        calls.clear()
        names: dict[str, Any] = {"open_file": lambda _: Noted(calls, "file")}
        exec(compile(mutated(FAILURES, one.number), "m.py", "exec"), names)  # noqa: S102 - a mutant is code
        store = names["Store"]()
        vars(store).update(size=0, names=[], module=Noted(calls, "module"), clock=Noted(calls, "clock"))
        for each in ("forget", "flush", "notify", "check"):
            setattr(store, each, Noted(calls, each).call)
        store.write("well")
        assert "file.close" in calls, one
        calls.clear()
        store.notify = store.missing = None
        with pytest.raises(TypeError):
            store.write("not")
        assert [each for each in calls if each in ("forget.call", "file.close")] == (
            ["file.close"] if one.after == "pass" else ["forget.call"]
        )


STATES = """
class Requests:
    def __init__(self):
        self.is_busy = False

    def ask(self, key):
        self.is_busy = True
        self.waiting[key] = self.send(key)
        self.is_busy = False
        self.later = self.waiting.pop(key)
        self.seen.discard(key)
        self.seen.pop(key, None)
        self.count -= 1
        del self.waiting[key]
        asked = self.waiting.pop(key, None)
        keys = [key]
        keys.pop(0)
        self.tell(key)
"""


def test_an_attribute_keeps_what_has_ended() -> None:
    """That it is busy, or the key of a request. Each unset is left out once, and none of a local name."""
    found = [(one.before, one.after) for one in mutants("m.py", STATES) if one.of_state]
    assert found == [
        ("self.is_busy = False", "pass"),
        ("self.later = self.waiting.pop(key)", "self.later = self.waiting.__getitem__(key)"),
        ("self.seen.discard(key)", "pass"),
        ("self.seen.pop(key, None)", "pass"),
        ("self.count -= 1", "pass"),
        ("del self.waiting[key]", "pass"),
        ("asked = self.waiting.pop(key, None)", "asked = self.waiting.get(key, None)"),
    ]


CONTEXTS = """
def run(work, calls):
    with suppress(KeyError), calls.open(), closing(calls("file")) as file, calls.lock, ExitStack() as stack:
        stack.enter_context(calls.open())
        stack.enter_context(closing(calls("inner")))
        stack.enter_context(socket.socket())
        stack.callback(calls.note, "undone")
        with calls.turn():
            pass
        work(file)
"""


def test_a_context_is_left_open_after_an_error_only() -> None:
    """A lock is not, which would hang, nor what only suppresses errors, or is closed with its last reference, as files
    and sockets are. Of an `ExitStack` each part is.
    """
    changes = [one for one in mutants("m.py", CONTEXTS) if one.of_failure]
    left = [one.after.removeprefix("without an error: ") for one in changes]
    assert left == [
        "closing(calls('file')) as file", "stack.enter_context(closing(calls('inner')))",
        "stack.callback(calls.note, 'undone')",
    ]  # fmt: skip

    class Calls:
        def __init__(self) -> None:
            self.noted: list[str] = []
            self.lock = nullcontext()
            self.open = self.turn = nullcontext

        def note(self, name: str) -> None:
            self.noted.append(name)

        def __call__(self, name: str) -> SimpleNamespace:
            return SimpleNamespace(close=lambda: self.note(name))

    def fails(_: object) -> None:
        raise ValueError("of this test")

    everything, missing = ["undone", "inner", "file"], list[list[str]]()
    for one in changes:
        names: dict[str, Any] = {"suppress": suppress, "closing": closing, "ExitStack": ExitStack, "socket": socket}
        exec(compile(mutated(CONTEXTS, one.number), "m.py", "exec"), names)  # noqa: S102 - a mutant is code
        well, ill = Calls(), Calls()
        names["run"](lambda _: None, well)
        assert well.noted == everything
        with pytest.raises(ValueError, match="of this test"):
            names["run"](fails, ill)
        missing.append([each for each in everything if each not in ill.noted])
    assert missing == [["file"], ["inner"], ["undone"]]


@pytest.mark.parametrize(
    ("context", "path", "found"),
    [
        ("closing(sqlite3.connect(path))", "metamanager/store.py", False),
        ("report_errors()", "modules/cli/m.py", False),
        ("held(changes)", "modules/processes/m.py", False),
        ("held(changes)", "modules/cloud/m.py", True),
        ("closing(transport)", "modules/processes/m.py", True),
    ],
)
def test_what_the_end_of_the_process_closes_is_left_alone(context: str, path: str, *, found: bool) -> None:
    """Such as a lock of a command; and what is closed with its last reference, or only converts an error."""
    changes = mutants(path, f"def run(path):\n    with {context}:\n        work(path)\n")
    assert any(one.of_failure for one in changes) is found


def test_other_objects_with_the_methods_of_a_stack_are_asked_themselves() -> None:
    asked = SimpleNamespace(callback=lambda *given: given, enter_context=lambda context: context)
    assert LeftOpenStack(asked).callback(print, 1) == (print, 1)
    assert LeftOpenStack(asked).enter_context(context := nullcontext()) is context


class Noted:
    """An object that notes what is called of it."""

    def __init__(self, calls: list[str], name: str) -> None:
        self._calls = calls
        self._name = name

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: self._calls.append(f"{self._name}.{name}")


def test_what_is_called_later_is_called_at_once_and_statements_move_over_calls() -> None:
    changes = {(one.before, one.after) for one in mutants("m.py", FAILURES) if one.of_order}
    assert changes >= {
        ("self.module.call_soon(self.flush)", "self.flush()"),
        ("self.clock.after(2.0, lambda: self.flush())", "(lambda: self.flush())()"),
        ("self.size += 1; …; self.notify(item)", "…; self.notify(item); self.size += 1"),
        ("file.write(item); …; self.notify(item)", "…; self.notify(item); file.write(item)"),
        ("file.write(item); …; self.names.append(item)", "self.names.append(item); file.write(item); …"),
    }
    moved = {one.after: ast.unparse(mutated(FAILURES, one.number)) for one in mutants("m.py", FAILURES)}
    lines = [line.strip() for line in moved["…; self.notify(item); self.size += 1"].splitlines()]
    assert lines.index("self.size += 1") == lines.index("self.notify(item)") + 1
    assert lines.index("self.names.append(item)") == lines.index("self.notify(item)") - 1
    first = [line.strip() for line in FAILURES.splitlines()].index("file.write(item)") + 1
    earlier = "self.names.append(item); file.write(item); …"
    assert [one.line for one in mutants("m.py", FAILURES) if one.after == earlier] == [first], "a test may end there"
