"""Operations that fail at each of their calls in turn, and what they leave then.

    def make(failing: Failing) -> Attempt:
        server = Server(failing.calls_of(Disk()))
        return Attempt(server.start, (server,))

    assert fail_at_each_call(make) > 3

The doubles of an operation are wrapped; its n-th call raises, for n = 1, 2, ... until it passes. After a failure, also
one that the operation handles, the process has the descriptors and threads that it had before; after one that it
passes on, no container that the operation's owners keep is larger either, and it is tried again, and passes. Mounts and
files, which others change, too, are told by `left`.
"""

import errno
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NamedTuple

import msgspec

from beehive.alarms import Alarms
from beehive.module_timers import ModuleTimers
from tests.support.collector import without_collections
from tests.support.descriptors import open_descriptors

_PRODUCT: Final = ("beehive.", "edged.", "edgehub.", "metamanager.", "modules.", "tests.")
_LEVELS: Final = 6
"""Levels of objects below an owner that are looked at."""
_MOST: Final = 500
"""Calls of an operation."""
_REPETITIONS: Final = 3
_STEPS: Final = frozenset(
    {
        "fcntl.flock", "open", "os.chmod", "os.chown", "os.link", "os.listdir", "os.mkdir", "os.remove", "os.rename",
        "os.rmdir", "os.scandir", "os.symlink", "os.truncate", "socket.bind", "socket.connect", "subprocess.Popen",
    }
)  # fmt: skip
"""The audit events of calls of the kernel that may fail; Python announces them before."""


_KERNEL: Final = frozenset({"_io", "_posixsubprocess", "_signal", "_socket", "_ssl", "fcntl", "io", "posix", "select"})
"""Modules of C whose functions, and the methods of whose objects, ask the kernel for something."""
_CANNOT_FAIL: Final = frozenset(
    {
        "__enter__", "__exit__", "_path_normpath", "close", "detach", "fileno", "fspath", "fstat", "getdefaulttimeout",
        "getpid", "gettimeout", "getvalue", "kill", "register", "set_blocking", "set_inheritable", "setblocking",
        "settimeout", "shutdown", "unregister", "waitpid",
    }
)  # fmt: skip
"""Their functions that release something, or cannot fail."""
_THREAD_STARTERS: Final = frozenset({"start_joinable_thread", "start_new_thread"})
"""Python's functions that start a thread, since 3.13 and before."""
_SOCKETS: Final = frozenset({"_io", "_socket", "select", "socket", "ssl"})
"""Modules of objects with methods that ask the kernel for something."""


class PlannedError(OSError):
    """The failure of a call."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, os.strerror(errno.EIO))


class Failing:
    """Lets one call fail.

    Args:
        at: how many calls pass before; None: all.
        error: is raised.
    """

    def __init__(self, at: int | None, error: BaseException | None = None) -> None:
        self._left = at
        self._error = PlannedError() if error is None else error
        self.has_failed = False

    def step(self) -> None:
        """Raise if this is the call that fails."""
        if self._left is None:
            return
        self._left -= 1
        if self._left < 0:
            self._left, self.has_failed = None, True
            raise self._error.with_traceback(None)  # one of a module would keep the frames of every test

    def forget(self) -> None:
        """Let go of the frames that the error has passed, and of what these hold open."""
        self._error.__traceback__ = self._error.__context__ = None

    def calls_of(self, double: Any, *names: str) -> Any:
        """Return a double whose calls count.

        Args:
            double: any object.
            names: the methods that count; none: all.
        """
        return _Calls(self, double, frozenset(names))

    def call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose call counts."""

        def called(*args: Any, **kwargs: Any) -> Any:
            self.step()
            return function(*args, **kwargs)

        return called

    @contextmanager
    def steps_of_files(self) -> Iterator[None]:
        """Count what this thread asks of the kernel about files, sockets and processes within the block."""
        if not _installed:
            sys.addaudithook(_hook)
            _installed.append(_hook)
        _counting[threading.get_ident()] = self
        try:
            yield
        finally:
            del _counting[threading.get_ident()]

    @contextmanager
    def kernel_calls(self) -> Iterator[None]:
        """Count all calls of this thread within the block that may fail in the kernel, also of open descriptors."""

        def profile(_frame: FrameType, event: str, called: Any) -> None:
            if event != "c_call" or called.__name__ in _CANNOT_FAIL:
                return
            if (
                called.__name__ in _THREAD_STARTERS
                or called.__module__ in _KERNEL
                or type(getattr(called, "__self__", None)).__module__ in _SOCKETS
            ):
                self.step()

        before = sys.getprofile()
        with without_collections():
            sys.setprofile(profile)
            try:
                yield
            finally:
                sys.setprofile(before)

    def in_kernel(self, operation: Callable[[], object]) -> Callable[[], None]:
        """Return an operation within `kernel_calls`."""

        def run() -> None:
            with self.kernel_calls():
                operation()

        return run


class _Calls:
    def __init__(self, failing: Failing, double: Any, names: frozenset[str]) -> None:
        self._failing = failing
        self._double = double
        self._names = names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._double, name)
        if not callable(found) or (self._names and name not in self._names):
            return found
        return self._failing.call(found)


_counting: dict[int, Failing] = {}
_installed: list[Callable[..., None]] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _STEPS or not _counting:
        return
    is_opened = event == "open" and isinstance(arguments[0], int)  # a descriptor gets a file object
    if not is_opened:
        failing = _counting.get(threading.get_ident())
        if failing is not None:
            failing.step()


class Census(NamedTuple):
    """What a process and some objects have."""

    descriptors: Set[tuple[int, str]]
    threads: Set[str]
    sizes: Mapping[str, int]

    def more_than(self, before: "Census") -> list[str]:
        """Return in words what there is beyond an earlier census."""
        found = [f"open: {target}" for _, target in sorted(self.descriptors - before.descriptors)]
        found += [f"thread {name}" for name in sorted(self.threads - before.threads)]
        return found + [
            f"{name} has {size} in place of {before.sizes.get(name, 0)}"
            for name, size in self.sizes.items()
            if size > before.sizes.get(name, 0)
        ]


def census(owners: Iterable[Any] = ()) -> Census:
    """Take a census of this process and of all containers that some objects reach through objects of the product."""
    threads = {f"{each.name} {each.ident}" for each in threading.enumerate()}
    sizes: dict[str, int] = {}
    seen = set[int]()
    for number, owner in enumerate(owners):
        _measure(f"{number}:{type(owner).__name__}", owner, sizes, seen, _LEVELS)
    return Census(open_descriptors(), threads, sizes)


def left_by_repeating(cycle: Callable[[], object], *owners: Any) -> list[str]:
    """Repeat what leaves nothing; return in words what its repetitions have left, beyond what the first one has made.

    Args:
        cycle: begins and ends something, with other names each time if those are kept.
        owners: who keeps books of it.
    """
    cycle()
    before = census(owners)
    for _ in range(_REPETITIONS):
        cycle()
    return census(owners).more_than(before)


def _measure(path: str, thing: Any, sizes: dict[str, int], seen: set[int], levels: int) -> None:
    if id(thing) in seen or not levels:
        return
    seen.add(id(thing))
    if isinstance(thing, dict | list | set | deque):
        sizes[path] = len(thing)
        named = thing.items() if isinstance(thing, dict) else enumerate(list(thing))
        for name, value in list(named)[:100]:
            if not isinstance(value, str | bytes | int):
                _measure(f"{path}[{name!s:.40}]", value, sizes, seen, levels - 1)
    elif isinstance(thing, ModuleTimers):  # those that are over are swept from time to time
        sizes[path] = sum(each.active for each in thing._timers)
    elif isinstance(thing, Alarms):
        sizes[path] = sum(alarm.function is not None for *_, alarm in thing._heap)
    elif type(thing).__module__.startswith(_PRODUCT):
        for name, value in _members(thing):
            _measure(f"{path}.{name}", value, sizes, seen, levels - 1)


def _members(thing: Any) -> list[tuple[str, Any]]:
    if isinstance(thing, msgspec.Struct):
        return [(name, getattr(thing, name)) for name in thing.__struct_fields__]
    if isinstance(thing, tuple):
        return [(str(number), value) for number, value in enumerate(thing)]
    return list(vars(thing).items()) if hasattr(thing, "__dict__") else []


class Attempt(NamedTuple):
    """An operation, and who keeps books of it."""

    operation: Callable[[], object]
    owners: tuple[Any, ...] = ()
    left: Callable[[], object] = lambda: None
    """Returns further things that a failure may not change."""
    undo: Callable[[], object] = lambda: None
    """Called when the operation has passed."""
    is_repeatable: bool = True
    """Whether the same objects can try it again after a failure."""


def _passes(attempt: Attempt, failing: Failing) -> bool:
    """Return whether an operation passes, perhaps in spite of a failure."""
    try:
        attempt.operation()
    except BaseException:
        if not failing.has_failed:
            raise
        return False
    return True


def fail_at_each_call(make: Callable[[Failing], Attempt], error: BaseException | None = None) -> int:
    """Let an operation fail at each of its calls in turn, check that it leaves nothing, and try it again. Return the
    number of calls of an operation that passes.

    Args:
        make: makes the objects, with doubles whose calls count.
        error: is raised by the call; None: a `PlannedError`, which callers expect, and then an error of another class.

    Raises:
        AssertionError: something is left.
    """
    if error is None:
        _fail_at_each_call(make, MemoryError("of this test"))
    return _fail_at_each_call(make, error)


def fail_at_each_kernel_call(operation: Callable[[], object]) -> int:
    """Let an operation that leaves nothing fail at each of its calls of the kernel; return how many there are."""
    return fail_at_each_call(lambda failing: Attempt(failing.in_kernel(operation)))


def _fail_at_each_call(make: Callable[[Failing], Attempt], error: BaseException | None) -> int:
    for at in range(_MOST):
        failing = Failing(at, error)
        attempt = make(failing)
        before, left = census(attempt.owners), attempt.left()
        if _passes(attempt, failing):
            attempt.undo()
            if not failing.has_failed:
                return at
            failing.forget()
            more = census().more_than(before)
            assert not more, f"in spite of a failure of call {at + 1} it passed, and left: {'; '.join(more)}"
            continue
        failing.forget()
        more = census(attempt.owners).more_than(before)
        assert not more, f"after a failure of call {at + 1} there is left: {'; '.join(more)}"
        assert attempt.left() == left, f"after a failure of call {at + 1}"
        if attempt.is_repeatable:
            attempt.operation()
            attempt.undo()
    raise AssertionError(f"the operation has more than {_MOST} calls")
