"""MkDocs' hooks of `mkdocs.yml`. They are the only code here that needs MkDocs.

`README.md` becomes the first page; `CHANGELOG.md`, `CONTRIBUTING.md`, `SECURITY.md` and tables that tests read become
pages, too. A link of a page to any other file of the repository (an example, a test) leads to a copy of that file in
the site, so that no link needs a server.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mkdocs.structure.files import File, Files

from modules.lab.site.behaviours import AREAS, behaviour_page, threat_page
from modules.lab.site.commands import PROGRAMS, command_page
from modules.lab.site.metrics import metric_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

_REPOSITORY: Final = Path(__file__).parents[3]
_PAGES: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "tests/documentation/habits.md": "reference/habits.md",
    "tests/modules/cloud/authorization/deciding.md": "reference/deciding.md",
}
_COPIES: Final = "source"
_LINK: Final = re.compile(r"(?<=\]\()(?!\w+:)([^)\s#]+)(#[^)\s]*)?(?=\))")
_SHIM: Final = "https://unpkg.com/iframe-worker/shim"
"""The script that the theme loads so that a page on the disk can be searched; ours is in `docs/site`."""
_OWN_SHIM: Final = "site/worker-on-disk.js"
_FENCE: Final = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)


def on_files(files: Files, /, *, config: MkDocsConfig) -> Files:
    """Add the pages outside `docs/`, the generated ones, and copies of the files that pages link to."""
    for source, name in _PAGES.items():
        files.append(File.generated(config, name, content=(_REPOSITORY / source).read_text(encoding="utf-8")))
    for program in PROGRAMS:
        files.append(File.generated(config, f"reference/{program}.md", content=command_page(program)))
    for name in AREAS:
        files.append(File.generated(config, f"reference/{name}.md", content=behaviour_page(name)))
    files.append(File.generated(config, "reference/threats.md", content=threat_page()))
    files.append(File.generated(config, "reference/metrics.md", content=metric_page()))
    for path in sorted(set(_linked(files))):
        copy = File.generated(config, f"{_COPIES}/{path}.txt", content=(_REPOSITORY / path).read_bytes())
        files.append(copy)
    return files


def on_page_markdown(markdown: str, /, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Lead a page's links to where their targets are in the site."""
    here = page.file.src_uri
    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(lambda link: _led(here, link), part) for part in parts)


def on_post_page(output: str, /, *, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001
    """Load nothing from other servers."""
    here = posixpath.dirname(page.url) or "."
    return output.replace(_SHIM, posixpath.relpath(_OWN_SHIM, here))


def on_post_template(output: str, /, *, template_name: str, config: MkDocsConfig) -> str:  # noqa: ARG001
    """The same for the page for an unknown address."""
    return output.replace(_SHIM, _OWN_SHIM)


def _linked(files: Files) -> Iterator[str]:
    for page in list(files.documentation_pages()):
        for link in _LINK.finditer(_FENCE.sub("", page.content_string)):
            path = _in_repository(page.src_uri, link[1])
            if not path.startswith("docs/") and path not in _PAGES and (_REPOSITORY / path).is_file():
                yield path


def _led(here: str, link: re.Match[str]) -> str:
    path = _in_repository(here, link[1])
    if path in _PAGES:
        target = _PAGES[path]
    elif path.startswith("docs/"):
        target = path.removeprefix("docs/")
    elif (_REPOSITORY / path).is_file():
        target = f"{_COPIES}/{path}.txt"
    else:
        return link[0]
    return posixpath.relpath(target, posixpath.dirname(here) or ".") + (link[2] or "")


def _in_repository(here: str, target: str) -> str:
    """Return the path in the repository that a link of a page means; the first pages are outside `docs/`."""
    outside = {name: source for source, name in _PAGES.items()}
    directory = posixpath.dirname(outside.get(here, f"docs/{here}"))
    return posixpath.normpath(posixpath.join(directory, target))
