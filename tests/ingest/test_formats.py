"""How formats are recognised, and damaged files of each."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mi300bench.errors import PlanError, RecordError
from mi300bench.ingest.formats import FORMATS, read
from mi300bench.ingest.reading import CUT_OFF

from tests.ingest.sample_files import FORMAT_OF, SAMPLES, sample


@pytest.mark.parametrize(("name", "kind"), FORMAT_OF.items())
def test_every_format_is_recognised_among_the_others(name: str, kind: str) -> None:
    text = (SAMPLES / name).read_text()
    assert next(key for key, known in FORMATS.items() if known.is_it(text)) == kind
    assert sample(name).rows


@pytest.mark.parametrize(("name", "kind"), FORMAT_OF.items())
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_damaged_file_raises_nothing(name: str, kind: str, data: st.DataObject) -> None:
    text = (SAMPLES / name).read_text()
    start = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 200))
    middle = data.draw(st.text(max_size=40))
    reading = FORMATS[kind].read(text[:start] + middle + text[start + cut :])
    assert all(row.seconds or row.no_speed for row in reading.rows)
    assert all(skipped.why for skipped in reading.skipped)


def test_an_unknown_format_and_a_text_of_none_are_errors() -> None:
    with pytest.raises(PlanError):
        read("x", kind="magic", name="x")
    with pytest.raises(RecordError):
        read("x", kind="auto", name="x")


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("x.log.gz", "\x1f\ufffd", "unpack"),
        ("t.txt", "TransferBench v1.5", "OUTPUT_TO_CSV"),
        ("m.txt", "mamf-finder 1", "(mean)"),
        ("x.txt", "nothing", "--format"),
    ],
)
def test_a_text_of_no_format_gets_a_hint_that_fits(name: str, text: str, word: str) -> None:
    with pytest.raises(RecordError) as caught:
        read(text, kind="auto", name=name)
    assert word in caught.value.hint


@pytest.mark.parametrize("name", ["babelstream.csv", "babelstream.txt", "hipblaslt.txt"])
def test_an_incomplete_last_line_is_not_read(name: str) -> None:
    text = (SAMPLES / name).read_text()
    whole = read(text.rstrip() + "\n", kind="auto", name=name)
    last = max(row.line for row in whole.rows)
    cut = read("\n".join(text.split("\n")[:last])[:-1], kind="auto", name=name)
    assert len(cut.rows) == len(whole.rows) - 1 and cut.skipped[-1].why == CUT_OFF
