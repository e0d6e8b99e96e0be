import pytest
from mi300bench.errors import PlanError
from mi300bench.measurement.rerun import rerun_plan
from mi300bench.schema.record import Origin


def test_the_rerun_of_a_record_is_the_same_point(make_record) -> None:
    record = make_record(environment={"OMP_NUM_THREADS": "2"}, calls_per_sample=2)
    plan = rerun_plan([record], record.id, device="auto", passes=2)
    (point,) = plan.points
    assert (point.probe, point.params, point.environment) == (
        record.probe,
        record.params,
        record.environment,
    )
    assert point.world.ranks == record.world.ranks and plan.passes == 2
    assert point.stop.max_seconds == 10.0  # as long as the record took


@pytest.mark.parametrize(
    ("changed", "identity", "device"),
    [
        ({}, "unknown", "auto"),
        ({"origin": Origin.IMPORTED, "source": "a log"}, "one", "auto"),
        ({"probe": "zaya1.training"}, "one", "auto"),
        ({}, "one", "rocm"),
    ],
)
def test_what_cannot_be_repeated_is_refused(
    make_record, changed: dict, identity: str, device: str
) -> None:
    record = make_record(id="one", **changed)
    with pytest.raises(PlanError) as caught:
        rerun_plan([record], identity, device=device, passes=1)
    assert caught.value.hint
