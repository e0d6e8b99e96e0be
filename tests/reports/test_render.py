from dataclasses import replace
from html.parser import HTMLParser

import pytest
from mi300bench.schema.record import Measurement, Origin, Outcome, Work
from tests.reports.example import ATTACK

from mi300bench_reports.builder import build
from mi300bench_reports.render import render


class Tags(HTMLParser):
    """Counts the tags of a page, and keeps what they fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.fetched += [
            value or ""
            for name, value in attrs
            if name in ("src", "href", "xlink:href") and not (value or "").startswith("#")
        ]


@pytest.fixture
def poisoned(records, mi300x, make_record) -> list[Measurement]:
    """Records whose every text is an attack."""
    hostile = [
        replace(
            record,
            node=ATTACK,
            device=ATTACK,
            source=ATTACK,
            conditions={ATTACK: ATTACK},
            params=dict(record.params)
            | ({"dtype": ATTACK, "layout": ATTACK} if record.probe == "gemm" else {}),
        )
        for record in [*records, *mi300x]
    ]
    hostile.append(
        replace(records[-1], outcome=Outcome.FAILED, reason=ATTACK, params={ATTACK: ATTACK})
    )
    hostile += [
        make_record(
            "transfer",
            params={"bytes": 2**20, "src": ATTACK, "dst": f"G{index}"},
            work=Work(message_bytes=1.0),
            id=f"t{index}",
        )
        for index in range(3)
    ]
    hostile.append(
        make_record(
            f"collective.{ATTACK}",
            ranks=3,
            rank_samples=((1.0,) * 5,) * 3,
            work=Work(message_bytes=8.0),
        )
    )
    return hostile


def test_the_same_records_give_the_same_bytes(records, config) -> None:
    assert render(build(records, config)) == render(build(list(reversed(records)), config))


def test_the_first_line_is_the_machine(records, config) -> None:
    text = render(build(records, config))
    assert text.index("<h1>n1: a CPU</h1>") < text.index("<h2")


def test_the_warning_comes_before_everything_else(records) -> None:
    made = [replace(r, origin=Origin.EMULATED, source="two namespaces") for r in records]
    text = render(build(made, None))
    assert 0 < text.index("two namespaces") < text.index("<main")


def test_data_stays_text(poisoned, config) -> None:
    attacked = replace(config, trainer=ATTACK, node=ATTACK, made_by=ATTACK)
    text = render(build(poisoned, attacked))
    assert "<script>alert" not in text and "<img" not in text
    tags = Tags(text)
    assert tags.names.count("script") == 1 and "img" not in tags.names


def test_the_page_fetches_nothing(records, config) -> None:
    text = render(build(records, config))
    assert "default-src 'none'" in text
    assert Tags(text).fetched == []


def test_every_record_of_a_choice_is_folded_under_it(records, config) -> None:
    text = render(build(records, config))
    assert text.count('<details class="detail">') == 1
    assert all(record.id in text for record in records)
