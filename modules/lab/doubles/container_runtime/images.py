"""The images of the fake runtime, which are only names."""

from collections.abc import Sequence

import grpc

from edged.cri.contract import ImageRef
from edged.cri.errors import RefusedError
from modules.lab.doubles.container_runtime.core import FakeCore, call
from protos.cri.v1 import api_pb2 as pb


class FakeImages(FakeCore):
    """The methods on images."""

    @call
    def image_status(self, image: pb.ImageSpec) -> pb.Image | None:
        name = image.image.removeprefix("sha256:")
        if name not in self._images:
            return None
        size = self.image_sizes.get(name, 0)
        return pb.Image(id=f"sha256:{name}", repo_tags=[name], spec=image, size=size)

    @call
    def pull_image(
        self,
        image: pb.ImageSpec,
        auth: pb.AuthConfig | None = None,
        sandbox_config: pb.PodSandboxConfig | None = None,  # noqa: ARG002
    ) -> ImageRef:
        if self.pull_seconds:
            self._pause(self.pull_seconds)
        wanted = self.locked.get(image.image)
        if wanted is not None and (auth is None or (auth.username, auth.password) != wanted):
            raise RefusedError("PullImage", image.image, grpc.StatusCode.PERMISSION_DENIED, "authorization failed")
        self._images.add(image.image)
        return ImageRef(f"sha256:{image.image}")

    @call
    def list_images(self, image_filter: pb.ImageFilter | None = None) -> Sequence[pb.Image]:
        name = image_filter.image.image if image_filter is not None else ""
        return [
            pb.Image(id=f"sha256:{image}", repo_tags=[image], size=self.image_sizes.get(image, 0))
            for image in sorted(self._images)
            if name in ("", image)
        ]

    @call
    def remove_image(self, image: pb.ImageSpec) -> None:
        self._images.discard(image.image.removeprefix("sha256:"))

    @call
    def image_fs_info(self) -> Sequence[pb.FilesystemUsage]:
        if not self.images_directory:
            return []
        return [pb.FilesystemUsage(fs_id=pb.FilesystemIdentifier(mountpoint=self.images_directory))]
