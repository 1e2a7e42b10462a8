# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/python.md give what the page shows, and those of the guides what the other library gives."""

import doctest
import os
import re

import pytest

np = pytest.importorskip("numpy")
DOCS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "docs")


def blocks_of(page, language):
    with open(os.path.join(DOCS, page)) as file:
        return re.findall(rf"^```{language}\n(.*?)^```$", file.read(), re.M | re.S)


def test_page():
    blocks = blocks_of("python.md", "pycon")
    assert len(blocks) >= 7
    test = doctest.DocTestParser().get_doctest("".join(blocks), {}, "python.md", "python.md", 0)
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(test)
    assert not failed


@pytest.mark.parametrize("library,page", [("jax", "guide/from-jax.md"), ("torch", "guide/from-pytorch.md")])
def test_side_by_side(library, page):
    pytest.importorskip(library)
    theirs, ours = blocks_of(page, "python")
    names = {}
    exec(theirs, names)
    expected = [np.asarray(x) for x in names.pop("result")]
    exec(ours, names)
    assert len(names["result"]) == len(expected)
    for got, wanted in zip(names["result"], expected):
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-4, atol=1e-5)
