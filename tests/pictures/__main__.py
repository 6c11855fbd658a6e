"""`python -m tests.pictures DIRECTORY`, which `make pictures` calls."""

import shutil
import sys
import tempfile
from pathlib import Path

from tests.pictures.demo_node import demo_node
from tests.pictures.making import docs_site, fleet_pages, no_site, top_live, trace_page
from tests.support.browser import why_none


def main() -> int:
    """Make all pictures that this machine can make."""
    target = Path(sys.argv[1])
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pictures-") as scratch:
        directory = Path(scratch)
        with demo_node() as node:
            made = top_live(node, directory)
            made += [] if why_none() else trace_page(node, directory)
        made += [] if why_none() else fleet_pages(directory)
        missing = why_none() or no_site()
        made += [] if missing else docs_site(directory)
        for path in made:
            shutil.copy(path, target / path.name)
            print(f"{target / path.name}: {path.stat().st_size / 1000:.0f} kB")  # noqa: T201
    if missing:
        print(f"pictures of pages are left out: {missing}", file=sys.stderr)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
