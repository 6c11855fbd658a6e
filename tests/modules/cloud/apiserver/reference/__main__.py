"""Writes `known.json`: the requests whose answers differ from the recorded ones otherwise than is listed."""

import json

from tests.modules.cloud.apiserver.reference.recordings import scripts
from tests.modules.cloud.apiserver.reference.test_reference import KNOWN, played

differing = {script: numbers for script in scripts() if (numbers := played(script)[0])}
lines = ",\n".join(f"{json.dumps(script)}: {json.dumps(numbers)}" for script, numbers in differing.items())
KNOWN.write_text("{" + lines + "}\n")
