# SPDX-License-Identifier: Apache-2.0
"""Runs JAX's own tests against the plugin and adds up how they end: script/conformance jax DIR.

DIR is a folder with JAX's conftest.py and tests/, of the version that is installed. Each file is one run of pytest with
pytest-xdist, so that a crash costs one test and not the rest. A test passes, is skipped (by JAX, for platforms and
devices that it does not match), fails, or ends in a crash or hang (90 seconds).

  --mode interpret|compile|auto    how programs run (interpret)
  --x64                            with JAX_ENABLE_X64=1
  --cases N                        JAX_NUM_GENERATED_CASES (1)
  --devices N                      virtual devices (1); tests of several devices are skipped where there is one
  --jobs N                         tests at a time (2)
  --only NAME                      only these files; may be repeated
  --table FILE                     writes the counts as Markdown
"""

import argparse
import collections
import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLASSES = ("pass", "skip", "fail", "crash", "hang")


def arguments():
    parser = argparse.ArgumentParser(prog="script/conformance jax", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--mode", choices=("interpret", "compile", "auto"), default="interpret")
    parser.add_argument("--x64", action="store_true")
    parser.add_argument("--cases", type=int, default=1)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--library", type=pathlib.Path, default=ROOT / "build" / "libfluxion_pjrt.so")
    return parser.parse_args()


def environment(options):
    env = dict(os.environ)
    paths = [str(ROOT / "python" / "jax_plugin"), env.get("PYTHONPATH", "")]
    env.update(PYTHONPATH=os.pathsep.join(p for p in paths if p), JAX_PLATFORMS="fluxion,cpu",
               FLX_PJRT_LIBRARY=str(options.library), FLX_PJRT_MODE=options.mode, FLX_PJRT_THREADS="1",
               FLX_PJRT_DEVICES=str(options.devices),
               JAX_NUM_GENERATED_CASES=str(options.cases), JAX_SKIP_SLOW_TESTS="1",
               JAX_ENABLE_X64="1" if options.x64 else "0")
    return env


def outcome(case):
    """Class and message of a test in pytest's report."""
    for child in case:
        text = (child.get("message") or "") + (child.text or "")
        if child.tag == "skipped":
            return "skip", ""
        if child.tag in ("failure", "error"):
            if "crashed while running" in text:
                return "crash", "the process crashed"
            if "Timeout" in text:
                return "hang", "not finished after 90 s"
            return "fail", first_line(child)
    return "pass", ""


def first_line(child):
    """The message of the exception, without what differs between tests."""
    text = (child.get("message") or child.text or "").strip()
    line = text.splitlines()[0] if text else "no message"
    line = re.sub(r"\(program[^)]*\)|0x[0-9a-f]+", "", line)
    return re.sub(r"\d+(\.\d+)?(e[-+]?\d+)?", "N", line)[:160]


def run_file(path, options, work):
    report = pathlib.Path(work) / (path.stem + ".xml")
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(options.jobs), "--timeout=90", "-W", "ignore",
               "--max-worker-restart=200", "-p", "no:cacheprovider", f"--junitxml={report}", str(path)]
    subprocess.run(command, cwd=path.parents[1], env=environment(options), stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=False)
    if not report.exists():
        return [("crash", "pytest did not finish", path.stem)]
    cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
    return [(*outcome(c), c.get("name")) for c in cases]


def line_of(name, counts):
    run = sum(counts.values()) - counts["skip"]
    rate = 100 * counts["pass"] / run if run else 100
    return f"| {name} | " + " | ".join(str(counts[c]) for c in CLASSES) + f" | {rate:.1f} % |"


def write_table(options, rows, total, reasons):
    with open(options.table, "w", encoding="utf-8") as out:
        kind = "x64" if options.x64 else "f32"
        print(f"Written by `script/conformance jax` on {datetime.date.today()}: {options.mode}, {kind}, "
              f"{options.devices} device{'s' * (options.devices > 1)}, {options.cases} generated case of each test.\n", file=out)
        print("| file | " + " | ".join(CLASSES) + " | rate |\n|---|" + "---|" * (len(CLASSES) + 1), file=out)
        for row in rows:
            print(row, file=out)
        print(line_of("all", total), file=out)
        print("\n| failures | reason |\n|---|---|", file=out)
        for (kind_, reason), n in reasons.most_common():
            print(f"| {n} {kind_} | {reason.replace('|', chr(92) + '|')} |", file=out)


def main():
    options = arguments()
    files = sorted(options.dir.glob("tests/*_test.py"))
    files = [f for f in files if not options.only or f.stem in options.only]
    if not files or not options.library.exists():
        sys.exit(f"conformance: no tests/*_test.py in {options.dir}, or no {options.library}")
    rows, total, reasons = [], collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as work:
        copy = pathlib.Path(work) / "jax"  # pytest writes beside the tests
        shutil.copytree(options.dir, copy)
        subprocess.run(["chmod", "-R", "u+w", str(copy)], check=True)
        for path in files:
            counts = collections.Counter()
            for kind, reason, name in run_file(copy / "tests" / path.name, options, work):
                counts[kind] += 1
                if reason:
                    reasons[kind, reason] += 1
                    print(f"  {kind} {path.stem} {name}: {reason}")
            total += counts
            rows.append(line_of(path.stem, counts))
            print(rows[-1], flush=True)
    print(line_of("all", total))
    if options.table:
        write_table(options, rows, total, reasons)
    return 1 if total["fail"] + total["crash"] + total["hang"] else 0


if __name__ == "__main__":
    sys.exit(main())
