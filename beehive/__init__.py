"""beehive: the message bus between modules, which are actors.

It carries KubeEdge's message model: messages, resource strings, and the names of operations, resource types, modules
and groups (`beehive.names`), as KubeEdge's own `beehive/pkg/core/model` does. It knows no Kubernetes API type: a pod in
a message is bytes to it.

Start reading at `message`, `module` and `hive`. `beehive.testing` runs one module alone in virtual time,
`beehive.simulation` is the second runtime, `beehive.metrics` the Prometheus tap, `beehive.trace` records what happens,
and `beehive.files` writes files durably and walks trees of other programs.

Import a name that this file imports from `beehive`, and every other name from its submodule. The submodules named above
are not imported by this one, so a process loads only the ones it uses.
"""

from beehive.actor import Actor
from beehive.clock import Clock, RealClock, Timer
from beehive.codec import decode, encode
from beehive.context import ModuleContext
from beehive.delivery import DeliveryMode, DeliveryRecord, DropReason, Outcome, OverflowPolicy, Tap
from beehive.errors import BeehiveError, ContentError, FrameError, RequestError, RequestTimeoutError, ResourceError
from beehive.handlers import handles
from beehive.hive import Hive
from beehive.message import Header, Message, Route
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation, ResourceType, Source
from beehive.resource import Form, Resource, Side
from beehive.runtime import Runtime, Threads
from beehive.slot import Readiness, State

__all__ = [
    "Actor",
    "BeehiveError",
    "Clock",
    "ContentError",
    "DeliveryMode",
    "DeliveryRecord",
    "DropReason",
    "Form",
    "FrameError",
    "Group",
    "Header",
    "Hive",
    "Message",
    "Module",
    "ModuleContext",
    "ModuleName",
    "Operation",
    "Outcome",
    "OverflowPolicy",
    "Readiness",
    "RealClock",
    "RequestError",
    "RequestTimeoutError",
    "Resource",
    "ResourceError",
    "ResourceType",
    "Route",
    "Runtime",
    "Side",
    "Source",
    "State",
    "Tap",
    "Threads",
    "Timer",
    "decode",
    "encode",
    "handles",
]
