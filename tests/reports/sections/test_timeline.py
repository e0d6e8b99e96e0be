from dataclasses import replace

from tests.reports.example import BUCKET

from mi300bench_reports.sections.timeline import timeline


def test_the_buckets_of_the_default_and_of_the_choice_are_simulated(records, config) -> None:
    section = timeline(config, records)
    assert section is not None and section.table is not None and section.chart
    default, chosen = section.table.rows
    assert default[:2] == ("default", "2") and chosen[0] == "[1.0, 50.0] MiB"
    assert "b with 4 MiB" in section.sentences[1]
    backward = next(record for record in records if record.probe == "zaya1.backward")
    assert section.evidence == (backward.id,)


def test_the_best_predicted_caps_are_drawn_too(records, config) -> None:
    choice = config.choices[BUCKET]
    best = replace(choice.alternatives[0], value=[5.0, 5.0], predicted_s=config.confirmed.tuned_s)
    drawn = replace(choice, value="default", alternatives=(*choice.alternatives, best))
    section = timeline(replace(config, choices={BUCKET: drawn}), records)
    assert section is not None and section.table is not None
    assert [row[0] for row in section.table.rows] == ["default", "[5.0, 5.0] MiB"]


def test_a_thinned_store_has_no_timeline(records, config) -> None:
    assert timeline(replace(config, choices={}), records) is None
    for probe in ("zaya1.backward", "collective.all_reduce", "overlap"):
        assert timeline(config, [r for r in records if r.probe != probe]) is None
    one_size = [
        r for r in records if r.probe != "collective.all_reduce" or "65536" in str(r.params)
    ]
    assert timeline(config, one_size) is None
