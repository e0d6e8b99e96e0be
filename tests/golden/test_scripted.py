"""Records of a scripted clock are, byte for byte, those of version 0.1.0.

Only the changes of schema 2 are undone before the comparison.
"""

import json
from pathlib import Path

from tests.golden.scripted import lines

BEFORE = Path(__file__).parent / "scripted-schema1.jsonl"


def test_records_of_the_scripted_clock_are_those_of_schema_1() -> None:
    before = BEFORE.read_text().splitlines()
    now = list(lines())
    assert len(now) == len(before) == 4
    for old, new in zip(before, now, strict=True):
        document = json.loads(new)
        variables = document.pop("variables")
        text = " ".join(f"{name}={value}" for name, value in variables.items())
        document["conditions"]["environment"] = text
        document["schema"] = 1
        assert json.dumps(document) == old
