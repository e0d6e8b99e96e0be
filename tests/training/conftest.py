"""Text that several test files train on."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def text_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return real text of a size that is read quickly: some of CPython's documentation."""
    from pydoc_data import topics

    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(list(topics.topics.values())[:40]), encoding="utf-8")
    return path
