from dataclasses import replace

from tests.reports.example import BUCKET

from mi300bench_reports.sections.decisions import MOST_SAMPLES, decisions


def test_a_choice_is_a_row_and_its_samples_are_behind_it(records, config) -> None:
    decided = decisions(config, records)
    assert decided.table is not None
    assert [row[:2] for row in decided.table.rows] == [(BUCKET, "[1.0, 50.0]")]
    (detail,) = decided.details
    assert detail.table is not None
    kinds = [row[0] for row in detail.table.rows]
    assert kinds.count("alternative") == 2 and kinds.count("record") == len(records)
    assert any("1 1 1 1 1 s" in row[2] for row in detail.table.rows)
    assert len(detail.sentences) == 1 and "few passes" in detail.sentences[0]


def test_notes_of_the_config_come_first(records, config) -> None:
    noted = decisions(replace(config, doubts=("a note", "another")), records)
    assert noted.details[0].sentences == ("a note", "another")
    assert len(noted.details) == 2


def test_a_record_that_the_store_lacks_is_named(config) -> None:
    (detail,) = decisions(config, []).details
    assert detail.table is not None
    missing = [row for row in detail.table.rows if row[0] == "record"]
    assert [row[1] for row in missing] == list(config.choices[BUCKET].evidence)


def test_of_many_samples_the_first_are_shown_with_a_count(make_record, config) -> None:
    record = make_record(samples=(0.125,) * (MOST_SAMPLES + 3))
    choice = replace(config.choices[BUCKET], evidence=(record.id,), alternatives=())
    (detail,) = decisions(replace(config, choices={BUCKET: choice}), [record]).details
    assert detail.table is not None
    text = detail.table.rows[0][2]
    assert text.count("0.125") == MOST_SAMPLES and text.endswith("and 3 more")
