"""The answer to `-o go-template=…`, a language that is not here."""

from typing import NoReturn

from modules.tools.kubectl.errors import KubectlError


def make_printer(_template: str) -> NoReturn:
    """Refuse the template, and name what there is instead. Raises KubectlError."""
    raise KubectlError(
        "there are no go-templates here: use -o jsonpath='{range .items[*]}{.metadata.name}{\"\\n\"}{end}', "
        "-o custom-columns=NAME:.metadata.name or -o json"
    )
