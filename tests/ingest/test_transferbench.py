"""TransferBench: values worked out by hand from the sample."""

from tests.ingest.sample_files import sample


def test_the_csv_without_the_sums_over_tests() -> None:
    reading = sample("transferbench.csv")
    assert len(reading.rows) == 3
    first = reading.rows[0]
    assert first.params["dst"] == "G1" and first.seconds == (1.424e-3,)
    sum_over_test, incomplete = 9, 10
    assert [skipped.line for skipped in reading.skipped] == [sum_over_test, incomplete]
