"""The 405B step compiled without a weight, and how its module is read."""

import json
import subprocess
import sys

import pytest
from mi300bench.errors import RecordError
from mi300bench.strategies.mesh.compile import plan_all

from mi300bench_training.lora405b import hlo, shapes
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
    found = hlo.traffic(MODULE, 4)
    assert found.calls == {"all-gather": 126, "all-reduce": 127}
    assert found.received["all-gather"] == 126 * 3 / 4 * 16 * 16 * 2
    assert found.received["all-reduce"] == 126 * 2 * 1 / 2 * 8 * 16 * 2 + 2 * 3 / 4 * 4
    assert found.among == {
        4: 126 * 3 / 4 * 16 * 16 * 2 + 2 * 3 / 4 * 4,
        2: 126 * 2 * 1 / 2 * 8 * 16 * 2,
    }
    assert found.flop == 126 * 2 * 8 * 16 * 16


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
            "replica_groups=mesh['a'=4,'b'=1,'c'=2], device_ids=([2,4]T(1,0)) {'a'}, dimensions={0}",
            8,
        )
        == 4
    )
    assert hlo.group_size("replica_groups={}, to_apply=%add", 8) == 8
    assert hlo.group_size("channel_id=1", 8) == 8
    with pytest.raises(RecordError, match="groups cannot be read"):
        hlo.group_size("replica_groups=some_new_way(8)", 8)


def plan(*arguments: str) -> list[dict]:
    command = [sys.executable, "-m", "mi300bench", "plan", "lora405b", "--json", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_the_whole_405b_step_agrees_with_the_closed_forms_on_meshes_of_each_kind() -> None:
    """The other meshes of eight devices are of the same kinds; `plan --mesh all` prints both figures for all ten."""
    pytest.importorskip("jax")
    config = TRAINER.preset("405b")
    weights = shapes.count(shapes.parameters(config.model)) * 2
    adapters = shapes.count(shapes.adapters(config.model, config.lora)) * 4
    wanted = (
        (1, 8, 1, 1),
        (1, 4, 2, 1),
        (2, 2, 2, 2),
    )  # the last in two parts, each of which gathers the weights
    configs = [
        TRAINER.override(
            config, {"mesh.dp": dp, "mesh.fsdp": fsdp, "mesh.mp": mp, "data.accumulate": parts}
        )
        for dp, fsdp, mp, parts in wanted
    ]
    for planned, (dp, fsdp, mp, parts) in zip(plan_all("lora405b", configs), wanted, strict=True):
        held, closed = planned.found, planned.gathered + planned.reduced + planned.gradients
        assert held["weights"] == pytest.approx(weights / fsdp / mp, rel=1e-3)
        assert held["optimizer"] == pytest.approx(2 * held["adapters"], rel=1e-3)
        assert held["arguments"] == pytest.approx(
            held["weights"] + held["adapters"] + held["optimizer"], rel=1e-3
        )
        assert sum(held["received"].values()) == pytest.approx(closed, rel=0.05), (dp, fsdp, mp)
        assert planned.gathered == pytest.approx(2 * parts * (fsdp - 1) / fsdp * weights / mp)
        # What the compiler multiplies beside the formula's: the layers once more.
        assert held["flop"] * 8 == pytest.approx(6 / 4 * planned.flop, rel=0.1)
        if fsdp == 8:
            assert (
                held["adapters"] * 8 == pytest.approx(adapters, rel=0.01)
                and planned.fits(206_141_652_992) == "yes"
            )


def test_pieces_of_the_loss_multiply_nothing_on_other_devices() -> None:
    pytest.importorskip("jax")
    config = TRAINER.override(
        TRAINER.preset("bench"),
        {"mesh.dp": 2, "mesh.fsdp": 2, "mesh.mp": 2, "data.batch": 16, "precision": "bfloat16"},
    )
    whole, cut = plan_all("lora405b", [config, TRAINER.override(config, {"compute.loss_chunk": 2048})])
    # The head's forward product is taken again for the backward pass, shared by all devices, and its weight gathered once more.
    head = 2 * config.model.hidden * config.model.vocab * 16 * 512 / 8
    assert cut.found["flop"] - whole.found["flop"] == pytest.approx(head, rel=0.1)
    assert sum(cut.found["received"].values()) < 1.5 * sum(whole.found["received"].values())


def test_tensor_parallel_moves_what_the_closed_form_says_and_less_than_fsdp() -> None:
    pytest.importorskip("jax")
    (found,) = plan("--preset", "70b", "--mesh", "1,1,8", "--batch", "16", "--seq", "64")
    assert sum(found["received_bytes"].values()) == pytest.approx(
        found["closed_form_bytes"]["reduced"], rel=0.05
    )
    assert found["closed_form_bytes"]["gradients"] == 0
    config = TRAINER.override(TRAINER.preset("70b"), {"mesh.fsdp": 8, "data.batch": 16, "data.seq_len": 64})
    assert sum(found["received_bytes"].values()) < shapes.gathered_bytes(config) / 10


def test_a_mesh_that_makes_no_sense_is_a_message() -> None:
    for arguments, said in (
        (["--mesh", "1,4,1"], "covers 4 devices of 8"),
        (["--mesh", "eight"], "is no mesh"),
        (["--mesh", "8,1,1", "--batch", "4"], "divide among dp x fsdp"),
        (["--preset", "9b"], "9b"),
        (["--devices", "0"], "are none"),
        (["--fit", "--batch", "4"], "finds the batch itself"),
    ):
        command = [sys.executable, "-m", "mi300bench", "plan", "lora405b", *arguments]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert answer.returncode == 2 and said in answer.stderr and "Traceback" not in answer.stderr
    answer = subprocess.run(
        [sys.executable, "-m", "mi300bench", "plan", "zaya1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2 and "zaya1 cannot be planned" in answer.stderr


def test_every_tensor_s_place_is_shown() -> None:
    pytest.importorskip("jax")
    command = [
        sys.executable,
        "-m",
        "mi300bench",
        "plan",
        "lora405b",
        "--preset",
        "bench",
        "--mesh",
        "1,4,2",
        "--batch",
        "8",
    ]
    answer = subprocess.run(
        [*command, "--show-sharding"], capture_output=True, text=True, check=False, timeout=120
    )
    (row,) = [
        line.split() for line in answer.stdout.splitlines() if line.split()[:1] == ["layers.q_proj"]
    ]
    assert row[1] == "8x512x512" and row[-1] == "8x128x256" and "fsdp" in " ".join(row[2:-1])
