"""The 405B step compiled without a weight, and how its module is read."""

import json

import pytest
from mi300bench.errors import RecordError
from mi300bench.strategies.mesh.compile_step import CompiledStep, compile_all
from tests.training.runs import call

from mi300bench_training.lora405b import shapes
from mi300bench_training.lora405b.compiled import hlo
from mi300bench_training.lora405b.spec import TRAINER

MODULE = """HloModule jit_step, num_partitions=4

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%body (p: (s32[], bf16[8,16])) -> (s32[], bf16[8,16]) {
  %p = (s32[], bf16[8,16]{1,0}) parameter(0)
  %x = bf16[8,16]{1,0} get-tuple-element(%p), index=1
  %w = bf16[4,16]{1,0} constant({...})
  %whole = bf16[16,16]{1,0} all-gather(%w), replica_groups={{0,1,2,3}}, dimensions={0}
  %y = bf16[8,16]{1,0} dot(%x, %whole), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %z = bf16[8,16]{1,0} all-reduce(%y), replica_groups=[2,2]<=[4], to_apply=%add
  ROOT %t = (s32[], bf16[8,16]{1,0}) tuple(%i, %z)
}

%condition (p: (s32[], bf16[8,16])) -> pred[] {
  %p = (s32[], bf16[8,16]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %n = s32[] constant(126)
  ROOT %less = pred[] compare(%i, %n), direction=LT
}

ENTRY %main (x: bf16[8,16]) -> f32[] {
  %x = bf16[8,16]{1,0} parameter(0)
  %start = (s32[], bf16[8,16]{1,0}) tuple(%zero, %x)
  %loop = (s32[], bf16[8,16]{1,0}) while(%start), condition=%condition, body=%body
  %loss = f32[] parameter(1)
  ROOT %all = f32[] all-reduce(%loss), replica_groups=mesh['a'=2,'b'=2] {'a','b'}, to_apply=%add
}
"""


def test_a_loop_s_collectives_and_products_count_as_often_as_it_runs() -> None:
    traffic = hlo.traffic(MODULE, 4)
    assert traffic.calls == {"all-gather": 126, "all-reduce": 127}
    assert traffic.received["all-gather"] == 126 * 3 / 4 * 16 * 16 * 2
    assert traffic.received["all-reduce"] == 126 * 2 * 1 / 2 * 8 * 16 * 2 + 2 * 3 / 4 * 4
    assert traffic.among == {
        4: 126 * 3 / 4 * 16 * 16 * 2 + 2 * 3 / 4 * 4,
        2: 126 * 2 * 1 / 2 * 8 * 16 * 2,
    }
    assert traffic.flop == 126 * 2 * 8 * 16 * 16


def test_a_sum_of_all_reduces_is_one() -> None:
    line = "  %{} = bf16[8]{{0}} {}(%{}), replica_groups=[1,4]<=[4], to_apply=%add\n"
    added = "  %{} = bf16[8]{{0}} add(%{}, %{})\n"
    body = (
        line.format("r1", "all-reduce", "a")
        + line.format("r2", "all-reduce", "b")
        + line.format("r3", "all-reduce", "c")
    )
    text = (
        "ENTRY %main (x: f32[]) -> f32[] {\n"
        + body
        + added.format("s", "r1", "r2")
        + added.format("t", "s", "r3")
        + "}\n"
    )
    assert hlo.traffic(text, 4).calls == {"all-reduce": 1}
    # A value that something else needs as well has to be reduced by itself.
    assert hlo.traffic(text.replace("}\n", "  %u = bf16[8]{0} negate(%r1)\n}\n"), 4).calls == {
        "all-reduce": 3
    }


def test_groups_are_read_in_every_way() -> None:
    assert hlo.group_size("replica_groups={{0,1,2},{3,4,5}}", 6) == 3
    assert hlo.group_size("replica_groups=[4,2]<=[8]", 8) == 2
    assert hlo.group_size("replica_groups=mesh['a'=2,'b'=4] {'b'}, use", 8) == 4
    assert (
        hlo.group_size(
            "replica_groups=mesh['a'=4,'b'=1,'c'=2], device_ids=([2,4]T(1,0)) {'a'}, use",
            8,
        )
        == 4
    )
    assert hlo.group_size("replica_groups={}, to_apply=%add", 8) == 8
    assert hlo.group_size("channel_id=1", 8) == 8
    with pytest.raises(RecordError, match="replica_groups"):
        hlo.group_size("replica_groups=some_new_way(8)", 8)


WHOLE_MODEL = TRAINER.preset("405b")
# dp, fsdp, mp and the parts of a batch; each part gathers the weights. `plan --mesh all` prints
# both figures for all ten meshes of eight devices, which are of the same kinds as these.
MESHES = ((1, 8, 1, 1), (1, 4, 2, 1), (2, 2, 2, 2))
SMALL_MODEL = TRAINER.override(
    TRAINER.preset("bench"),
    {"mesh.dp": 2, "mesh.fsdp": 2, "mesh.mp": 2, "data.batch": 16, "precision": "bfloat16"},
)
CONFIGS = [
    *(
        TRAINER.override(
            WHOLE_MODEL,
            {"mesh.dp": dp, "mesh.fsdp": fsdp, "mesh.mp": mp, "data.accumulate": parts},
        )
        for dp, fsdp, mp, parts in MESHES
    ),
    SMALL_MODEL,
    TRAINER.override(SMALL_MODEL, {"compute.loss_chunk": 2048}),
]


@pytest.fixture(autouse=True)
def no_compilation_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile without JAX's cache, which would give no partitioned module."""
    monkeypatch.setenv("JAX_ENABLE_COMPILATION_CACHE", "false")


@pytest.fixture(scope="module")
def compiled() -> list[CompiledStep]:
    """Every config here, compiled by one process."""
    pytest.importorskip("jax")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_ENABLE_COMPILATION_CACHE", "false")
        return list(compile_all(TRAINER, CONFIGS))


@pytest.mark.parametrize("number", range(len(MESHES)), ids=[str(mesh) for mesh in MESHES])
def test_the_whole_405b_step_agrees_with_the_closed_forms_on_meshes_of_each_kind(
    compiled: list[CompiledStep], number: int
) -> None:
    (_, fsdp, mp, parts), step = MESHES[number], compiled[number]
    figures, closed = step.figures, step.closed_form
    weights = shapes.count(shapes.parameters(WHOLE_MODEL.model)) * 2
    adapters = shapes.count(shapes.adapters(WHOLE_MODEL.model, WHOLE_MODEL.lora)) * 4
    assert figures["weights"] == pytest.approx(weights / fsdp / mp, rel=1e-3)
    assert figures["optimizer"] == pytest.approx(2 * figures["adapters"], rel=1e-3)
    held = figures["weights"] + figures["adapters"] + figures["optimizer"]
    assert figures["arguments"] == pytest.approx(held, rel=1e-3)
    assert sum(figures["received"].values()) == pytest.approx(sum(closed.values()), rel=0.05)
    gathered = 2 * parts * (fsdp - 1) / fsdp * weights / mp
    assert closed["gathered"] == pytest.approx(gathered)
    # The compiled step also recomputes the layers, which the formula does not count.
    assert figures["flop"] * 8 == pytest.approx(6 / 4 * step.flop, rel=0.1)
    if fsdp == 8:
        assert figures["adapters"] * 8 == pytest.approx(adapters, rel=0.01)
        assert step.fits(206_141_652_992) == "yes"


def test_pieces_of_the_loss_multiply_nothing_on_other_devices(
    compiled: list[CompiledStep],
) -> None:
    whole, cut = (step.figures for step in compiled[len(MESHES) :])
    # Backward computes the head's product again, shared by all devices, and gathers its weight
    # again.
    head = 2 * SMALL_MODEL.model.hidden * SMALL_MODEL.model.vocab * 16 * 512 / 8
    assert cut["flop"] - whole["flop"] == pytest.approx(head, rel=0.1)
    assert sum(cut["received"].values()) < 1.5 * sum(whole["received"].values())


def test_tensor_parallel_moves_what_the_closed_form_says_and_less_than_fsdp() -> None:
    pytest.importorskip("jax")
    shape = ("--preset", "70b", "--mesh", "1,1,8", "--batch", 16, "--seq", 64)
    answer = call("plan", "lora405b", "--json", *shape)
    assert answer.code == 0, answer.err
    (step,) = json.loads(answer.out)
    received = sum(step["received_bytes"].values())
    assert received == pytest.approx(step["closed_form_bytes"]["reduced"], rel=0.05)
    assert step["closed_form_bytes"]["gradients"] == 0
    keys = {"mesh.fsdp": 8, "data.batch": 16, "data.seq_len": 64}
    sharded = TRAINER.override(TRAINER.preset("70b"), keys)
    assert received < shapes.gathered_bytes(sharded) / 10


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--mesh", "1,4,1"], "4 devices"),
        (["--mesh", "eight"], "eight"),
        (["--mesh", "8,1,1", "--batch", "4"], "dp=8 x fsdp=1"),
        (["--preset", "9b"], "9b"),
        (["--devices", "0"], "--devices"),
        (["--fit", "--batch", "4"], "--batch"),
        (["zaya1"], "zaya1"),
    ],
    ids=str,
)
def test_a_plan_that_cannot_be_made_is_a_message(arguments: list[str], named: str) -> None:
    trainer = [] if arguments == ["zaya1"] else ["lora405b"]
    answer = call("plan", *trainer, *arguments)
    assert answer.code == 2 and named in answer.err


def test_every_tensor_s_place_is_shown() -> None:
    pytest.importorskip("jax")
    shape = ("--preset", "bench", "--mesh", "1,4,2", "--batch", 8)
    answer = call("plan", "lora405b", *shape, "--show-sharding")
    lines = [line.split() for line in answer.out.splitlines()]
    (row,) = [words for words in lines if words[:1] == ["layers.q_proj"]]
    assert row[1] == "8x512x512" and row[-1] == "8x128x256" and "fsdp" in " ".join(row[2:-1])
