"""A client of a runtime under test: pods and containers made in few words, and removed with their test."""

import itertools
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc

from protos.cri.v1 import api_pb2 as cri
from tests.cri_contract.images import ContractImages
from tests.cri_contract.kinds import Kind
from tests.modules.runtimes.process.node import Stub, eventually

LOOP: Final = ("sleep", "1000")
_NUMBERS: Final = itertools.count(1)


class Ended(NamedTuple):
    """A container that has ended."""

    status: cri.ContainerStatus
    stdout: str
    stderr: str


class Client:
    """One test's pods and containers.

    Args:
        kind: the runtime under test.
        images: the images of the contract.
        directory: for logs.
        channel: to the runtime.
    """

    def __init__(self, kind: Kind, images: ContractImages, directory: Path, channel: grpc.Channel) -> None:
        self.kind = kind
        self.images = images
        self.directory = directory
        self.runtime = Stub(channel)
        self.image_service = Stub(channel, "ImageService")
        self._pods: dict[str, cri.PodSandboxConfig] = {}

    # pods

    def pod_config(self, *, network: bool = False, **fields: Any) -> cri.PodSandboxConfig:
        """The configuration of a new pod; on the machine's network unless it is to have its own."""
        number = next(_NUMBERS)
        config = cri.PodSandboxConfig(
            metadata=cri.PodSandboxMetadata(name=f"pod-{number}", uid=f"uid-{number}", namespace="contract", attempt=2),
            log_directory=str(self.directory / f"pod-{number}"),
            labels={"contract": f"{number}"},
            annotations={"kept": "as it is"},
        )
        if self.kind.cgroup_parent:
            config.linux.cgroup_parent = self.kind.cgroup_parent
        options = config.linux.security_context.namespace_options
        options.network, options.pid = cri.POD if network else cri.NODE, cri.CONTAINER
        config.MergeFrom(cri.PodSandboxConfig(**fields))
        return config

    def pod(self, config: cri.PodSandboxConfig | None = None, **fields: Any) -> str:
        """A pod that runs."""
        config = config or self.pod_config(**fields)
        pod = str(self.runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id)
        self._pods[pod] = config
        return pod

    def pod_status(self, pod: str) -> cri.PodSandboxStatus:
        """The status of a pod."""
        answer: cri.PodSandboxStatusResponse = self.runtime.PodSandboxStatus(
            cri.PodSandboxStatusRequest(pod_sandbox_id=pod)
        )
        return answer.status

    def stop_pod(self, pod: str) -> None:
        """Stop a pod."""
        self.runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=pod))

    def remove_pod(self, pod: str) -> None:
        """Remove a pod."""
        self._pods.pop(pod, None)
        self.runtime.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=pod))

    def listed_pods(self) -> dict[str, cri.PodSandbox]:
        """All pods of the runtime by their ids."""
        return {each.id: each for each in self.runtime.ListPodSandbox(cri.ListPodSandboxRequest()).items}

    def remove_all(self) -> None:
        """Remove the pods of this test, except removed ones: containerd 1.6 cannot stop these."""
        listed = self.listed_pods()
        for pod in [each for each in reversed(self._pods) if each in listed]:
            self.stop_pod(pod)
            self.remove_pod(pod)

    # containers

    def create(
        self,
        *command: str,
        pod: str = "",
        image: str = "busybox",
        security: cri.LinuxContainerSecurityContext | None = None,
        **fields: Any,
    ) -> str:
        """A container that is created and not started, in a pod of its own unless one is given."""
        pod = pod or self.pod()
        number = next(_NUMBERS)
        config = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name=f"main-{number}", attempt=3),
            image=cri.ImageSpec(image=self.pulled(image)),
            command=command,
            labels={"contract": f"{number}"},
            annotations={"kept": "too"},
            log_path=f"{number}.log",
        )
        context = config.linux.security_context
        context.namespace_options.CopyFrom(self._pods[pod].linux.security_context.namespace_options)
        config.MergeFrom(cri.ContainerConfig(**fields))
        if security is not None:
            context.MergeFrom(security)
        request = cri.CreateContainerRequest(pod_sandbox_id=pod, config=config, sandbox_config=self._pods[pod])
        return str(self.runtime.CreateContainer(request).container_id)

    def start(self, *command: str, **asked: Any) -> str:
        """A container that was started."""
        container = self.create(*command, **asked)
        self.runtime.StartContainer(cri.StartContainerRequest(container_id=container))
        return container

    def run(self, script: str, **asked: Any) -> Ended:
        """A container that has run this script to its end."""
        return self.ended(self.start("sh", "-c", script, **asked))

    def ended(self, container: str) -> Ended:
        """A container once it has ended."""
        status = eventually(lambda: self.status(container), lambda seen: seen.state == cri.CONTAINER_EXITED)
        return Ended(status, self.log(container, "stdout"), self.log(container, "stderr"))

    def status(self, container: str) -> cri.ContainerStatus:
        """The status of a container."""
        answer: cri.ContainerStatusResponse = self.runtime.ContainerStatus(
            cri.ContainerStatusRequest(container_id=container)
        )
        return answer.status

    def listed(self) -> dict[str, cri.Container]:
        """All containers of the runtime by their ids."""
        return {each.id: each for each in self.runtime.ListContainers(cri.ListContainersRequest()).containers}

    def stop(self, container: str, grace_seconds: int = 0) -> None:
        """Stop a container."""
        self.runtime.StopContainer(cri.StopContainerRequest(container_id=container, timeout=grace_seconds))

    def remove(self, container: str) -> None:
        """Remove a container."""
        self.runtime.RemoveContainer(cri.RemoveContainerRequest(container_id=container))

    def execute(self, container: str, *command: str, timeout: int = 60) -> cri.ExecSyncResponse:
        """Run a command in a container."""
        request = cri.ExecSyncRequest(container_id=container, cmd=command, timeout=timeout)
        answer: cri.ExecSyncResponse = self.runtime.ExecSync(request)
        return answer

    def sees(self, container: str, *words: str) -> None:
        """Wait until all these words are in the command lines of the processes that a container sees.

        A container that was started may not be its command yet: a runtime does not wait for `execve`.
        """
        eventually(lambda: set(words) <= set(self.said(container, "cat /proc/[0-9]*/cmdline").split("\0")))

    def said(self, container: str, script: str) -> str:
        """The output of a script in a container."""
        return self.execute(container, "sh", "-c", script).stdout.decode()

    def log(self, container: str, stream: str) -> str:
        """What a container has written to a stream, by its log."""
        with suppress(FileNotFoundError):
            written = Path(self.status(container).log_path).read_text().rpartition("\n")[0]  # a line may be half there
            lines = [line.split(" ", 3) for line in written.splitlines()]
            return "".join(line[3] + ("\n" if line[2] == "F" else "") for line in lines if line[1] == stream)
        return ""

    # images

    def pulled(self, tag: str) -> str:
        """The name of an image of the contract, which is pulled if it is not there."""
        name = self.images.name(tag)
        if self.image(name) is None:
            self.pull(name)
        return name

    def pull(self, name: str, timeout: float | None = None) -> str:
        """Pull an image; return the runtime's reference."""
        request = cri.PullImageRequest(image=cri.ImageSpec(image=name))
        return str(self.image_service.PullImage(request, timeout=timeout).image_ref)

    def image(self, name: str) -> cri.Image | None:
        """The status of an image; None if it is not there."""
        answer = self.image_service.ImageStatus(cri.ImageStatusRequest(image=cri.ImageSpec(image=name)))
        return answer.image if answer.HasField("image") else None

    def remove_image(self, name: str) -> None:
        """Remove an image."""
        self.image_service.RemoveImage(cri.RemoveImageRequest(image=cri.ImageSpec(image=name)))

    def listed_images(self) -> Sequence[cri.Image]:
        """All images of the runtime."""
        found: Sequence[cri.Image] = self.image_service.ListImages(cri.ListImagesRequest()).images
        return found


def refused(call: Any, *arguments: Any) -> grpc.RpcError:
    """The error of a refused call."""
    try:
        call(*arguments)
    except grpc.RpcError as error:
        return error
    raise AssertionError("it was not refused")
