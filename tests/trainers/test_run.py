import pytest
from mi300bench.trainers.run import without_node


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["train", "zaya1", "--node", "n1", "--steps", "3"], ["train", "zaya1", "--steps", "3"]),
        (["train", "--node=n1", "zaya1"], ["train", "zaya1"]),
        (["train", "zaya1", "--steps", "3"], ["train", "zaya1", "--steps", "3"]),
        (["train", "zaya1", "--node", "--steps"], ["train", "zaya1"]),
    ],
)
def test_the_node_goes_by_the_environment(given: list[str], kept: list[str]) -> None:
    assert without_node(given) == kept
