"""hipblaslt-bench and mamf-finder: values worked out by hand from the samples."""

import pytest

from tests.ingest.sample_files import sample


def test_the_lines_of_hipblaslt_bench() -> None:
    reading = sample("hipblaslt.txt")
    large, batched = reading.rows
    assert large.params == {"m": 4096, "n": 4864, "k": 32896, "layout": "tn", "dtype": "bfloat16"}
    rate_it_prints = 707912e9
    assert large.work.flop / large.seconds[0] == pytest.approx(rate_it_prints, rel=1e-4)
    assert batched.params["batch"] == 4 and batched.work.flop == 4 * 2 * 896**3
    grouped, incomplete = 14, 15
    assert [skipped.line for skipped in reading.skipped] == [grouped, incomplete]


def test_the_log_of_mamf_finder() -> None:
    reading = sample("mamf.txt")
    assert reading.device == "AMD Instinct MI300X"
    assert [row.params["m"] for row in reading.rows] == [4096, 10240, 2048]
    best = reading.rows[1]
    assert best.seconds[0] == pytest.approx(2 * 10240 * 15360 * 8192 / 669.9e12)
    assert best.params["dtype"] == "bfloat16"
