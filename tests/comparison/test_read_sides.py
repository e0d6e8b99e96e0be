"""The records of a side, by node, by run and by folder."""

from pathlib import Path

import pytest
from mi300bench.comparison.read_sides import records_of_side
from mi300bench.errors import PlanError, RecordError
from mi300bench.store.writer import RunWriter


@pytest.fixture
def store(tmp_path: Path, make_record) -> Path:
    """Return a store of two nodes with one run each."""
    for node in ("n1", "n2"):
        with RunWriter(tmp_path, node=node, header={"plan": "", "passes": 1, "points": 1}) as run:
            run.write(make_record(node=node, run=run.run_id))
            run.finish()
    return tmp_path


def silent(_: str) -> None:
    """Ignore a warning."""


def test_a_side_is_a_node_a_run_or_a_folder(store: Path) -> None:
    (record,) = records_of_side("node:n2", store, silent)
    assert record.node == "n2"
    assert records_of_side(f"run:{record.run}", store, silent) == (record,)
    assert records_of_side(str(store / "n2"), store, silent) == (record,)
    assert len(records_of_side(str(store), store, silent)) == 2


@pytest.mark.parametrize("text", ["node:n9", "run:none", "nowhere"])
def test_what_names_no_side_is_refused_with_a_hint(store: Path, text: str) -> None:
    with pytest.raises(PlanError) as caught:
        records_of_side(text, store, silent)
    assert caught.value.hint


def test_an_unknown_node_lists_the_known(store: Path) -> None:
    with pytest.raises(PlanError) as caught:
        records_of_side("node:n9", store, silent)
    assert "n1, n2" in caught.value.hint


def test_a_folder_without_a_record_is_an_error(store: Path) -> None:
    (store / "empty").mkdir()
    with pytest.raises(RecordError):
        records_of_side(str(store / "empty"), store, silent)
