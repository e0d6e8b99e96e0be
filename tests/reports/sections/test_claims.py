from tests.reports.example import MI300X, copy

from mi300bench_reports.sections.claims import own_figures, published


def test_what_cannot_be_right_is_shown_with_its_record(make_record, mi300x) -> None:
    wrong = copy(make_record, 2**31, 9e12, device=MI300X, id="impossible")
    section = own_figures([*mi300x, wrong])
    assert section is not None and section.table is not None
    assert section.evidence == ("impossible",)
    assert any(row[0] == "wrong" and "169" in row[3] for row in section.table.rows)


def test_sound_figures_need_no_table(mi300x) -> None:
    section = own_figures(mi300x)
    assert section is not None and section.table is None and section.evidence == ()


def test_what_cannot_be_judged_has_no_section(make_record) -> None:
    assert own_figures([make_record()]) is None


def test_the_published_accounts_are_judged() -> None:
    section = published()
    assert section.table is not None
    assert any("1,278" in row[3] for row in section.table.rows)
