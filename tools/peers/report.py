# SPDX-License-Identifier: Apache-2.0
"""What the measurements say, as text, and as one self-contained SVG. Standard library only.

A result: network, threads, failed {name: why}, tuning_s {name: s}, kernels (far), and runs {name: p50_ms p90_ms
min_ms runs turns ratio ratio_low ratio_high max_error}; ratio is that name's time over hone's, round against round."""
from html import escape

import measure

FP32 = "hone fp32"  # beside int8
WRONG_INT8 = 0.5  # quantised networks are far from floats, each library in its own way
WRONG_HALF = 0.2  # products of 16-bit floats, whose errors add up in a network
WRONG = 1e-2  # error from which an answer does not count: another computation, not another rounding


def busy(row):
    """Why a network's figures give no verdict: what disturbed the machine; None: nothing did."""
    return row.get("machine", {}).get("busy")


def is_peer(name):
    return not name.startswith("hone")


def kernels_only(name):
    """A library's kernels, which compute no answers of the network: shown, but no rival."""
    return name.endswith(" kernels")


def wrong(v, limit=WRONG):
    """No answer to compare, or another one."""
    return v.get("max_error") is None or v["max_error"] >= limit


def best_peer(row, hone="hone"):
    """(name, time over that of these kernels of hone) of the fastest peer with a right answer; None: there is none, hone
    has no such kernels, or an answer of its own is wrong."""
    limit = row.get("wrong", WRONG)
    if hone not in row["runs"] or any(wrong(v, limit) for n, v in row["runs"].items() if not is_peer(n)):
        return None
    good = [(v["ratio"] / row["runs"][hone].get("ratio", 1), n) for n, v in row["runs"].items()
            if is_peer(n) and not kernels_only(n) and "ratio" in v and not wrong(v, limit)]
    return min(good)[::-1] if good else None


def far(kernels, count=8):
    """The kernels with the most microseconds above their roofline; one without a known roofline counts whole."""
    rows = [{"name": k["name"], "label": k.get("label", ""), "us": k["us"], "roofline_pct": k.get("roofline_pct"),
             "kind": k.get("kernel_kind"), "above_us": k["us"] * max(0, 1 - (k.get("roofline_pct") or 0) / 100)}
            for k in kernels]
    return sorted(rows, key=lambda r: -r["above_us"])[:count]


def dense(label):
    """Convolutions and matrix products, alone or as a fused group, on their own operations."""
    return ("conv" in label or "matmul" in label) and "F(2,3)" not in label and "F(4,3)" not in label


def roofline(kernels, enough=75):
    """Of the convolutions and products (Winograd apart): (shares of the roofline, those below `enough` %). A share above
    100 %, from weights that an earlier run left in a cache, counts as 100."""
    rows = [k for k in kernels if dense(k.get("label", "")) and k.get("roofline_pct")]
    return [min(100, k["roofline_pct"]) for k in rows], [k for k in far(rows, len(rows)) if k["roofline_pct"] < enough]


def network_text(row):
    tuned = ", ".join(f"{n} {s:.0f} s" for n, s in row["tuning_s"].items() if s)
    out = [f"\n{row['network']}, {row['threads']} thread{'s' * (row['threads'] > 1)}" + (f" (tuned: {tuned})" if tuned else ""),
           f"  {'':17}{'p50 ms':>10}{'p90 ms':>10}{'min ms':>10}{'ratio':>8}{'95 % interval':>16}{'max error':>11}"]
    for n, v in sorted(row["runs"].items(), key=lambda x: x[1]["p50_ms"]):
        err = v.get("max_error")
        out.append(f"  {n:17}{v['p50_ms']:10.3f}{v['p90_ms']:10.3f}{v['min_ms']:10.3f}{v.get('ratio', 0):8.2f}"
                   f"{v.get('ratio_low', 0):9.2f}-{v.get('ratio_high', 0):<6.2f}" +
                   (f"{err:11.1e}" + (" WRONG" if err >= row.get("wrong", WRONG) else "") if err is not None else f"{'' if kernels_only(n) else '?':>11}"))
    if any(kernels_only(n) for n in row["runs"]):
        out.append("  (kernels: the convolutions and matrix products alone, nothing between them)")
    out += [f"  {n:17}failed: {why}" for n, why in row["failed"].items()]
    if busy(row):
        out.append(f"  the machine was busy: {busy(row)}")
    if row.get("kernels"):
        out.append("  above the roofline: " + "; ".join(
            f"{k['above_us']:.0f} us {k['label'] or k['name']}" + (f" ({k['roofline_pct']:.0f} %)" if k["roofline_pct"] else "")
            for k in row["kernels"][:4]))
    return "\n".join(out)


def totals(results, threads, hone="hone"):
    """(geometric mean over the best peers, count, networks where hone, with these kernels, is not ahead)."""
    best = [(r["network"], best_peer(r, hone)) for r in results if r["threads"] == threads and not busy(r)]
    best = [(n, b) for n, b in best if b]
    return (measure.geomean(b[1] for _, b in best), len(best), [(n, *b) for n, b in best if b[1] <= 1])


def spread(results, threads, hone="hone"):
    """The 95 % interval of that mean, as wide as the networks' own intervals allow: (low, high); None: unknown."""
    ends = []
    for r in results:
        best = best_peer(r, hone) if r["threads"] == threads and not busy(r) else None
        if best:
            v, h = r["runs"][best[0]], r["runs"][hone]
            ends.append((v.get("ratio_low", 0) / h.get("ratio_high", 1), v.get("ratio_high", 0) / h.get("ratio_low", 1)))
    return (measure.geomean(e[0] for e in ends), measure.geomean(e[1] for e in ends)) if ends and min(ends)[0] > 0 else None


def headline(results, threads, kind):
    """One sentence, or None."""
    mean, n, behind = totals(results, threads, kind)
    ends = spread(results, threads, kind)
    if not mean:
        return None
    interval = f", 95 % interval {ends[0]:.2f} to {ends[1]:.2f}" if ends else ""
    lead = f"{threads} thread{'s' * (threads > 1)}: {kind} "
    if ends and ends[0] <= 1 <= ends[1]:
        figure = f"shows no significant difference to the best peer of each network ({mean:.2f} times as fast"
    else:
        figure = f"is {mean:.2f} times as fast as the best peer of each network ("
        interval = interval[2:]
    return (lead + figure + interval + f"{', ' if interval else ''}geometric mean of {n}); behind on {len(behind)}: " +
            (", ".join(f"{a} ({p} {r:.2f})" for a, p, r in behind) or "none"))


def page(out):
    """The page of results, in Markdown: machine, date, versions, headlines, a table for each network."""
    lines = ["# hone beside other libraries", "",
             "Written by `make bench-peers`; do not edit. Times of neighbouring turns are compared: a ratio is that library's time over "
             "hone's, with its 95 % interval. A library's `kernels` are its convolutions and matrix products alone.", "",
             "```"] + summary_text(out).strip().splitlines() + ["```"]
    for row in out["results"]:
        called = "called from Python, as the peers are" if row.get("called") == "Python" else "called from C, the peers from Python"
        lines += ["", f"## {row['network']}, {row['threads']} thread{'s' * (row['threads'] > 1)}", "", f"hone is {called}."]
        if busy(row):
            lines += ["", f"No verdict: the machine was busy ({busy(row)})."]
        lines += ["", "| | median ms | ratio | 95 % interval | largest error |", "|---|---|---|---|---|"]
        for n, v in sorted(row["runs"].items(), key=lambda x: x[1]["p50_ms"]):
            err = v.get("max_error")
            lines.append(f"| {n} | {v['p50_ms']:.3f} | {v.get('ratio', 0):.2f} | {v.get('ratio_low', 0):.2f} to {v.get('ratio_high', 0):.2f} | "
                         + ("" if err is None else f"{err:.1e}" + (" (wrong)" if err >= row.get("wrong", WRONG) else "")) + " |")
        lines += [f"| {n} | failed: {why} | | | |" for n, why in row["failed"].items()]
    return "\n".join(lines)


def against(results, threads, kind, peer):
    """hone's time with these kernels over one peer's: (geometric mean, count)."""
    runs = [r["runs"] for r in results if r["threads"] == threads and not busy(r)]
    v = [r[kind]["p50_ms"] / r[peer]["p50_ms"] for r in runs if kind in r and peer in r and not wrong(r[peer])]
    return measure.geomean(v), len(v)


def roofline_text(results, threads):
    rows = [r["roofline"] for r in results if r["threads"] == threads and r.get("roofline")]
    shares = [s for r in rows for s in r["shares"]]
    if not shares:
        return []
    return [f"  of the roofline, {len(shares)} kernels with convolutions or products (Winograd apart): {measure.geomean(shares):.0f} % "
            f"in the geometric mean, {sum(len(r['below']) for r in rows)} below 75 %"]


def summary_text(out):
    m = (out["machine"].get("devices") or [{}])[0]
    lines = ["", f"{out['cpu']}, {out['system']}, {out['date']}",
             f"peak {m.get('gflops_per_core', 0):.0f} GFLOP/s a core, clock {out.get('clock_mhz') or '?'} MHz, "
             f"reads GB/s by level {m.get('read_gbs')}; processors {out['cpus']}",
             "versions: " + ", ".join(f"{n} {v}" for n, v in out["versions"].items()),
             "tuning: hone " + (f"{out['budget_s']:g} s a network" if out["budget_s"] else "as an earlier run left it")]
    for threads in sorted({r["threads"] for r in out["results"]}):
        for kind in ("hone", "hone exact"):
            line = headline(out["results"], threads, kind)
            lines += [line] if line else []
        for kind in ("hone", "hone default", "hone fallback"):
            v, n = against(out["results"], threads, kind, "onnxruntime")
            lines += [f"  {kind} takes {v:.2f} of ONNX Runtime's time (geometric mean of {n})"] if v else []
        lines += roofline_text(out["results"], threads)
    lines += [f"not counted: {r['network']}, {r['threads']} threads: no right answers to compare"
              for r in out["results"] if not best_peer(r) and not busy(r)]
    lines += [f"no verdict: {r['network']}, {r['threads']} threads: the machine was busy ({busy(r)})" for r in out["results"] if busy(r)]
    lines += [f"left out: {n}: {why}" for n, why in out["left_out"].items()]
    return "\n".join(lines)


COLORS = {"hone": "#c0392b", "hone exact": "#cd6155", "hone w16": "#e6b0aa", "hone half": "#d98880", "hone half-sum": "#cb4335", FP32: "#a04000", "hone default": "#e59866", "hone fallback": "#f5cba7", "onnxruntime": "#2471a3",
          "openvino": "#7d3c98", "ncnn": "#1e8449", "mnn": "#b7950b", "opencv": "#5d6d7e", "tvm": "#148f77", "onednn kernels": "#d7bde2", "xnnpack kernels": "#aed6f1",
          "openblas kernels": "#abebc6"}


def svg(out):
    """Bars of ratios to hone, a group for each network and number of threads; 1 is hone."""
    rows = [r for r in out["results"] if r["runs"]]
    width, left, bar, top = 900, 190, 13, 70
    height = top + sum(len(r["runs"]) * bar + 14 for r in rows) + 20
    most = max([2.0] + [v.get("ratio", 0) for r in rows for v in r["runs"].values() if v.get("ratio", 0) < 8])
    scale = (width - left - 150) / most
    s = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
         f'font-size="11"><rect width="100%" height="100%" fill="white"/>',
         f'<text x="10" y="20" font-size="15">time over hone\'s: {escape(out["cpu"])}</text>',
         f'<text x="10" y="38">{escape(", ".join(f"{n} {v}" for n, v in out["versions"].items()))}</text>',
         f'<line x1="{left + scale:.1f}" y1="{top - 12}" x2="{left + scale:.1f}" y2="{height}" stroke="#999" '
         'stroke-dasharray="3"/>']
    y = top
    for r in rows:
        s.append(f'<text x="10" y="{y + 10}" font-weight="bold">{escape(r["network"])}, {r["threads"]} thr.</text>')
        for n, v in sorted(r["runs"].items(), key=lambda x: x[1].get("ratio", 0)):
            w = min(v.get("ratio", 0), most) * scale
            s.append(f'<rect x="{left}" y="{y}" width="{w:.1f}" height="{bar - 2}" fill="{COLORS.get(n, "#888")}"/>'
                     f'<text x="{left + w + 4:.1f}" y="{y + 10}">{escape(n)} {v.get("ratio", 0):.2f} ({v["p50_ms"]:.3g} ms)</text>')
            y += bar
        y += 14
    return "\n".join(s + ["</svg>"])
