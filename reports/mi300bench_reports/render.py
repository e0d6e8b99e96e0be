"""The page as one HTML file, which contains its styles and script and fetches nothing."""

from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from mi300bench_reports.elements import Page


def render(page: Page) -> str:
    """Return the HTML text of `page`."""
    environment = Environment(
        loader=PackageLoader("mi300bench_reports"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    static = files("mi300bench_reports") / "static"
    style, script = (
        (static / name).read_text(encoding="utf-8") for name in ("report.css", "report.js")
    )
    return environment.get_template("report.html.j2").render(page=page, style=style, script=script)
