from tests.reports.example import ATTACK

from mi300bench_reports.charts.lines import Curve, by_size, losses
from mi300bench_reports.charts.svg import INK, LONGEST_LABEL, binary_size, short


def test_a_chart_has_the_colours_of_the_page_and_a_name() -> None:
    curve = Curve(label="copy", x=(2.0**20, 2.0**30), y=(1.0, 2.0))
    chart = by_size([curve], x_label="size", y_label="GB/s", alt='a "name" <here>')
    assert "currentColor" in chart and INK not in chart
    assert 'aria-label="a &quot;name&quot; &lt;here>"' in chart
    assert ">1 MiB<" in chart.replace("\n", "")


def test_the_same_data_gives_the_same_bytes() -> None:
    curves = [Curve(label="a", x=(1, 2), y=(3.0, 2.0))]
    assert losses(curves, alt="loss") == losses(curves, alt="loss")


def test_a_label_is_never_markup_or_mathematics() -> None:
    labels = (ATTACK, "$\\frac{1}{", "</text><script>")
    chart = losses([Curve(label=text, x=(1, 2), y=(3.0, 2.0)) for text in labels], alt="loss")
    assert "<script" not in chart and "<img" not in chart
    assert "$\\frac{1}{" in chart and "&lt;script&gt;" in chart


def test_a_long_label_leaves_room_for_the_chart() -> None:
    assert len(short("x" * 200)) == LONGEST_LABEL and short("copy") == "copy"


def test_sizes_are_binary() -> None:
    assert [binary_size(size, 0) for size in (8, 2**11, 2**20, 3 * 2**30)] == [
        "8 B",
        "2 KiB",
        "1 MiB",
        "3 GiB",
    ]
