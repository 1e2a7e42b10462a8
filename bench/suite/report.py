# SPDX-License-Identifier: Apache-2.0
"""report.py: what the suite found, as a table, as JSON lines and as a drawing."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from fluxion import Timing

OWN, STABLEHLO = "own", "stablehlo"
FORMS = {OWN: "own graph", STABLEHLO: "StableHLO"}


@dataclass
class Result:
    workload: str
    in_table: bool
    limit_s: float  # no program can be faster; 0 if nothing is known
    ours: dict[str, Timing] = field(default_factory=dict)  # by form
    peers: dict[str, Timing] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def best_peer(self) -> tuple[str, float] | None:
        return min(((k, t.median) for k, t in self.peers.items()), key=lambda p: p[1], default=None)

    def ratio(self, form: str) -> float | None:
        if form not in self.ours or not self.best_peer:
            return None
        return self.ours[form].median / self.best_peer[1]


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.4g}"


def megabytes(count: int | None) -> str:
    return f"{count / 1e6:.3g}" if count else "-"


def compile_text(t: Timing) -> str:
    return f"{t.compile_s:.2f}"


HEAD = (
    f"{'workload':14} {'form':10} {'ms':>9} {'best peer, ms':>24} {'ratio':>6} {'to limit':>8} {'compile s':>9} "
    f"{'memory MB':>10} {'check':>14}"
)


def line(r: Result, form: str) -> str:
    t = r.ours[form]
    best = r.best_peer
    peer = f"{best[0]} {milliseconds(best[1])}" if best else "-"
    ratio = r.ratio(form)
    limit = f"{t.median / r.limit_s:.2f}" if r.limit_s else "-"
    return (
        f"{r.workload:14} {FORMS[form]:10} {milliseconds(t.median):>9} {peer:>24} "
        f"{'-' if ratio is None else format(ratio, '.2f'):>6} {limit:>8} {compile_text(t):>9} "
        f"{megabytes(t.memory):>10} "
        f"{'-' if t.check is None else format(t.check, '.8g'):>14}"
    )


def peer_line(r: Result, kind: str) -> str:
    t = r.peers[kind]
    return (
        f"{'':14} {kind:10} {milliseconds(t.median):>9} {'':24} {'':6} {'':8} {compile_text(t):>9} "
        f"{megabytes(t.memory):>10} {'-' if t.check is None else format(t.check, '.8g'):>14}"
    )


def lines(r: Result) -> list[str]:
    return (
        [line(r, f) for f in FORMS if f in r.ours]
        + [peer_line(r, k) for k in r.peers]
        + [f"{r.workload:14} PROBLEM {p}" for p in r.problems]
    )


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def summary(results: list[Result]) -> list[str]:
    """Mean and worst ratio of each form, for the rows of the table and for the others."""
    found = []
    for in_table, title in ((True, "table"), (False, "others")):
        for form, name in FORMS.items():
            ratios = {r.workload: r.ratio(form) for r in results if r.in_table == in_table and r.ratio(form)}
            if ratios:
                worst = max(ratios, key=lambda n: ratios[n])
                found.append(
                    f"{title}, {name}: geometric mean {geometric_mean(list(ratios.values())):.2f} of {len(ratios)} "
                    f"ratios to the best peer, worst {ratios[worst]:.2f} ({worst})"
                )
    return found


def json_lines(r: Result) -> list[str]:
    found = []
    for variant, t in [("fluxion-" + f, t) for f, t in r.ours.items()] + list(r.peers.items()):
        row = {
            "workload": r.workload,
            "variant": variant,
            "seconds": t.median,
            "best": t.best,
            "compile_s": t.compile_s,
            "peak_mem_bytes": t.memory,
            "check": t.check,
            "limit_s": r.limit_s,
            "in_table": r.in_table,
        }
        if variant.startswith("fluxion-") and (ratio := r.ratio(variant[len("fluxion-") :])):
            row["ratio"] = ratio
        found.append(json.dumps(row))
    found += [json.dumps({"workload": r.workload, "problem": p}) for p in r.problems]
    return found


# ---- The drawing ----


def label(x: float, y: float, ratio: float, low: float) -> str:
    """The number beside the end of a bar; inside of a bar that reaches the left edge."""
    if ratio < 2 * low:
        place = f'x="{x + 3:.1f}" fill="white"'
    else:
        place = f'x="{x - 3:.1f}" text-anchor="end"' if ratio < 1 else f'x="{x + 3:.1f}"'
    return f'<text {place} y="{y}" font-size="9">{ratio:.2g}</text>'


def svg(results: list[Result], title: str) -> str:
    """Bars of the ratios on a logarithmic axis, from 1/32 to 4; below 1 Fluxion is faster."""
    rows = [r for r in results if any(r.ratio(f) for f in FORMS)]
    low, high, left, width, step = 1 / 32, 4.0, 110, 560, 26
    height = 70 + step * len(rows)

    def x(ratio: float) -> float:
        part = math.log(min(max(ratio, low), high) / low) / math.log(high / low)
        return left + width * part

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 70}" height="{height}" '
        f'font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="16">{escape(title)}</text>',
    ]
    for tick in (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4):
        name = f"{tick:g}" if tick >= 1 else f"1/{round(1 / tick)}"
        strong = tick == 1
        out.append(
            f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="42" y2="{height - 20}" '
            f'stroke="{"black" if strong else "#ccc"}"/>'
        )
        out.append(f'<text x="{x(tick):.1f}" y="36" text-anchor="middle">{name}</text>')
    for i, r in enumerate(rows):
        y = 46 + step * i
        out.append(f'<text x="{left - 6}" y="{y + 14}" text-anchor="end">{escape(r.workload)}</text>')
        for k, (form, colour) in enumerate(((OWN, "#2b6cb0"), (STABLEHLO, "#dd8a30"))):
            ratio = r.ratio(form)
            if not ratio:
                continue
            a, b = sorted((x(1), x(ratio)))
            out.append(f'<rect x="{a:.1f}" y="{y + 10 * k}" width="{max(b - a, 1):.1f}" height="9" fill="{colour}"/>')
            out.append(label(x(ratio), y + 10 * k + 8, ratio, low))
    out.append(
        f'<rect x="{left}" y="{height - 14}" width="9" height="9" fill="#2b6cb0"/>'
        f'<text x="{left + 13}" y="{height - 6}">own graph</text>'
        f'<rect x="{left + 90}" y="{height - 14}" width="9" height="9" fill="#dd8a30"/>'
        f'<text x="{left + 103}" y="{height - 6}">StableHLO from JAX</text>'
    )
    return "\n".join(out + ["</svg>"]) + "\n"
