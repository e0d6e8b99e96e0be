"""Stores and configs that several tests of the report draw."""

import pytest
from mi300bench.schema.config import TunedConfig
from mi300bench.schema.record import Measurement
from tests.reports.example import example_config, example_records, mi300x_records


@pytest.fixture
def records(make_record) -> list[Measurement]:
    return example_records(make_record)


@pytest.fixture
def config(records) -> TunedConfig:
    return example_config(records)


@pytest.fixture
def mi300x(make_record) -> list[Measurement]:
    return mi300x_records(make_record)
