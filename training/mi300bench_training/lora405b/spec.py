"""What LoRA on Llama 3.1 declares to the library: its config, its model as numbers, its knobs.

mesh             dp, fsdp and mp: fsdp gathers weights, mp reduces activations
remat            what is kept for the backward pass; the rest is recomputed
unroll           layers in each step of the scan
attention_block  queries computed at once
loss_chunk       tokens whose logits exist at once
precision        of the frozen weights and the activations
batch            parts of the batch; weights are gathered again for each part
shapes           the length of sequences, at the same tokens in a step

To add a knob, add its key to `config.py`, its effect to the trainer's code, and a `KnobSpec` here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mi300bench.schema.model import Gemm, MeshTraffic
from mi300bench.schema.probe import ProbeEntry
from mi300bench.schema.run_settings import (
    Adapters,
    Batch,
    JaxClient,
    Mesh,
    ModelSetting,
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
from mi300bench.units import ELEMENT_BYTES

from mi300bench_training.lora405b import shapes
from mi300bench_training.lora405b.config import PARTS, PRESETS, LoraRunConfig

DP, FSDP, MP = "mesh.dp", "mesh.fsdp", "mesh.mp"
REMAT, UNROLL = "compute.remat", "compute.unroll"
ATTENTION_BLOCK, LOSS_CHUNK = "compute.attention_block", "compute.loss_chunk"
BATCH, SEQ_LEN, ACCUMULATE, PRECISION = "data.batch", "data.seq_len", "data.accumulate", "precision"
REMATS = ("dots", "none", "full")  # of equally fast options the first is picked
UNROLLS, BLOCKS, PARTS_OF_BATCH = (2, 4), (64, 128, 256, 512, 1024), (2, 4)
CHUNK_SHARES, SMALLEST_CHUNK, LENGTH_FACTORS = (2, 4), 64, (2, 4)
# FLOP of a step over those without recomputation. Forward and input gradients are two equal parts.
RECOMPUTE_FACTOR = {"none": 1.0, "dots": 1.0, "full": 1.5}
RECOMPUTED = {
    "none": Recompute.NOTHING,
    "dots": Recompute.ALL_BUT_PRODUCTS,
    "full": Recompute.LAYERS,
}


def _remats(request: KnobRequest) -> Sequence[Keys]:
    return [{REMAT: name} for name in REMATS if name != request.config.compute.remat]


def _unrolls(request: KnobRequest) -> Sequence[Keys]:
    chosen, layers = request.config.compute.unroll, request.config.model.layers
    return [{UNROLL: n} for n in UNROLLS if n != chosen and layers % n == 0]


def _attention_blocks(request: KnobRequest) -> Sequence[Keys]:
    chosen, length = request.config.compute.attention_block, request.config.data.seq_len
    return [{ATTENTION_BLOCK: n} for n in BLOCKS if n != chosen and n <= length]


def _loss_chunks(request: KnobRequest) -> Sequence[Keys]:
    data = request.config.data
    tokens = data.batch * data.seq_len // request.ranks
    sizes = {tokens // share for share in CHUNK_SHARES if tokens // share >= SMALLEST_CHUNK}
    chosen = request.config.compute.loss_chunk
    return [{LOSS_CHUNK: n} for n in sorted(sizes) if n != chosen]


def _precisions(request: KnobRequest) -> Sequence[Keys]:
    return [{PRECISION: name} for name in request.precisions if name != request.config.precision]


def _parts_of_batch(request: KnobRequest) -> Sequence[Keys]:
    data = request.config.data
    counts = [n for n in PARTS_OF_BATCH if data.batch % (n * data.accumulate) == 0]
    return [{ACCUMULATE: n} for n in counts] if request.is_short_of_memory else []


def _lengths(request: KnobRequest) -> Sequence[Keys]:
    data, longest = request.config.data, request.config.model.rope_original_length
    options: list[Keys] = []
    for factor in LENGTH_FACTORS:
        if data.batch % factor == 0 and data.seq_len * factor <= longest:
            options.append({SEQ_LEN: data.seq_len * factor, BATCH: data.batch // factor})
        if data.seq_len % factor == 0 and data.seq_len // factor >= SMALLEST_CHUNK:
            options.append({SEQ_LEN: data.seq_len // factor, BATCH: data.batch * factor})
    return options


TIME_AND_MEMORY = frozenset({Effect.TIME, Effect.MEMORY})
KNOBS = (
    KnobSpec(
        name="mesh",
        kind=KnobKind.MESH,
        keys=(DP, FSDP, MP),
        affects=TIME_AND_MEMORY,
        saves_memory=True,
    ),
    KnobSpec(
        name="remat",
        kind=KnobKind.RUN,
        keys=(REMAT,),
        affects=TIME_AND_MEMORY,
        options=_remats,
        saves_memory=True,
        flop_factor=lambda old, new: RECOMPUTE_FACTOR[new] / RECOMPUTE_FACTOR[old],
        computes_least="none",
    ),
    KnobSpec(
        name="unroll",
        kind=KnobKind.RUN,
        keys=(UNROLL,),
        affects=TIME_AND_MEMORY,
        options=_unrolls,
    ),
    KnobSpec(
        name="attention_block",
        kind=KnobKind.RUN,
        keys=(ATTENTION_BLOCK,),
        affects=TIME_AND_MEMORY,
        options=_attention_blocks,
    ),
    KnobSpec(
        name="loss_chunk",
        kind=KnobKind.RUN,
        keys=(LOSS_CHUNK,),
        affects=TIME_AND_MEMORY,
        options=_loss_chunks,
        flop_factor=lambda _old, _new: 1.0,
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
        name="batch",
        kind=KnobKind.RUN,
        keys=(ACCUMULATE,),
        affects=TIME_AND_MEMORY,
        options=_parts_of_batch,
        saves_memory=True,
        flop_factor=lambda _old, _new: 1.0,
    ),
    KnobSpec(
        name="shapes",
        kind=KnobKind.RUN,
        keys=(SEQ_LEN, BATCH),
        affects=frozenset({Effect.TIME, Effect.MEMORY, Effect.QUALITY}),
        options=_lengths,
        doubt="another length splits documents at other places, and the quality was not measured; "
        "train with both and compare the held-out loss",
    ),
)


def settings(config: LoraRunConfig, ranks: int) -> RunSettings:
    """Return `config` in typed groups; its mesh determines the number of devices."""
    del ranks
    data, compute, lora = config.data, config.compute, config.lora
    mesh = Mesh(dp=config.mesh.dp, fsdp=config.mesh.fsdp, mp=config.mesh.mp)
    own = [
        ModelSetting(
            key=ATTENTION_BLOCK,
            value=compute.attention_block,
            why="other frameworks have their own attention kernels",
        )
    ]
    if compute.unroll > 1:
        own.append(
            ModelSetting(
                key=UNROLL,
                value=compute.unroll,
                why="the scan over layers is this model's own code",
            )
        )
    if compute.loss_chunk:
        own.append(
            ModelSetting(
                key=LOSS_CHUNK,
                value=compute.loss_chunk,
                why="the loss in chunks is this model's own code",
            )
        )
    return RunSettings(
        preset=config.preset,
        precision=config.precision,
        seed=config.seed,
        steps=config.steps,
        batch=Batch(
            micro_batch=data.batch // data.accumulate // mesh.groups,
            accumulate=data.accumulate,
            global_batch=data.batch,
            seq_len=data.seq_len,
        ),
        optimizer=config.optimizer.group(),
        recompute=RECOMPUTED[compute.remat],
        mesh=mesh,
        adapters=Adapters(
            rank=lora.rank,
            alpha=lora.alpha,
            is_rslora=lora.rslora,
            dropout=lora.dropout,
            targets=lora.targets,
            weights=config.weights,
            adapter=config.adapter,
        ),
        jax_client=JaxClient(
            memory_fraction=config.launch.memory_fraction, combine_bytes=config.launch.combine_bytes
        ),
        model_settings=tuple(own),
    )


def counts(config: LoraRunConfig) -> Mapping[str, int]:
    """Return the numbers of parameters by kind: trained adapters and frozen weights."""
    described = shapes.describe(config)
    return {"trained": described.total_elements, "frozen": described.active_elements}


class LoraOnAMesh:
    """What the strategy mesh needs of this model."""

    def divides(self, config: Any) -> bool:
        """Return whether the mesh divides every tensor, by the sharding rules."""
        return shapes.divides(config)

    def products(self, config: Any) -> tuple[Gemm, ...]:
        """Return the forward products of one device."""
        return shapes.mesh_gemms(config)

    def held_bytes(self, config: Any) -> float:
        """Return a lower bound of the bytes that a device needs."""
        return shapes.held_bytes(config, ELEMENT_BYTES[config.precision])

    def traffic(self, config: Any) -> MeshTraffic:
        """Return the communication of a step."""
        return shapes.traffic(config, ELEMENT_BYTES[config.precision])

    def closed_form_bytes(self, config: Any) -> Mapping[str, float]:
        """Return the bytes that a device receives in a step with 2-byte elements, by kind."""
        return {
            "gathered": shapes.gathered_bytes(config),
            "reduced": shapes.reduced_bytes(config),
            "gradients": shapes.gradient_bytes(config),
        }


TRAINER = TrainerSpec(
    name="lora405b",
    framework="jax",
    launch=Launch.JAX,
    strategy="mesh",
    package="mi300bench_training.lora405b",
    summary="LoRA on Llama 3.1, up to 405B, in JAX.",
    presets=PRESETS,
    default_presets={"cpu": "bench", "cuda": "bench", "rocm": "bench"},
    config_type=LoraRunConfig,
    parts=PARTS,
    options={"seq_len": SEQ_LEN, "batch": BATCH, "accumulate": ACCUMULATE},
    point_keys=(SEQ_LEN, BATCH, PRECISION),
    knobs=KNOBS,
    probes={
        "step": ProbeEntry(
            target="mi300bench_training.lora405b.measure:LoraStep",
            method=1,
            needs="jax",
            summary="One whole training step of LoRA on Llama 3.1, on a mesh of devices.",
        ),
    },
    describe=shapes.describe,
    counts=counts,
    settings=settings,
    mesh_model=LoraOnAMesh(),
    planner="mi300bench_training.lora405b.compiled.plan",
    planned_keys=(
        BATCH,
        SEQ_LEN,
        ACCUMULATE,
        REMAT,
        ATTENTION_BLOCK,
        LOSS_CHUNK,
        "lora.rank",
        PRECISION,
    ),
)
