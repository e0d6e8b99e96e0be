"""What a page consists of, as plain data. Nothing is computed, drawn or formatted here."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Columns and rows of text. `keys` sort the rows where the text would sort wrongly."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    keys: tuple[tuple[float | str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """A folded part of a section: a summary, sentences and a table."""

    summary: str
    sentences: tuple[str, ...] = ()
    table: Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading and what is under it. `chart` is SVG; `evidence` has the ids of the records."""

    anchor: str
    title: str
    sentences: tuple[str, ...] = ()
    chart: str = ""
    table: Table | None = None
    code: str = ""
    details: tuple[Detail, ...] = ()
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The answer on top of the page: what to set, what it gains, and what that rests on."""

    title: str
    set_this: str
    gain: str
    certainty: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The whole report. `imported` names the files that came from other tools."""

    machine: str
    warning: str
    imported: tuple[str, ...]
    headline: Headline | None
    sections: tuple[Section, ...]
