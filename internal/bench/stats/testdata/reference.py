# Writes reference.json beside this file: figures of scipy 1.17.1 (numpy 2.4.6), and, where
# scipy has no exact method for ties and zeros, of full enumeration.
import itertools, json, math, os
from fractions import Fraction
import numpy as np
from scipy import stats

rng = np.random.default_rng(2016)


def ranks(a):
    return stats.rankdata(a)


def signed_rank_enumerated(x):
    """Pratt's zeros, midranks, all 2^n signs."""
    r = ranks(np.abs(x))
    r, s = r[x != 0], np.sign(x[x != 0])
    if len(r) == 0:
        return 1.0
    w = r[s > 0].sum()
    sums = np.array([sum(c) for c in itertools.product(*[(0.0, v) for v in r])])
    return min(1.0, 2 * min((sums <= w + 1e-9).mean(), (sums >= w - 1e-9).mean()))


def signed_rank_counts(n):
    counts = [1]
    for k in range(1, n + 1):
        counts = [(counts[i] if i < len(counts) else 0) + (counts[i - k] if 0 <= i - k < len(counts) else 0) for i in range(len(counts) + k)]
    return counts


def walsh(x, level):
    """All averages, and the largest k whose tail the level allows, in whole numbers."""
    n = len(x)
    w = sorted((x[i] + x[j]) / 2 for i in range(n) for j in range(i, n))
    half, k, total = Fraction(1 - Fraction(str(level))) / 2, 0, 0
    for c in signed_rank_counts(n):
        total += c
        if Fraction(total, 2**n) > half:
            break
        k += 1
    ends = [w[k - 1], w[-k]] if k else [None, None]
    return {"level": level, "estimate": float(np.median(w)), "low": ends[0], "high": ends[1]}


def mann_whitney_enumerated(x, y):
    r = ranks(np.concatenate([x, y]))
    w = r[: len(x)].sum()
    sums = np.array([sum(c) for c in itertools.combinations(r, len(x))])
    return min(1.0, 2 * min((sums <= w + 1e-9).mean(), (sums >= w - 1e-9).mean()))


def shift(x, y, level):
    d = sorted(a - b for a in x for b in y)
    m, n = len(x), len(y)
    counts = np.zeros(m * n + 1, dtype=object)
    ways = [[0] * (m * n + 1) for _ in range(m + 1)]  # by chosen, by U
    ways[0][0] = 1
    for i in range(m + n):
        for k in range(min(i + 1, m), 0, -1):
            for u in range(m * n, -1, -1):
                place = i - (k - 1)  # values of y below it
                if u >= place and ways[k - 1][u - place]:
                    ways[k][u] += ways[k - 1][u - place]
    counts = ways[m]
    half, k, total = Fraction(1 - Fraction(str(level))) / 2, 0, 0
    for c in counts:
        total += c
        if Fraction(total, math.comb(m + n, m)) > half:
            break
        k += 1
    ends = [d[k - 1], d[-k]] if k else [None, None]
    return {"level": level, "estimate": float(np.median(d)), "low": ends[0], "high": ends[1]}


def samples():
    for n in [2, 3, 5, 8, 10, 14, 20, 32, 50, 64]:
        yield rng.normal(0.01, 0.03, n).tolist()
    for n in [4, 7, 10, 12]:
        yield np.round(rng.normal(0.3, 1, n)).tolist()  # ties and zeros
    yield [0.0] * 6
    yield [0.02] * 9
    yield [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, -1.0]


out = {"paired": [], "unpaired": [], "one": [], "holm": []}
for x in samples():
    a = np.array(x)
    plain = len(set(np.abs(a))) == len(a) and (a != 0).all()
    p = stats.wilcoxon(a, method="exact").pvalue if plain else signed_rank_enumerated(a)
    out["paired"].append({"x": x, "p": float(p), "walsh": [walsh(x, l) for l in (0.90, 0.95)]})
for m, n in [(2, 3), (4, 4), (5, 7), (10, 10), (12, 9), (32, 32)]:
    x, y = rng.normal(1.1, 1, m), rng.normal(0, 1, n)
    out["unpaired"].append({"x": x.tolist(), "y": y.tolist(), "p": float(stats.mannwhitneyu(x, y, method="exact").pvalue), "shift": shift(x.tolist(), y.tolist(), 0.95)})
for m, n in [(3, 4), (6, 6), (8, 7)]:
    x, y = np.round(rng.normal(1, 1, m)), np.round(rng.normal(0, 1, n))
    out["unpaired"].append({"x": x.tolist(), "y": y.tolist(), "p": float(mann_whitney_enumerated(x, y)), "shift": shift(x.tolist(), y.tolist(), 0.95)})
for n in [3, 10, 32, 45]:
    x = rng.normal(10, 1, n) + 0.02 * np.arange(n)
    s = np.sort(x)[1:-1]
    tau = stats.kendalltau(np.arange(n), x, method="exact")
    ci = stats.quantile_test(x, q=0, p=0.5).confidence_interval(0.95)
    none = lambda v: None if math.isnan(v) or math.isinf(v) else float(v)
    out["one"].append({"x": x.tolist(), "mean": float(x.mean()), "sd": float(x.std(ddof=1)), "median": float(np.median(x)),
                       "trimmed_mean": float(s.mean()), "trimmed_sd": float(s.std(ddof=1)) if n > 3 else None,
                       "median_low": none(ci.low), "median_high": none(ci.high),
                       "kendall_p": float(tau.pvalue), "theil_sen": float(stats.theilslopes(x, np.arange(n))[0])})
for p in ([0.01, 0.04, 0.03, 0.005], [0.5, 0.001, 0.001, 0.2, 0.9], [0.04]):
    order = np.argsort(p, kind="stable")
    adjusted, top = [0.0] * len(p), 0.0
    for rank, i in enumerate(order):
        top = min(1.0, max(top, (len(p) - rank) * p[i]))
        adjusted[i] = top
    out["holm"].append({"p": p, "adjusted": adjusted})
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "reference.json"), "w") as f:
    json.dump(out, f, indent=1)
    f.write("\n")
