from dataclasses import replace

from mi300bench.schema.config import ChoiceBasis, Confirmation
from mi300bench.schema.record import Origin
from tests.reports.example import BUCKET, with_verdict

from mi300bench_reports import header


def test_three_machines_are_two_names_and_a_count(make_record) -> None:
    records = [make_record(node=f"n{i}", device="") for i in range(3)]
    line = header.machines(records)
    assert "n0" in line and "n1" in line and "n2" not in line and "1 more" in line


def test_only_data_that_no_machine_gave_is_warned_of(make_record) -> None:
    measured, imported = make_record(), make_record(origin=Origin.IMPORTED, source="a.log")
    assert header.warning([measured, imported]) == ""
    emulated = make_record(origin=Origin.EMULATED, source="namespaces")
    assert header.warning([measured, emulated, emulated]) == "emulated data: namespaces"


def test_each_imported_file_has_its_count(make_record) -> None:
    logs = [
        make_record(origin=Origin.IMPORTED, source=name) for name in ("b.log", "a.log", "b.log")
    ]
    files = header.imported_files([make_record(), *logs])
    assert [(text.split()[0], "a.log" in text) for text in files] == [("1", True), ("2", False)]


def test_a_confirmed_gain_is_the_headline(config) -> None:
    headline = header.headline(config)
    assert "20.0%" in headline.title
    assert headline.set_this == f"{BUCKET} = [1.0, 50.0]"
    assert "20.0%" in headline.gain and "16.0% to 24.0%" in headline.gain
    assert "3 fresh" in headline.certainty and "800 ms" in headline.certainty


def test_without_a_gain_the_defaults_stay(config) -> None:
    kept = replace(config.choices[BUCKET], value="default")
    same = with_verdict(replace(config, choices={BUCKET: kept}), Confirmation.SAME)
    headline = header.headline(same)
    assert headline.title == "Keep the defaults of zaya1"
    assert headline.set_this == header.NOTHING_TO_SET
    assert "+20.0%" in headline.gain and "same" in headline.gain


def test_a_choice_that_no_run_judged_is_named_as_predicted(config) -> None:
    mesh = replace(
        config.choices[BUCKET], value=[4, 2], default=[1, 8], basis=ChoiceBasis.PREDICTED
    )
    kept = replace(config.choices[BUCKET], value="default", basis=ChoiceBasis.PREDICTED)
    both = replace(config, choices={BUCKET: kept, "mesh.fsdp": mesh})
    headline = header.headline(with_verdict(both, Confirmation.CANNOT_TELL))
    assert "mesh.fsdp" in headline.title and BUCKET not in headline.title
    assert headline.set_this == "mesh.fsdp = [4, 2]"
    faster = header.headline(both)
    assert "mesh.fsdp" not in faster.title and "20.0%" in faster.title


def test_the_sentence_of_a_choice_does_not_decide(config) -> None:
    """Only the basis does: a sentence may mention that something was not confirmed."""
    choice = replace(config.choices[BUCKET], why="not confirmed by fresh runs")
    same = with_verdict(replace(config, choices={BUCKET: choice}), Confirmation.SAME)
    assert header.headline(same).title == "Keep the defaults of zaya1"


def test_without_fresh_runs_nothing_is_a_gain(config) -> None:
    predicted = header.headline(replace(config, confirmed=None))
    assert predicted.gain == "not measured" and predicted.set_this.startswith(BUCKET)
    kept = replace(config.choices[BUCKET], value="default")
    nothing = header.headline(replace(config, confirmed=None, choices={BUCKET: kept}))
    assert nothing.set_this == header.NOTHING_TO_SET
    assert nothing.title != predicted.title
