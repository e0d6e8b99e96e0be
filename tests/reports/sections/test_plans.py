import pytest
from mi300bench.schema.record import Measurement

from mi300bench_reports.sections.plans import plans


def plan(
    make_record, mesh: str, gigabytes: float, *, arguments: float, day: int = 1
) -> Measurement:
    params = {
        "preset": "405b",
        "mesh": mesh,
        "data.batch": 8,
        "data.seq_len": 2048,
        "data.accumulate": 1,
        "compute.remat": "full",
    }
    run = f"2026010{day}T000000-a"
    return make_record(
        "lora405b.plan",
        params=params,
        run=run,
        started_at=f"2026-01-0{day}T00:00:00+00:00",
        id=f"{mesh} {day}",
        series={
            "bound": (gigabytes * 1e9,),
            "arguments": (arguments * 1e9,),
            "weights": (arguments * 1e9,),
            "adapters": (0.0,),
            "optimizer": (0.0,),
            "temp": ((gigabytes - arguments) * 1e9,),
            "received_bytes": (2**30, 2**30),
            "closed_form_bytes": (2**30, 0),
        },
    )


@pytest.fixture
def compiled(make_record) -> list[Measurement]:
    return [
        plan(make_record, "1,4,2", 300.0, arguments=250.0),
        plan(make_record, "1,8,1", 250.0, arguments=100.0),
        plan(make_record, "1,1,8", 100.0, arguments=90.0),
    ]


def test_what_fits_an_mi300x_is_told_from_what_may_not(compiled) -> None:
    section = plans(compiled)
    assert section is not None and section.table is not None and section.chart
    fits = {row[1]: row[6] for row in section.table.rows}
    assert fits == {"1,1,8": "yes", "1,8,1": "perhaps", "1,4,2": "no"}
    assert [row[1] for row in section.table.rows] == ["1,1,8", "1,8,1", "1,4,2"]
    assert section.table.rows[0][7:9] == ("2 GiB", "1 GiB")
    assert section.table.keys[0][7:9] == (2.0**31, 2.0**30)


def test_the_newest_plan_of_a_point_counts(make_record, compiled) -> None:
    newer = plan(make_record, "1,8,1", 150.0, arguments=100.0, day=2)
    section = plans([*compiled, newer])
    assert section is not None
    assert set(section.evidence) == {"1,4,2 1", "1,8,1 2", "1,1,8 1"}


def test_without_plans_there_is_no_section(records) -> None:
    assert plans(records) is None
