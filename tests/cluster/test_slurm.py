"""The exported batch file and ranks under srun, on a real one-node Slurm."""

from pathlib import Path

import pytest

from tests.cluster import slurm

pytestmark = [pytest.mark.torch, pytest.mark.slurm]


def test_the_batch_file_trains_and_srun_starts_ranks(tmp_path: Path) -> None:
    with slurm.slurm(tmp_path / "slurm") as environment:
        record = slurm.run_batch_file(tmp_path, environment)
        assert (
            record["world"]["ranks"] == 2
            and len(record["samples"]) == 5
            and record["params"]["tuned"] is True
        )
        rows = slurm.measure_under_srun(tmp_path, environment)
        assert rows[0]["outcome"] == "ok" and rows[0]["world"]["ranks"] == 2
