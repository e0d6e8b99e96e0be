"""Data that several folders of tests use."""

from mi300bench.schema.config import (
    Alternative,
    Choice,
    ChoiceBasis,
    Confirmation,
    Confirmed,
    ConfirmedArm,
    TunedConfig,
)
from mi300bench.schema.model import Interval

SECOND = Interval(low=0.9, mid=1.0, high=1.1)


def tuned() -> TunedConfig:
    choice = Choice(
        value=[1.0, 50.0],
        default="default",
        why="it is faster",
        evidence=("abc",),
        doubts=("few passes",),
        basis=ChoiceBasis.CONFIRMED,
        alternatives=(Alternative(value="default", predicted_s=SECOND, same_as=(25.0,)),),
    )
    confirmed = Confirmed(
        candidate="1,50",
        default_s=SECOND,
        tuned_s=SECOND,
        ratio=SECOND,
        runs=3,
        verdict=Confirmation.FASTER,
        evidence=("abc",),
        sides=(
            ConfirmedArm(
                label="default",
                predicted_s=SECOND,
                measured_s=SECOND,
                ratio=SECOND,
                verdict="same",
                evidence=("abc",),
            ),
            ConfirmedArm(
                label="1,50",
                predicted_s=SECOND,
                measured_s=SECOND,
                ratio=SECOND,
                verdict="faster",
                reverts="batch",
                over_best=SECOND,
            ),
        ),
    )
    return TunedConfig(
        trainer="zaya1",
        config={"ddp": {"bucket_cap_mb": [1.0, 50.0]}, "steps": 3},
        choices={"ddp.bucket_cap_mb": choice},
        confirmed=confirmed,
        node="n1",
        device="a CPU",
        made_by="mi300bench tune zaya1",
    )
