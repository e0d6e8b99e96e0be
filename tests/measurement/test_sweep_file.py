from pathlib import Path

import pytest
from mi300bench.errors import PlanError
from mi300bench.measurement import plans, sweep_file
from mi300bench.schema.record import World


def plan(tmp_path: Path, text: str):
    path = tmp_path / "s.toml"
    path.write_text(text)
    return sweep_file.read(path, device="cpu", default_ranks=2, passes=3)


HEAD = '[sweep]\nquestion = "?"\n'


def test_axes_expand_to_exactly_their_product(tmp_path: Path) -> None:
    made = plan(
        tmp_path,
        HEAD
        + '[[probe]]\nname = "memory.copy"\naxes.bytes = { from = "1MiB", to = "8MiB", times = 2 }\n'
        'axes.variant = ["op", "compiled"]\nparams = { dtype = "fp32" }\n',
    )
    assert len(made.points) == 8
    assert {point.params["bytes"] for point in made.points} == {2**20, 2**21, 2**22, 2**23}
    assert {point.params["dtype"] for point in made.points} == {"float32"}


def test_a_collective_gets_the_default_ranks_and_can_state_its_own(tmp_path: Path) -> None:
    text = (
        HEAD
        + '[[probe]]\nname = "collective.all_reduce"\nparams = { bytes = "1K", dtype = "float32" }\n'
    )
    assert [p.world.ranks for p in plan(tmp_path, text).points] == [2]
    assert [p.world.ranks for p in plan(tmp_path, text + "ranks = [2, 4]\n").points] == [2, 4]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[sweep]\n", "no question"),
        (HEAD, "no point"),
        (HEAD + '[[probe]]\nname = "memory.teleport"\n', "no probe"),
        (HEAD + '[[probe]]\nname = "memory.copy"\ncolour = 1\n', "unknown key 'colour'"),
        (HEAD + '[[probe]]\nname = "memory.copy"\naxes.bytes = { from = "1M" }\n', "no 'to'"),
        (HEAD + '[[probe]]\nname = "memory.copy"\nstop = { patience = 1 }\n', "stop"),
        (
            HEAD + '[[probe]]\nname = "memory.copy"\nparams = { bytes = "12 parsecs" }\n',
            "12 parsecs",
        ),
        (HEAD + '[[probe]]\nname = "memory.copy"\nparams = { bytes = [1] }\n', "no single value"),
        ("sweep = 3\n", "not a table"),
        (HEAD + '[[probe]]\nname = "memory.copy"\naxes = 3\n', "not a table"),
        (HEAD + '[[probe]]\nname = "memory.copy"\nranks = "two"\n', "ranks"),
        (
            HEAD
            + '[[probe]]\nname = "memory.copy"\naxes.bytes = { from = 0, to = 8, times = 2 }\n',
            "positive",
        ),
        ('[sweep]\nquestion = "?"\npasses = 0\n', "passes"),
        ("not toml [", "cannot be read"),
        (
            '[sweep]\nquestion = "?"\nmax_points = 2\n[[probe]]\nname = "memory.copy"\naxes.bytes = [1, 2, 3]\n',
            "more than 2",
        ),
        (HEAD + '[[probe]]\nname = "overlap"\nranks = 1\n', "at least 2 ranks"),
    ],
)
def test_what_makes_no_sense_says_which_part(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(PlanError, match=says) as caught:
        plan(tmp_path, text)
    assert caught.value.hint


def test_every_sweep_that_comes_along_can_be_planned() -> None:
    for name, path in sweep_file.available().items():
        made = sweep_file.read(path, device="cpu", default_ranks=2, passes=1)
        assert made.points and made.question.endswith("?"), name


def test_an_unknown_sweep_lists_the_known() -> None:
    with pytest.raises(PlanError) as caught:
        sweep_file.find("nothing")
    assert "hbm" in caught.value.hint


def test_a_repeated_point_counts_once() -> None:
    twice = plans.memory_points(["copy"], [1024, 1024], World(), variants=["op"])
    assert len(plans.plan("?", twice, passes=1).points) == 1


def test_a_models_products_have_both_backward_products() -> None:
    from mi300bench.schema.model import Gemm

    assert plans.model_products([Gemm(name="q", m=512, n=256, k=128)]) == [
        (512, 256, 128, "nt"), (512, 128, 256, "nn"), (256, 128, 512, "tn"),
    ]  # fmt: skip
