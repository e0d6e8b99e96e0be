"""The fit of products on shapes that it has not seen.

They are drawn at random over the whole range, layouts and types included.

    python -m tests.peers.gemm_fit

The shapes to learn from and those to judge by come from different seeds; the peer is the rate of
the nearest measured shape.
"""

import tempfile
from pathlib import Path

import numpy as np
from mi300bench.fit.gemm import _nearest, fit_gemm, product_of
from mi300bench.measurement.gemm_study import STUDY_STOP, ProductRun, point_of, random_shapes
from mi300bench.measurement.local_topology import local_topology
from mi300bench.measurement.measure import adaptive_run
from mi300bench.measurement.plans import plan
from mi300bench.measurement.settings import Settings
from mi300bench.stats import interval_of

AXES = ([64, 2048], [64, 2048], [64, 2048])
LAYOUTS = ("nt", "nn", "tn")
LEARN, JUDGE = 120, 60


def main() -> None:
    alone = local_topology("cpu", 1)
    settings = Settings(store=Path(tempfile.mkdtemp()), say=print)
    for dtype in ("bfloat16", "float32"):
        learn = [
            p for p, _ in zip(random_shapes(AXES, LAYOUTS, seed=11), range(LEARN), strict=False)
        ]
        judge = [
            p for p, _ in zip(random_shapes(AXES, LAYOUTS, seed=12), range(JUDGE), strict=False)
        ]
        opening = point_of(
            learn[0], alone, dtype=dtype, cache="cold", inputs="normal", stop=STUDY_STOP
        )
        with adaptive_run(
            plan("How well does the fit predict?", [opening], passes=1), settings
        ) as run:
            products = ProductRun(
                world=alone, dtype=dtype, cache="cold", inputs="normal", measure=run.measure
            )
            groups = [[products.record(p, STUDY_STOP)] for p in learn]
            seen = [[products.record(p, STUDY_STOP)] for p in judge]
        model = fit_gemm(groups)
        rates = np.array([g[0].work.flop / interval_of(g).mid for g in groups])
        ours, theirs, inside = [], [], 0
        for group in seen:
            product, seconds = product_of(group[0]), interval_of(group).mid
            prediction = model.predict(product).value
            ours.append(abs(prediction.mid / seconds - 1))
            inside += prediction.low <= seconds <= prediction.high
            theirs.append(abs(product.flop / _nearest(learn, rates, product) / seconds - 1))
        print(
            f"{dtype}: {LEARN} learned, {JUDGE} judged: median error {np.median(ours):.1%}, "
            f"p90 {np.quantile(ours, 0.9):.1%}; "
            f"nearest {np.median(theirs):.1%}, {np.quantile(theirs, 0.9):.1%}; "
            f"{inside} of {JUDGE} inside the 95 % interval"
        )


if __name__ == "__main__":
    main()
