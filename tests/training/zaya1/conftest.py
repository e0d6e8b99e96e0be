"""One thread for torch: pytest's workers share the cores, and torch's threads wait by spinning."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread in this process, until the tests of this folder are done."""
    try:
        import torch
    except ImportError:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
