# SPDX-License-Identifier: Apache-2.0
"""Runs all tests of this folder with pytest, for script/soak. The last line is `N passed, N failed`; tests that need a
package that is not installed are left out."""

import os
import sys

import pytest


class Count:
    """Counts the outcomes; an error outside of a test is a failure."""

    passed = failed = 0

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed += 1
        elif report.passed and report.when == "call":
            self.passed += 1

    def pytest_collectreport(self, report):
        self.failed += report.failed


count = Count()
pytest.main(["-q", "--no-header", os.path.dirname(os.path.abspath(__file__)), *sys.argv[1:]], plugins=[count])
print(f"{count.passed} passed, {count.failed} failed")
sys.exit(count.failed != 0 or count.passed == 0)
