"""Strategic merge patches by kubectl's own library, which is kube-apiserver's, too: `kubectl patch --local`."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.modules.cloud.apiserver.fields.patches.drawing import Drawn
from tests.support.patience import PATIENCE

KUBECTL = shutil.which("kubectl")


def patched(case: Drawn, directory: Path) -> dict[str, Any] | None:
    """Return the object after kubectl's patch; None if kubectl refuses it."""
    file = directory / "object.json"
    file.write_text(json.dumps(case.original))
    words = ["patch", "--local", "-f", str(file), "--type", "strategic", "-p", json.dumps(case.patch), "-o", "json"]
    done = subprocess.run([KUBECTL or "kubectl", *words], capture_output=True, check=False, timeout=PATIENCE)
    return decoded(json.loads(done.stdout)) if not done.returncode else None


def decoded(value: Any) -> Any:
    """Return a result as an API server's decoder leaves it: without null members and directives."""
    if isinstance(value, dict):
        return {key: decoded(member) for key, member in value.items() if member is not None and not key.startswith("$")}
    return [decoded(each) for each in value] if isinstance(value, list) else value
