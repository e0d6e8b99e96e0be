"""What ZAYA1 declares to the library: its config, its model as numbers, its knobs and probes.

batch       micro-batch and accumulation, and on a CPU ranks and threads
experts     how the experts of a block are computed
loss_chunk  tokens whose logits exist at once
recompute   activations kept, or blocks computed again in backward
precision   of the matrix products
shapes      hidden, expert and head widths and vocabulary at about the same parameters
buckets     DDP's bucket caps

To add a knob, add its key to `config.py`, its effect to the trainer's code, and a `KnobSpec` here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mi300bench.schema.model import MemoryNeed
from mi300bench.schema.probe import ProbeEntry
from mi300bench.schema.run_settings import (
    Batch,
    Buckets,
    ModelSetting,
    Ranks,
    Recompute,
    RunSettings,
)
from mi300bench.schema.trainer import (
    Effect,
    Keys,
    KnobKind,
    KnobRequest,
    KnobSpec,
    Launch,
    TrainerSpec,
)

from mi300bench_training.zaya1 import memory, shapes
from mi300bench_training.zaya1.config import (
    BUCKET_KEY,
    DEFAULT,
    EXPERTS,
    PARTS,
    PRESETS,
    ZayaConfig,
    from_text,
    to_text,
)

MICRO_BATCH, ACCUMULATE, PRECISION = "data.micro_batch", "data.accumulate", "precision"
EXPERT_WAY, LOSS_CHUNK, RECOMPUTE = "compute.experts", "compute.loss_chunk", "compute.recompute"
# A chunk of the loss has a half or a quarter of a micro-batch's tokens, and at least this many.
CHUNK_SHARES, SMALLEST_CHUNK = (2, 4), 32
# Forward and backward are three equal parts of FLOP; recomputed blocks add a second forward pass.
RECOMPUTED_FLOP = {"none": 1.0, "block": 4 / 3}
LOAD = "expert_load"


def _expert_ways(request: KnobRequest) -> Sequence[Keys]:
    chosen = request.config.compute.experts
    return [{EXPERT_WAY: way} for way in EXPERTS if way != chosen]


def _loss_chunks(request: KnobRequest) -> Sequence[Keys]:
    tokens = request.config.data.micro_batch * request.config.data.seq_len
    sizes = {tokens // share for share in CHUNK_SHARES if tokens // share >= SMALLEST_CHUNK}
    return [{LOSS_CHUNK: size} for size in sorted(sizes)]


def _recomputes(request: KnobRequest) -> Sequence[Keys]:
    return [{RECOMPUTE: "block"}] if request.is_short_of_memory else []


def _precisions(request: KnobRequest) -> Sequence[Keys]:
    return [{PRECISION: name} for name in request.precisions if name != request.config.precision]


def _shapes(request: KnobRequest) -> Sequence[Keys]:
    return shapes.variants(request.config, request.param_tolerance)


KNOBS = (
    KnobSpec(
        name="batch",
        kind=KnobKind.LAYOUT,
        keys=(MICRO_BATCH, ACCUMULATE),
        affects=frozenset({Effect.TIME, Effect.MEMORY}),
        saves_memory=True,
    ),
    KnobSpec(
        name="experts",
        kind=KnobKind.RUN,
        keys=(EXPERT_WAY,),
        affects=frozenset({Effect.TIME, Effect.MEMORY}),
        options=_expert_ways,
        doubt="measured in the first steps, where the fullest expert has {expert_load:.1f} times "
        "an even share of the tokens; the load gets more even later, and then another way may be "
        "faster",
        is_always_doubted=True,
    ),
    KnobSpec(
        name="loss_chunk",
        kind=KnobKind.RUN,
        keys=(LOSS_CHUNK,),
        affects=frozenset({Effect.TIME, Effect.MEMORY}),
        options=_loss_chunks,
        saves_memory=True,
        flop_factor=lambda _old, _new: 1.0,
    ),
    KnobSpec(
        name="recompute",
        kind=KnobKind.RUN,
        keys=(RECOMPUTE,),
        affects=frozenset({Effect.TIME, Effect.MEMORY}),
        options=_recomputes,
        saves_memory=True,
        flop_factor=lambda old, new: RECOMPUTED_FLOP[new] / RECOMPUTED_FLOP[old],
        computes_least="none",
    ),
    KnobSpec(
        name="precision",
        kind=KnobKind.RUN,
        keys=(PRECISION,),
        affects=frozenset({Effect.TIME, Effect.MEMORY, Effect.QUALITY}),
        options=_precisions,
        doubt="the quality of another precision was not measured; "
        "train with both and compare the held-out loss",
    ),
    KnobSpec(
        name="shapes",
        kind=KnobKind.PRODUCTS,
        keys=("model.hidden", "model.expert_width", "model.heads", "model.head_dim", "model.vocab"),
        affects=frozenset({Effect.TIME, Effect.MEMORY, Effect.QUALITY}),
        options=_shapes,
        doubt="the quality of another shape was not measured; "
        "train both on your data and compare the held-out loss",
    ),
    KnobSpec(
        name="buckets",
        kind=KnobKind.BUCKETS,
        keys=(BUCKET_KEY,),
        affects=frozenset({Effect.TIME}),
    ),
)


def settings(config: ZayaConfig, ranks: int) -> RunSettings:
    """Return `config` in typed groups; `ranks` applies if the config does not set its ranks."""
    data, compute = config.data, config.compute
    count = config.launch.ranks or ranks
    caps = config.ddp.bucket_cap_mb
    listed = () if caps == DEFAULT else tuple(caps) if isinstance(caps, list) else (float(caps),)
    own = [
        ModelSetting(
            key=EXPERT_WAY,
            value=compute.experts,
            why="the computation of experts is this model's own code",
        )
    ]
    if compute.loss_chunk:
        own.insert(
            0,
            ModelSetting(
                key=LOSS_CHUNK,
                value=compute.loss_chunk,
                why="the loss in chunks is this model's own code",
            ),
        )
    return RunSettings(
        preset=config.preset,
        precision=config.precision,
        seed=config.seed,
        steps=config.steps,
        batch=Batch(
            micro_batch=data.micro_batch,
            accumulate=data.accumulate,
            global_batch=data.micro_batch * data.accumulate * count,
            seq_len=data.seq_len,
        ),
        optimizer=config.optimizer.group(final_share=1 / 3),
        recompute=Recompute.LAYERS if compute.recompute == "block" else Recompute.NOTHING,
        ranks=Ranks(ranks=count, threads=config.launch.threads),
        buckets=Buckets(caps_mib=listed),
        model_settings=tuple(own),
    )


def counts(config: ZayaConfig) -> Mapping[str, int]:
    """Return the numbers of parameters by kind."""
    described = shapes.describe(config)
    return {
        "total": described.total_elements,
        "without_embedding": described.total_elements - described.embedding_elements,
        "active": described.active_elements,
    }


class ZayaAsRanks:
    """What the strategy ddp needs of this model."""

    def memory(self, config: Any, *, ranks: int, readings: Mapping[str, float]) -> MemoryNeed:
        """Return the peak memory of a rank's tensors; an uneven load needs more if padded."""
        return memory.need(config, ranks=ranks, load=readings.get(LOAD, 1.0))


TRAINER = TrainerSpec(
    name="zaya1",
    framework="torch",
    launch=Launch.TORCHRUN,
    strategy="ddp",
    package="mi300bench_training.zaya1",
    summary="ZAYA1, a mixture of experts, in torch.",
    presets=PRESETS,
    default_presets={"cpu": "small", "cuda": "small", "rocm": "small"},
    config_type=ZayaConfig,
    parts=PARTS,
    options={
        "seq_len": "data.seq_len",
        "micro_batch": MICRO_BATCH,
        "accumulate": ACCUMULATE,
    },
    point_keys=("data.seq_len", MICRO_BATCH),
    as_param={BUCKET_KEY: (to_text, lambda text: from_text(str(text)))},
    knobs=KNOBS,
    probes={
        "backward": ProbeEntry(
            target="mi300bench_training.zaya1.measure:Backward",
            method=2,
            needs="torch",
            summary="When each gradient of ZAYA1 is ready; all ranks compute, none communicates.",
        ),
        "step": ProbeEntry(
            target="mi300bench_training.zaya1.measure:ZayaStep",
            method=2,
            needs="torch",
            summary="One whole training step of ZAYA1 under DDP.",
        ),
        "memory": ProbeEntry(
            target="mi300bench_training.zaya1.measure:Memory",
            method=1,
            needs="torch",
            summary="The most bytes that training ZAYA1 holds at once on a rank.",
        ),
    },
    describe=shapes.describe,
    counts=counts,
    settings=settings,
    readings=(LOAD,),
    data_parallel=ZayaAsRanks(),
)
