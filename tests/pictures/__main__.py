"""`python -m tests.pictures DIRECTORY`, which `make pictures` calls."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.pictures.demo_node import demo_node
from tests.pictures.making import docs_site, top_live, trace_page
from tests.support.browser import why_none

REPOSITORY = Path(__file__).parents[2]


def main() -> int:
    """Make all pictures that this machine can make."""
    target = Path(sys.argv[1])
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pictures-") as scratch:
        directory = Path(scratch)
        made = []
        with demo_node() as node:
            made += top_live(node, directory)
            if not why_none():
                made += trace_page(node, directory)
        if why_none():
            print(f"no browser, so no pictures of pages: {why_none()}", file=sys.stderr)  # noqa: T201
        elif (REPOSITORY / "mkdocs.yml").exists():
            site = directory / "site"
            command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)]
            subprocess.run(command, cwd=REPOSITORY, check=True)
            made += docs_site(site, directory)
        for path in made:
            shutil.copy(path, target / path.name)
            print(f"{target / path.name}: {path.stat().st_size / 1000:.0f} kB")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
