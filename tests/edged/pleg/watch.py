"""A PLEG over a runtime in memory, for tests of what it tells."""

from beehive.runtime import RunningActor
from beehive.simulation import Simulation
from edged.cri.contract import ContainerId, SandboxId
from edged.pleg.hints import Hints
from edged.pleg.listener import Listener
from edged.pleg.messages import PlegEvent, PodInspection, Relisted, RelistFailed
from edged.pleg.pace import RelistPace
from edged.pleg.pleg import Pleg
from edged.pleg.reader import RuntimeReader
from edged.pods import labels
from edged.pods.model import PodRef, PodUid
from modules.lab.doubles.container_runtime import FakeRuntime
from protos.cri.v1 import api_pb2 as pb
from tests.edged.posted import Posted

IMAGE = "busybox"
OWNER = "me"


def ref(name: str) -> PodRef:
    """A pod of that name."""
    return PodRef(PodUid(f"uid-{name}"), "default", name)


class Watch:
    """A PLEG over a runtime in memory, looking every second."""

    def __init__(self, kind: type[Pleg] = Pleg) -> None:
        self.simulation = Simulation(1)
        self.runtime = FakeRuntime(self.simulation, [IMAGE])
        self.reader = RuntimeReader(self.runtime)
        self.events = Posted[PlegEvent]()
        self.hints = Hints(1.0)
        self.pleg: RunningActor[Pleg] = self.simulation.start(
            kind, self.reader, self.events, RelistPace(1.0, 10.0), self.hints
        )

    def sandbox(self, name: str) -> tuple[SandboxId, pb.PodSandboxConfig]:
        """A pod without containers."""
        marks = {labels.POD_UID: f"uid-{name}", labels.POD_NAMESPACE: "default", labels.POD_NAME: name}
        config = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name=name, uid=f"uid-{name}"), labels=marks)
        config.annotations[labels.OWNER] = OWNER
        return self.runtime.run_pod_sandbox(config), config

    def pod(self, name: str) -> tuple[SandboxId, ContainerId]:
        """A pod with one running container."""
        sandbox, config = self.sandbox(name)
        made = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name="main"), image=pb.ImageSpec(image=IMAGE), labels=config.labels
        )
        container = self.runtime.create_container(sandbox, made, config)
        self.runtime.start_container(container)
        return sandbox, container

    def look(self, seconds: float = 1.0) -> list[str]:
        """Names of the pods that were reported in that time, in order."""
        self.events.clear()
        self.simulation.run_for(seconds)
        relists = [event for event in self.events if isinstance(event, Relisted)]
        return [seen.facts.ref.name for relist in relists for seen in relist.changed]

    def failures(self) -> int:
        """How many relists failed, or failed for one pod."""
        return sum(isinstance(event, RelistFailed) for event in self.events)

    def listen(self) -> None:
        """Let the PLEG have the runtime's events too."""
        self.listener = self.simulation.start(Listener, self.runtime, self.hints, self.pleg.ref)

    def looked(self, seconds: float) -> list[str]:
        """Names of the pods that were reported in that time because of events, in order."""
        self.events.clear()
        self.simulation.run_for(seconds)
        return [event.facts.ref.name for event in self.events if isinstance(event, PodInspection)]

    def stop(self) -> None:
        """End all of it."""
        self.runtime.close()
        self.pleg.stop(5)
