"""The store and the config of the page that the browser opens."""

import pytest
from mi300bench.schema.config import TunedConfig
from mi300bench.schema.record import Measurement
from tests.reports.example import example_config, example_records


@pytest.fixture
def records(make_record) -> list[Measurement]:
    return example_records(make_record)


@pytest.fixture
def config(records) -> TunedConfig:
    return example_config(records)
