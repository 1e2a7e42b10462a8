# SPDX-License-Identifier: Apache-2.0
"""Regenerates every oracle fixture: python -m venv v && v/bin/pip install -r tests/oracle/requirements.txt &&
v/bin/python tests/oracle/make_all.py. Each family has a script of its name in this folder."""
import os
import runpy
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
for script in sorted(os.listdir(here)):
    if script.endswith(".py") and script not in ("oracle.py", "noise.py", "make_all.py", "stablehlo_export.py"):
        runpy.run_path(os.path.join(here, script), run_name="__main__")
