"""The measurement of reports runs, on the smallest one."""

from __future__ import annotations

import pytest

from benchmarks.report import main
from scripts.chromium import found


@pytest.mark.browser
def test_a_small_report_is_measured(capsys):
    if found() is None:
        pytest.skip("no chromium browser is installed")
    main(["--quick"])
    row = [cell.strip() for cell in capsys.readouterr().out.splitlines()[-1].split("|")[1:-1]]
    assert row[:3] == ["2, 10, full", "yes", "3"]
    assert 0.01 < float(row[3]) < 1.0
    assert float(row[-1]) < 1e-5
