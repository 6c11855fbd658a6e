"""Reads the request of edgecore and does it."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beehive.files.removal import remove_tree
from modules.runtimes.oci.images.worker.conversation import Conversation
from modules.runtimes.oci.images.worker.errors import MACHINE, ImageWorkError, invalid
from modules.runtimes.oci.images.worker.store_layout import StoreLayout
from modules.runtimes.shim import kernel


def serve() -> None:
    """Do one request; the process ends when the thread of edgecore that waits for it does."""
    kernel.die_with_peer(sys.stdin.fileno())
    os.umask(0o077)
    conversation = Conversation(sys.stdin.buffer, sys.stdout.buffer)
    try:
        _do(conversation.request(), conversation)
    except (EOFError, BrokenPipeError):
        os._exit(1)
    except ImageWorkError as error:
        conversation.fail(error)
    except MemoryError:
        conversation.fail(invalid("the image takes too much memory"))
    except OSError as error:
        where = f' "{error.filename}"' if isinstance(error.filename, str) else ""
        conversation.fail(ImageWorkError(MACHINE, f"{error.strerror or error}{where}"))
    except Exception as error:  # noqa: BLE001 - a defect is told, for nobody reads this process' standard error
        conversation.fail(ImageWorkError(MACHINE, f"unexpected {type(error).__name__}: {error}"))


def _do(request: Mapping[str, Any], conversation: Conversation) -> None:
    layout = StoreLayout(Path(request["root"]))
    if request["operation"] == "pull":
        from modules.runtimes.oci.images.worker.pulling import pull  # noqa: PLC0415 - each request imports what it needs

        pull(request, conversation)
    elif request["operation"] == "import":
        from modules.runtimes.oci.images.worker.importing import import_archive  # noqa: PLC0415

        import_archive(Path(request["archive"]), layout, request, conversation)
    elif request["operation"] == "export":
        from modules.runtimes.oci.images.worker.exporting import export_image  # noqa: PLC0415

        export_image(request, layout, conversation)
    else:
        for path in list(layout.trash.iterdir()):
            remove_tree(path)
        conversation.finish([])
