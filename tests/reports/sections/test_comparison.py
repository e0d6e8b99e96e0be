import numpy as np
import pytest
from mi300bench.schema.record import Measurement, Work, short_hash

from mi300bench_reports.sections.comparison import changes, nodes

SLOW_NODE, SLOW_FROM_WEEK = 5, 3


@pytest.fixture
def weeks(make_record) -> list[Measurement]:
    """Eight nodes over six weeks, of which one takes 6 % longer from the fourth week on."""
    draw = np.random.default_rng(1)
    records = []
    for node in range(8):
        for week in range(6):
            slow = 1.06 if node == SLOW_NODE and week >= SLOW_FROM_WEEK else 1.0
            for point in range(10):
                for number in range(3):
                    taken_s = 1e-3 * (1 + point) * slow * float(np.exp(draw.normal(0, 0.006)))
                    records.append(
                        make_record(
                            params={"bytes": 2 ** (20 + point), "variant": "op"},
                            node=f"n{node}",
                            samples=(taken_s,) * 5,
                            run=f"2026100{week}T000000-{node}",
                            pass_index=number,
                            id=short_hash([node, week, point, number]),
                            started_at=f"2026-10-0{1 + week}T00:00:00+00:00",
                            work=Work(bytes_read=1.0, bytes_written=1.0),
                        )
                    )
    return records


def test_the_slow_node_is_named(weeks) -> None:
    section = nodes(weeks)
    assert section is not None and section.table is not None
    assert [row[1] for row in section.table.rows if row[0] == "yes"] == [f"n{SLOW_NODE}"]
    assert len(section.table.rows) == 8
    assert f"n{SLOW_NODE}" in section.sentences[0]


def test_two_nodes_have_no_odd_one(weeks) -> None:
    assert nodes([record for record in weeks if record.node in ("n0", "n5")]) is None


def test_the_step_of_a_history_has_its_date(weeks) -> None:
    section = changes(weeks)
    assert section is not None
    dated = [sentence for sentence in section.sentences if "2026-10-04" in sentence]
    assert len(dated) == 1 and dated[0].startswith(f"n{SLOW_NODE}")


def test_a_point_that_got_slower_is_a_row(make_record) -> None:
    def run(number: int, slow_point: int | None) -> list[Measurement]:
        return [
            make_record(
                params={"bytes": 2 ** (20 + point)},
                samples=(1e-3 * (1.5 if point == slow_point else 1.0) * noise,) * 5,
                run=f"2026010{number}T000000-a",
                started_at=f"2026-01-0{number}T00:00:00+00:00",
                pass_index=index,
                id=f"{number}-{point}-{index}",
            )
            for point in range(8)
            for index, noise in enumerate((0.999, 1.0, 1.001))
        ]

    section = changes([*run(1, None), *run(2, None), *run(3, slow_point=4)])
    assert section is not None and section.table is not None
    (row,) = section.table.rows
    assert row[0] == "n1" and row[1] == "slower" and "1048576" not in row[3]
    assert row[3].startswith("memory.copy") and str(2**24) in row[3] and row[4] == "2-4-0 3-4-0"


def test_one_run_has_changed_nothing(records) -> None:
    assert changes(records) is None
