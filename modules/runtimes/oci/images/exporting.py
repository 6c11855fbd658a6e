"""Export of images, beside the runtime that uses the store: nothing of the store is changed."""

from pathlib import Path
from typing import Final

from modules.runtimes.oci.images.errors import NoSuchObjectError
from modules.runtimes.oci.images.index import ImageIndex
from modules.runtimes.oci.images.worker.store_layout import StoreLayout
from modules.runtimes.oci.images.worker_process import WorkerProcess

_SHOWN: Final = 200
"""Characters of a name in an error."""


def export_image(store: Path, name_or_id: str, path: Path) -> None:
    """Write an image to a file, as an OCI layout in a tar that `docker load` reads, too.

    Args:
        store: the store's directory.
        name_or_id: a name, an id or the beginning of one.
        path: of the file, which appears when it is whole.

    Raises:
        RequestRefusedError: there is no such image, the store has not kept its layers as they came, or its index cannot
            be read.
    """
    layout = StoreLayout(store)
    image = ImageIndex(layout.index, is_owner=False).find(name_or_id)
    if image is None:
        hint = "`edgecore images list` shows all"
        raise NoSuchObjectError(f"export {name_or_id[:_SHOWN]!r}", "it is not in the store", hint)
    request = {
        "operation": "export",
        "root": str(layout.root.absolute()),
        "archive": str(path.absolute()),
        "id": image.id,
        "repo_tags": list(image.repo_tags),
        "documents": list(image.documents),
    }
    WorkerProcess(f'export {name_or_id[:_SHOWN]!r} to "{path}"', lambda _: None).run(request)
