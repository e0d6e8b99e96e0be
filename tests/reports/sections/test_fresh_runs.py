from dataclasses import replace

from tests.reports.example import seconds

from mi300bench_reports.sections.fresh_runs import fresh_runs


def test_every_config_that_ran_is_a_row(config) -> None:
    section = fresh_runs(config)
    assert section is not None and section.table is not None and section.chart
    default, tuned, ablation = section.table.rows
    assert default[0] == "default" and default[4:7] == ("", "", "")
    assert tuned[3] == "+12.5%" and tuned[4].startswith("0.800 ") and tuned[5] == "faster"
    assert ablation[0] == "best without buckets" and ablation[6].startswith("1.100 ")
    assert [row[7] for row in section.table.rows] == ["ran-default", "ran-tuned", ""]
    assert len(section.sentences) == 1


def test_a_prediction_far_off_is_a_doubt(config) -> None:
    default, *rest = config.confirmed.sides
    far = replace(default, predicted_s=seconds(0.5))
    confirmed = replace(config.confirmed, sides=(far, *rest))
    section = fresh_runs(replace(config, confirmed=confirmed))
    assert section is not None and "-50%" in section.sentences[-1]


def test_without_fresh_runs_there_is_no_section(config) -> None:
    assert fresh_runs(replace(config, confirmed=None)) is None
    assert fresh_runs(replace(config, confirmed=replace(config.confirmed, sides=()))) is None
