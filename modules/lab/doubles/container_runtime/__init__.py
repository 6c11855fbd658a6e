"""A container runtime in memory, for tests of edged alone: the contract of a real one, with the clock's time.

Containers run until the test ends them (`end`), until they are stopped (`obeys` sets how soon they heed the stop
signal), or until their command does: `["exit", "3"]` ends immediately with that code. Calls can be made to fail
(`fail`), before or after their effect, and to take time (`latency`) on both sides of it. Events are streamed, unless
`serves_events` is off, until `cut_events`. The contract's tests run over it as over containerd.
"""

from modules.lab.doubles.container_runtime.runtime import FakeRuntime

__all__ = ["FakeRuntime"]
