"""Rules of custom kinds that no schema can express, because they need another object."""

from collections.abc import Callable

from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.apimachinery.validation.causes import Cause

Find = Callable[[ObjectKey], JsonObject | None]
"""Returns a stored object, or None."""

CustomAdmission = Callable[[JsonObject, JsonObject | None, Find], list[Cause]]
"""Returns the rules that a requested object breaks. Called with the object as it is to be stored, the stored one (None
if it is created), and with a function that finds other objects.
"""
