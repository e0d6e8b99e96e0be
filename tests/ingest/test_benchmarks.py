"""pytest-benchmark: values worked out by hand from the sample."""

from mi300bench.ingest.formats import read

from tests.ingest.sample_files import sample


def test_rounds_where_they_were_saved_else_the_median() -> None:
    with_rounds, without = sample("pytest_benchmark.json").rows[:2]
    assert with_rounds.seconds == (0.0101, 0.0107, 0.0122) and without.seconds == (0.0024,)


def test_invalid_json_is_one_skipped_entry() -> None:
    reading = read('{"machine_info"', kind="pytest-benchmark", name="x")
    assert not reading.rows and len(reading.skipped) == 1
