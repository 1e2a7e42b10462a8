# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/python.md give what the page shows."""

import doctest
import os
import re

import pytest

pytest.importorskip("numpy")
PAGE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "docs", "python.md")


def test_page():
    with open(PAGE) as file:
        blocks = re.findall(r"^```pycon\n(.*?)^```$", file.read(), re.M | re.S)
    assert len(blocks) >= 7
    test = doctest.DocTestParser().get_doctest("".join(blocks), {}, "python.md", PAGE, 0)
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(test)
    assert not failed
