"""The report in a real browser: offline, sortable, in both themes, usable by keyboard."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright
from tests.available import CHROMIUM
from tests.reports.example import ATTACK

from mi300bench_reports.builder import build
from mi300bench_reports.render import render

pytestmark = pytest.mark.browser
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture
def browser() -> Iterator[Any]:
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser, tmp_path: Path, records, config) -> Iterator[Any]:
    poisoned = [replace(record, source=ATTACK) for record in records]
    (tmp_path / "report.html").write_text(render(build(poisoned, config)))
    opened = browser.new_page(viewport={"width": 1100, "height": 900})
    opened.requests, opened.messages = [], []
    opened.on("request", lambda request: opened.requests.append(request.url))
    opened.on("console", lambda message: opened.messages.append(message.text))
    opened.on("pageerror", lambda error: opened.messages.append(str(error)))
    opened.on("dialog", lambda dialog: opened.messages.append(dialog.message))
    opened.goto(f"file://{tmp_path}/report.html")
    yield opened


def test_the_page_requests_nothing_and_logs_nothing(page) -> None:
    assert len(page.requests) == 1 and page.messages == []
    assert page.locator("h1").inner_text() == "n1: a CPU"


def test_a_table_sorts_by_number_both_ways(page) -> None:
    header = page.locator("#points th", has_text="time")
    header.locator("button").click()
    keys = page.locator("#points tbody tr td:nth-child(4)").evaluate_all(
        "cells => cells.map(c => Number(c.dataset.key))"
    )
    assert keys == sorted(keys) and header.get_attribute("aria-sort") == "ascending"
    header.locator("button").click()
    keys = page.locator("#points tbody tr td:nth-child(4)").evaluate_all(
        "cells => cells.map(c => Number(c.dataset.key))"
    )
    assert keys == sorted(keys, reverse=True)


def test_the_keyboard_sorts_too(page) -> None:
    button = page.locator("#points th button").first
    button.focus()
    page.keyboard.press("Enter")
    assert page.locator("#points th").first.get_attribute("aria-sort") == "ascending"


def test_the_theme_changes_and_charts_follow(page) -> None:
    colour = "getComputedStyle(document.querySelector('figure svg text')).fill"
    light = page.evaluate(colour)
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate(colour) != light


def test_a_phone_shows_no_sideways_scroll(page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_every_chart_has_a_name_and_every_link_a_target(page) -> None:
    assert page.locator("figure svg:not([aria-label])").count() == 0
    assert page.locator("figure svg").count() >= 5
    for target in page.locator("nav a").evaluate_all(
        "links => links.map(a => a.getAttribute('href'))"
    ):
        assert page.locator(target).count() == 1


def test_what_is_folded_away_opens_by_keyboard_and_its_table_sorts(page) -> None:
    summary = page.locator("details.detail summary").first
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator("details.detail").first.get_attribute("open") is not None
    header = page.locator("details.detail th").first
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "ascending"


def test_print_shows_everything_that_is_open_and_no_buttons(page) -> None:
    page.emulate_media(media="print")
    assert not page.locator("#theme").is_visible() and not page.locator("nav").is_visible()
    assert (
        page.locator("#points table").is_visible()
        and not page.locator("details.detail").first.is_visible()
    )
    assert (
        page.evaluate("getComputedStyle(document.querySelector('#points .scroll')).maxHeight")
        == "none"
    )


def test_every_chart_has_a_name_and_every_table_a_region(page) -> None:
    assert page.locator("figure svg").count() > 3
    assert page.locator("figure svg:not([aria-label])").count() == 0
    assert (
        page.locator(".scroll:not([aria-label])").count() == 0
        and page.locator("th:not([aria-sort])").count() == 0
    )
