from pathlib import Path

import pytest
from mi300bench.errors import PlanError
from mi300bench.measurement import sweep_file


def plan(tmp_path: Path, text: str):
    path = tmp_path / "s.toml"
    path.write_text(text)
    return sweep_file.read(path, device="cpu", default_ranks=2, passes=3)


HEAD = '[sweep]\nquestion = "?"\n'
COPY = f'{HEAD}[[probe]]\nname = "memory.copy"\n'


def test_axes_expand_to_exactly_their_product(tmp_path: Path) -> None:
    text = (
        f'{COPY}axes.bytes = {{ from = "1MiB", to = "8MiB", times = 2 }}\n'
        'axes.variant = ["op", "compiled"]\nparams = { dtype = "fp32" }\n'
    )
    made = plan(tmp_path, text)
    assert len(made.points) == 8
    assert {point.params["bytes"] for point in made.points} == {2**20, 2**21, 2**22, 2**23}
    assert {point.params["dtype"] for point in made.points} == {"float32"}


def test_a_range_ends_at_or_before_its_last_value(tmp_path: Path) -> None:
    made = plan(tmp_path, f"{COPY}axes.bytes = {{ from = 3, to = 30, times = 3 }}\n")
    assert [point.params["bytes"] for point in made.points] == [3, 9, 27]


def test_a_collective_gets_the_default_ranks_and_can_state_its_own(tmp_path: Path) -> None:
    text = f'{HEAD}[[probe]]\nname = "collective.all_reduce"\nparams = {{ bytes = "1K" }}\n'
    assert [p.world.ranks for p in plan(tmp_path, text).points] == [2]
    assert [p.world.ranks for p in plan(tmp_path, text + "ranks = [2, 4]\n").points] == [2, 4]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[sweep]\n", "question"),
        (HEAD, "no points"),
        (f'{HEAD}[[probe]]\nname = "memory.teleport"\n', "teleport"),
        (f"{COPY}colour = 1\n", "colour"),
        (f'{COPY}axes.bytes = {{ from = "1M" }}\n', "'to'"),
        (f"{COPY}stop = {{ patience = 1 }}\n", "stop.*patience"),
        (f'{COPY}params = {{ bytes = "12 parsecs" }}\n', "12 parsecs"),
        (f"{COPY}params = {{ bytes = [1] }}\n", r"bytes = \[1\]"),
        ("sweep = 3\n", r"\[sweep\]"),
        (f"{COPY}axes = 3\n", "axes"),
        (f'{COPY}ranks = "two"\n', "ranks"),
        (f"{COPY}axes.bytes = {{ from = 0, to = 8, times = 2 }}\n", "axis bytes"),
        (f"{COPY}axes.bytes = {{ from = 1, to = 8, times = 1 }}\n", "axis bytes"),
        ('[sweep]\nquestion = "?"\npasses = 0\n', "passes"),
        ("not toml [", r"s\.toml"),
        (f"{COPY}axes.bytes = [1, 2, 3]\n".replace("[[", "max_points = 2\n[["), "3 points"),
        (f'{HEAD}[[probe]]\nname = "overlap"\nranks = 1\n', "2 ranks"),
    ],
)
def test_the_error_names_the_wrong_part(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(PlanError, match=named) as caught:
        plan(tmp_path, text)
    assert caught.value.hint


def test_every_sweep_that_ships_can_be_planned() -> None:
    for name, path in sweep_file.available().items():
        made = sweep_file.read(path, device="cpu", default_ranks=2, passes=1)
        assert made.points and made.question.endswith("?"), name


def test_an_unknown_sweep_lists_the_known() -> None:
    with pytest.raises(PlanError) as caught:
        sweep_file.find("nothing")
    assert "hbm" in caught.value.hint
