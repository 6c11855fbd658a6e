"""The calls that the client of a killed OCI runtime makes."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

from protos.cri.v1 import api_pb2 as cri
from tests.chaos.oci_model import Call, Known
from tests.chaos.oci_node import OWN, KilledOciNode, Shape
from tests.chaos.oci_sessions import EchoServer, talk_to_command, talk_to_container, talk_to_port
from tests.modules.runtimes.oci.images.registry import TestRegistry
from tests.modules.runtimes.oci.images.tars import file, tar

ECHOES, HAS_VOLUME = "echoes", "volume"
"""Labels of containers."""
_SCRIPT: Final = "echo run; exec sleep 100000"
_ECHO: Final = "echo run; exec cat"
_OWN: Final = cri.ImageSpec(image=OWN)
_TAGS: Final = ("1", "2", "3")
_LAYER_BYTES: Final = 300_000


class Peers:
    """A port that echoes, and a registry whose images share a layer: for sessions and pulls. A context manager."""

    def __init__(self) -> None:
        self.echo = EchoServer()
        self._registry = TestRegistry()
        draw = random.Random("layers")  # noqa: S311 - reproducible on purpose
        common, *others = [tar(file(f"file-{each}", draw.randbytes(_LAYER_BYTES))) for each in ("", *_TAGS)]
        for tag, layer in zip(_TAGS, others, strict=True):
            self._registry.add([common, layer], tag)
        self.images = tuple(f"{self._registry.address}/team/app:{tag}" for tag in _TAGS)

    def __enter__(self) -> "Peers":
        self.echo.__enter__()
        self._registry.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._registry.__exit__()
        self.echo.__exit__()


class Client:
    """Makes calls with details drawn at random.

    Args:
        node: with the runtime.
        draw: the details.
        peers: for sessions and pulls.
        network: whether some pods have a network of their own.
    """

    def __init__(self, node: KilledOciNode, draw: random.Random, peers: Peers, *, network: bool) -> None:
        self._node = node
        self._draw = draw
        self._peers = peers
        self._network = network
        handlers = node.cri.Status(cri.StatusRequest()).runtime_handlers
        self._has_users = any(each.features.user_namespaces for each in handlers)
        self._number = 0
        self.asked: dict[str, Shape] = {}
        """The sandboxes that were asked for, by name."""
        self.known = Known({}, {})
        """What is there now."""
        self.has_own = False
        """Whether the image that can be removed is there now."""

    def targets_of_images(self, kind: str) -> list[str]:
        """The images that a call can be about."""
        if kind == "pull":
            return list(self._peers.images)
        return [OWN, *sorted(self.known.pulled)] if kind == "remove image" else [OWN]

    def perform(self, call: Call, number: int) -> None:
        """Make a call; `number` names what it makes. Raises grpc.RpcError and CutOffError."""
        self._number = number
        performers: dict[str, Callable[[str], object]] = {
            "run pod": lambda _: self._run_pod(),
            "create": self._create,
            "start": self._node.start,
            "exec": lambda target: self._node.execute(target, "sleep", self._draw.choice(("0", "0.02"))),
            "update": self._update,
            "reopen": self._reopen,
            "stop": lambda target: self._node.stop(target, 0),
            "remove": lambda target: self._node.cri.RemoveContainer(cri.RemoveContainerRequest(container_id=target)),
            "stop pod": lambda target: self._node.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=target)),
            "remove pod": lambda target: self._node.cri.RemovePodSandbox(
                cri.RemovePodSandboxRequest(pod_sandbox_id=target)
            ),
            "pull": lambda target: self._node.images.PullImage(cri.PullImageRequest(image=cri.ImageSpec(image=target))),
            "remove image": lambda target: self._node.images.RemoveImage(
                cri.RemoveImageRequest(image=cri.ImageSpec(image=target))
            ),
            "want image": lambda _: self._node.images.ImageStatus(cri.ImageStatusRequest(image=_OWN)),
            "exec session": self._talk_to_command,
            "attach session": self._talk_to_container,
            "port session": self._talk_to_port,
        }
        performers[call.kind](call.target)

    def _run_pod(self) -> None:
        name = f"pod-{self._number}"
        own_network = self._network and self._draw.random() < 0.5
        shape = Shape(
            own_network,
            shares_processes=self._draw.random() < 0.3,
            own_users=self._node.maps_users or (own_network and self._has_users and self._draw.random() < 0.4),
            host_port=self._node.free_port(self._number) if own_network and self._draw.random() < 0.4 else 0,
        )
        self.asked[name] = self._node.shape = shape
        self._node.pod(name)

    def _create(self, target: str) -> None:
        self._node.shape = self.known.pods[target].shape
        name = f"box-{self._number}"
        config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name=name), log_path=f"{name}.log")
        if self.has_own and self._draw.random() < 0.3:
            config.image.CopyFrom(_OWN)
        volumes = [*([OWN] if self.has_own else []), *sorted(self.known.pulled)]
        if volumes and self._draw.random() < 0.3:
            config.mounts.add(container_path="/volume", readonly=True).image.image = self._draw.choice(volumes)
            config.labels[HAS_VOLUME] = "yes"
        if self._draw.random() < 0.4:
            config.stdin = True
            config.labels[ECHOES] = "yes"
        self._node.create(["sh", "-c", _ECHO if config.stdin else _SCRIPT], config, target)

    def _update(self, target: str) -> None:
        request = cri.UpdateContainerResourcesRequest(container_id=target)
        request.linux.cpu_shares = self._draw.randint(2, 2000)
        self._node.cri.UpdateContainerResources(request)

    def _reopen(self, target: str) -> None:
        log = Path(self._node.status(target).log_path)
        if log.exists():  # it is not there if an earlier attempt was cut off
            log.rename(log.with_name(f"{log.name}.{self._number}"))
        self._node.cri.ReopenContainerLog(cri.ReopenContainerLogRequest(container_id=target))

    def _talk_to_command(self, target: str) -> None:
        ends = self._draw.random() < 0.5
        script = "cat" if ends else "head -n 1; exec sleep 100000"  # the runtime kills it when the client has gone
        request = cri.ExecRequest(container_id=target, cmd=("sh", "-c", script), stdin=True, stdout=True)
        talk_to_command(self._node.cri.Exec(request).url, to_the_end=ends)

    def _talk_to_container(self, target: str) -> None:
        request = cri.AttachRequest(container_id=target, stdin=True, stdout=True)
        talk_to_container(self._node.cri.Attach(request).url)

    def _talk_to_port(self, target: str) -> None:
        port = self._peers.echo.port
        request = cri.PortForwardRequest(pod_sandbox_id=target, port=[port])
        talk_to_port(self._node.cri.PortForward(request).url, port)
