"""The doubts of records, as sentences of a choice."""

from mi300bench.schema.doubt import FewPasses, Modelled
from mi300bench.tuning.doubts import doubts_of


def test_each_kind_of_doubt_gives_one_sentence_with_the_number_of_its_records(make_record) -> None:
    few, fewer = FewPasses(passes=2), FewPasses(passes=1)
    modelled = Modelled(source="a table")
    records = [
        make_record(id="a", doubts=(few, modelled)),
        make_record(id="b", doubts=(fewer,)),
        make_record(id="c"),
        make_record(id="other", doubts=(fewer,)),
    ]
    first, second = doubts_of(records, ["a", "b", "c"])
    assert first.startswith(str(few)) and "2 of 3 records" in first
    assert second == str(modelled)


def test_only_the_named_records_count(make_record) -> None:
    records = [make_record(id="a", doubts=(FewPasses(passes=1),)), make_record(id="b")]
    assert doubts_of(records, ["b", "missing"]) == ()
    assert doubts_of(records, []) == ()
    assert doubts_of(records, ["a", "a"]) == (str(FewPasses(passes=1)),)
