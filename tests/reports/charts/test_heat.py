from mi300bench_reports.charts.heat import MOST_WRITTEN, heat


def test_an_empty_cell_stays_empty() -> None:
    names = ["a", "b"]
    chart = heat(
        [[None, 1.5], [2.25, None]],
        rows=names,
        columns=names,
        label="GB/s",
        alt="pairs",
        has_values=True,
    )
    assert ">1.5<" in chart and ">2.25<" in chart and ">nan<" not in chart


def test_a_large_map_has_no_values_in_its_cells() -> None:
    count = MOST_WRITTEN + 1
    names = [str(index) for index in range(count)]
    chart = heat(
        [[7.125] * count] * count,
        rows=names,
        columns=names,
        label="GB/s",
        alt="pairs",
        has_values=True,
    )
    assert ">7.12<" not in chart
