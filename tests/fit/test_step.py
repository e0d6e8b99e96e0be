"""The simulation against cases that can be worked out by hand."""

import pytest
from mi300bench.errors import RecordError
from mi300bench.fit.link import LinkModel
from mi300bench.fit.overlap import OverlapModel
from mi300bench.fit.step import Factors, StepModel, Timeline, fit_timeline
from mi300bench.schema.doubt import OutOfRange
from mi300bench.units import MIB


def link(*, latency=0.0, bandwidth=100.0 * MIB, backend="nccl") -> LinkModel:
    sizes = tuple(float(MIB * k) for k in (1, 10, 100))
    return LinkModel(
        op="all_reduce",
        ranks=2,
        backend=backend,
        sizes=sizes,
        seconds=tuple(latency + s / bandwidth for s in sizes),
        latency_s=latency,
        bandwidth=bandwidth,
        knee_bytes=latency * bandwidth,
        kink_bytes=None,
        errors=(0.05,),
        evidence=("l",),
    )


def model(ready, sizes_mib, *, backward, slow=(1.0, 1.0), **parts) -> StepModel:
    timeline = Timeline(
        names=tuple(f"p{i}" for i in range(len(ready))),
        gradient_bytes=tuple(int(s * MIB) for s in sizes_mib),
        ready_s=tuple(ready),
        forward_s=1.0,
        backward_s=backward,
        update_s=0.5,
        spread=0.01,
        evidence=("t",),
    )
    overlap = OverlapModel(compute=slow[0], collective=slow[1], by_size=(), evidence=("o",))
    return StepModel(timeline=timeline, link=link(**parts), overlap=overlap)


def test_one_bucket_waits_for_the_last_gradient() -> None:
    step = model([1.0, 2.0], [10, 10], backward=2.0).simulate(1000)
    assert step.exposed_s == pytest.approx(0.2) and step.step_s == pytest.approx(1.0 + 2.2 + 0.5)


def test_a_bucket_that_travels_during_backward_is_hidden() -> None:
    step = model([1.0, 2.0], [10, 10], backward=2.0).simulate(10)
    assert [t.start_s for t in step.transfers] == pytest.approx([1.0, 2.0])
    assert step.exposed_s == pytest.approx(0.1)


def test_buckets_queue_on_one_lane_and_share_two() -> None:
    one = model([0.0, 0.0], [10, 10], backward=0.0).simulate(10)
    two = model([0.0, 0.0], [10, 10], backward=0.0, backend="gloo").simulate(10)
    assert [t.end_s for t in one.transfers] == pytest.approx([0.1, 0.2])
    assert [t.end_s for t in two.transfers] == pytest.approx([0.2, 0.2])


def test_a_change_stretches_its_phases_and_moves_the_gradients_with_them() -> None:
    made = model([1.0, 2.0], [10, 10], backward=2.0)
    changed = made.stretched(
        Factors(forward=2.0, backward=0.5, update=3.0, gradients=2.0, evidence=("e",))
    )
    step = changed.simulate(10)
    # Buckets of 20 MiB are ready at 0.5 and 1.0 s and travel for 0.2 s each.
    assert [(t.start_s, t.bytes) for t in step.transfers] == [(0.5, 20 * MIB), (1.0, 20 * MIB)]
    assert step.step_s == pytest.approx(2.0 + 1.2 + 1.5) and "e" in changed.predict(10).evidence
    assert (
        made.stretched(Factors(backward=2.0) * Factors(backward=0.5)).simulate(10).step_s
        == made.simulate(10).step_s
    )


def test_micro_batches_before_the_last_only_compute() -> None:
    made = model([1.0, 2.0], [10, 10], backward=2.0)
    assert made.simulate(10, accumulate=3).step_s == pytest.approx(
        made.simulate(10).step_s + 2 * 3.0
    )


def test_one_rank_sends_nothing() -> None:
    alone = StepModel(timeline=model([1.0, 2.0], [10, 10], backward=2.0).timeline)
    step = alone.simulate("default")
    assert step.transfers == () and step.exposed_s == 0 and step.step_s == pytest.approx(3.5)


def test_two_at_once_carry_what_was_measured_for_two() -> None:
    from dataclasses import replace

    made = model([0.0, 0.0], [10, 10], backward=0.0, backend="gloo")
    made = replace(made, link=replace(made.link, concurrency=1.6))
    assert [t.end_s for t in made.simulate(10).transfers] == pytest.approx([0.125, 0.125])


def test_latencies_add_up_on_one_lane_and_pass_together_on_two() -> None:
    one = model([0.0, 0.0], [10, 10], backward=0.0, latency=1.0).simulate(10)
    two = model([0.0, 0.0], [10, 10], backward=0.0, latency=1.0, backend="gloo").simulate(10)
    assert one.exposed_s == pytest.approx(2.2) and two.exposed_s == pytest.approx(1.2)


def test_slow_downs_hold_only_while_both_run() -> None:
    # The bucket is ready at 1.0 of 2.0. Its 1.0 s run at half speed during the 1.5 s that the rest
    # of backward takes; the remaining 0.25 s run by themselves.
    step = model([1.0], [100], backward=2.0, slow=(1.5, 2.0)).simulate(1000)
    assert step.transfers[0].end_s == pytest.approx(1.0 + 1.5 + 0.25)
    assert step.exposed_s == pytest.approx(0.75)


def test_buckets_start_in_order_even_if_a_later_one_is_ready_first() -> None:
    step = model([1.0, 0.5], [10, 10], backward=2.0).simulate(10)
    assert step.transfers[0].start_s <= step.transfers[1].start_s


def test_predictions_have_bounds_and_name_their_records() -> None:
    prediction = model([1.0, 2.0], [10, 10], backward=2.0).predict("default")
    assert prediction.value.low < prediction.value.mid < prediction.value.high
    assert prediction.evidence == ("t", "l", "o")


def test_a_bucket_beyond_the_measured_sizes_is_a_doubt() -> None:
    prediction = model([1.0, 2.0], [300, 10], backward=2.0).predict(1000)
    assert isinstance(prediction.doubts[0], OutOfRange)


def record(make_record, names=("a", "b"), pass_index=0):
    return make_record(
        "zaya1.backward",
        pass_index=pass_index,
        series={
            "parameter": names,
            "parameter_bytes": (4, 8),
            "ready_s": (0.1, 0.2, 0.3, 0.4, 0.2, 0.3),
            "forward_s": (1.0,) * 3,
            "backward_s": (2.0,) * 3,
            "update_s": (0.5,) * 3,
        },
    )


def test_a_timeline_is_the_median_over_steps(make_record) -> None:
    timeline = fit_timeline([record(make_record)])
    assert timeline.ready_s == (0.2, 0.3) and timeline.compute_s == 3.5


def test_passes_that_disagree_on_the_order_are_refused(make_record) -> None:
    with pytest.raises(RecordError, match="order"):
        fit_timeline([record(make_record), record(make_record, names=("b", "a"), pass_index=1)])
