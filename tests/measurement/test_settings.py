import time

import pytest
from mi300bench.errors import PlanError
from mi300bench.measurement.settings import Settings
from mi300bench.schema.record import Origin


def test_an_emulation_needs_a_description() -> None:
    with pytest.raises(PlanError):
        Settings(origin=Origin.EMULATED)
    assert Settings(origin=Origin.EMULATED, source="a toy").source == "a toy"


@pytest.mark.parametrize("name", ["../up", "", "a b", ".hidden"])
def test_a_node_name_must_be_a_folder_name(name: str) -> None:
    with pytest.raises(PlanError):
        Settings(node=name)


def test_at_least_one_pass() -> None:
    with pytest.raises(PlanError):
        Settings(passes=0)


def test_the_budget_left_is_that_until_the_deadline() -> None:
    assert Settings().remaining_s() is None
    left = Settings(deadline=time.monotonic() + 60).remaining_s()
    assert left is not None and 50 < left <= 60
