"""A container runtime in memory, for tests of edged alone: the same contract as a real one, time from the clock.

Containers run until the test ends them (`end`), are stopped (`obeys` says after how long they heed the stop signal), or
have a command that says so itself: `["exit", "3"]` ends at once with that code. Calls can be made to fail once or more
(`fail`), before or after they took effect, and to take time (`latency`) on both sides of their effect. What happens is
told in a stream of events, unless there is to be none (`serves_events`), until it is cut (`cut_events`). The contract's
tests run over it as over containerd.
"""

from edged.testing.runtime import FakeRuntime

__all__ = ["FakeRuntime"]
