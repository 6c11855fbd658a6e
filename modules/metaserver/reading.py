"""get and list, from the view: at once, whether or not there is a cloud.

A list that is asked for in parts keeps no snapshot between them: each part is of the present, and all of them say the
revision of the first. Who goes on watching from there is told all that has changed meanwhile, so nothing is missed.
"""

import base64
import binascii
from typing import Any, NamedTuple

import msgspec

from beehive import Clock
from edged.server.answers import Answer, json
from metamanager.application import Target
from modules.metaserver.errors import ApiError, not_found
from modules.metaserver.forms import Shown
from modules.metaserver.options import ReadOptions
from modules.metaserver.resources import Resource
from modules.metaserver.view import Key, View


class _Place(NamedTuple):
    """Where a list goes on: after which object, at which revision it began."""

    revision: int
    namespace: str
    name: str


class Reader:
    """See the module's docstring."""

    def __init__(self, view: View, clock: Clock) -> None:
        self._view = view
        self._clock = clock

    def get(self, resource: Resource, target: Target, options: ReadOptions) -> Answer:
        """One object. Raises ApiError when there is none."""
        text = self._view.get(Key(resource.token, target.namespace, target.name))
        if text is None:
            raise not_found(resource, target.name)
        return json(self._shown(resource, options).one(text))

    def list(self, resource: Resource, namespace: str, options: ReadOptions) -> Answer:
        """The objects of a kind. Raises ApiError when the list cannot go on where it is to."""
        revision, entries = self._view.objects(resource.token, namespace)
        if options.continued:
            place = _place(options.continued)
            if not self._view.knows(place.revision):
                raise ApiError(410, "the continue parameter is too old; list again without it")
            revision = place.revision
            entries = [each for each in entries if each[0][1:] > (place.namespace, place.name)]
        if not options.selector.selects_all:
            entries = [each for each in entries if options.selector.selects(msgspec.json.decode(each[1]))]
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        shown = entries[: options.limit] if options.limit else entries
        if len(shown) < len(entries):
            last = shown[-1][0]
            metadata["continue"] = _token(_Place(revision, last.namespace, last.name))
            metadata["remainingItemCount"] = len(entries) - len(shown)
        return json(self._shown(resource, options).many([text for _, text in shown], metadata))

    def _shown(self, resource: Resource, options: ReadOptions) -> Shown:
        return Shown(resource, options.form, options.included, self._clock.now())


def _token(place: _Place) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode()


def _place(token: str) -> _Place:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token), type=_Place)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise ApiError(400, "the continue parameter is not one of this server's") from error
