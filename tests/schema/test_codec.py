import json
from dataclasses import replace

import pytest
from mi300bench.errors import RecordError
from mi300bench.schema import codec
from mi300bench.schema.doubt import KINDS, AbovePeak, FewPasses, NotSettled, OtherDoubt
from mi300bench.schema.record import Measurement, Origin, Outcome, Work, World


def full_record(make_record) -> Measurement:
    return make_record(
        samples=(1.0, 2.0),
        warmup=(3.0,),
        rank_samples=((1.0, 2.0), (0.5, 1.5)),
        work=Work(bytes_read=8, flop=2),
        world=World(device="rocm", ranks=2, threads=3),
        series={"ready_s": (0.1, 0.2), "name": ("a", "b")},
        doubts=(NotSettled(reached=0.2, wanted=0.01, samples=7), FewPasses(passes=1)),
        origin=Origin.EMULATED,
        source="two namespaces",
        environment={"NCCL_ALGO": "Ring"},
    )


def test_a_record_is_equal_after_json(make_record) -> None:
    record = full_record(make_record)
    assert codec.decode(json.loads(json.dumps(codec.encode(record)))) == record


def test_a_loss_of_nan_is_kept_as_a_string(make_record) -> None:
    document = codec.encode(make_record(series={"loss": (float("nan"), 1.0)}))
    record = codec.decode(json.loads(json.dumps(document, allow_nan=False)))
    assert record.series["loss"] == ("nan", 1.0)


def test_every_doubt_has_a_sentence_and_is_equal_after_json() -> None:
    figures = {float: 0.5, int: 3, str: "B/s"}
    for kind in KINDS.values():
        doubt = kind(
            **{
                name: figures[t]
                for name, t in kind.__annotations__.items()
                if name != "kind" and t in figures
            }
        )
        assert len(str(doubt)) > 2
        assert codec.decode_doubt(codec.encode_doubt(doubt)) == doubt


def test_a_doubt_of_an_unknown_kind_keeps_its_sentence() -> None:
    assert codec.decode_doubt(
        {"kind": "moon-phase", "phase": 3, "says": "the moon was full"}
    ) == OtherDoubt(text="the moon was full")


def test_a_known_doubt_with_other_figures_keeps_its_sentence() -> None:
    document = codec.encode_doubt(AbovePeak(seen=2, peak=1, unit="B/s", peak_source="s")) | {
        "new": 1
    }
    assert isinstance(codec.decode_doubt(document), OtherDoubt)


def test_an_old_record_is_upgraded_step_by_step() -> None:
    steps = {
        1: lambda d: d | {"schema": 2, "b": d["a"]},
        2: lambda d: d | {"schema": 3, "c": d["b"]},
    }
    assert codec.upgrade({"schema": 1, "a": 7}, steps=steps, to=3)["c"] == 7


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 99},
        {"schema": 0},
        {"outcome": "perhaps"},
        {"work": {"joules": 1}},
        {"samples": 3},
    ],
)
def test_an_invalid_record_is_an_error_with_a_next_step(make_record, change) -> None:
    with pytest.raises(RecordError) as caught:
        codec.decode(codec.encode(make_record()) | change)
    assert caught.value.hint


def test_outcome_ok_needs_samples_and_other_outcomes_need_a_reason(make_record) -> None:
    with pytest.raises(ValueError, match=str(Outcome.OK)):
        make_record(samples=())
    with pytest.raises(ValueError, match=str(Outcome.FAILED)):
        replace(make_record(), outcome=Outcome.FAILED)
