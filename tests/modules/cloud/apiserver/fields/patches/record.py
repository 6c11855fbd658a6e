"""Records kubectl's results of drawn patches: `python -m tests.modules.cloud.apiserver.fields.patches.record`.

It needs a kubectl of Kubernetes 1.32 on the PATH, and no cluster.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.modules.cloud.apiserver.fields.patches.answers import CASES, Answer, write
from tests.modules.cloud.apiserver.fields.patches.drawing import drawn
from tests.modules.cloud.apiserver.fields.patches.kubectl import KUBECTL, patched


def main() -> int:
    """Record the results."""
    if KUBECTL is None:
        sys.stderr.write("kubectl is not installed\n")
        return 1
    with TemporaryDirectory() as directory:
        write(Answer(case, patched(case, Path(directory))) for case in map(drawn, range(CASES)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
