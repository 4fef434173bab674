"""A served report for the tests of its server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from report_profiles import training
from served_report import Served, running

from aiflame.render.report.document import Report


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The report of a training."""
    with running(Report(training(tmp_path_factory.mktemp("served")))) as served:
        yield served
