# SPDX-License-Identifier: Apache-2.0
"""The package of the build folder is tested, unless $FLX_TEST_INSTALLED says that an installed one is."""

import os
import sys

import pytest

if not os.environ.get("FLX_TEST_INSTALLED"):
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path.insert(0, os.environ.get("FLX_PYTHON_PATH", os.path.join(root, "build", "python")))


@pytest.fixture
def rng():
    return pytest.importorskip("numpy").random.default_rng(7)
