"""When picks of tokens count as right."""

import numpy as np

from .dtypes import ULP
from .tolerance import limit


def check_picks(name, indices, values, dtype, found):
    """Assert the picks of lightning_indexer and their values.

    indices [.., N2, k]; values the same or empty; found: the TokenScores of the reference. A query
    has its number of picks, each once, then -1; the score of each place is that of the definition
    as far as float32 tells, and the value is the score.
    """
    count = indices.shape[-1]
    rows = indices.reshape(-1, *indices.shape[-2:])
    scored = values.reshape(rows.shape) if values.size or not indices.size else None
    belongs = np.zeros(len(rows), bool)
    for part in found:
        belongs[part.rows] = True
        for n, visible in enumerate(part.visible):
            row, number = part.rows.start + n, min(count, int(visible))
            for group in range(rows.shape[1]):
                where = f"{name} row {row} key head {group}"
                picks, rest = np.split(rows[row, group], [number])
                assert (rest == -1).all(), f"{where}: not {number} picks, got {rows[row, group]}"
                ordered = np.sort(picks)
                assert number == 0 or 0 <= ordered[0] and ordered[-1] < visible, f"{where}: {picks}"
                assert (ordered[1:] > ordered[:-1]).all(), f"{where}: a pick twice, {picks}"
                scores = part.scores[group, n, :visible]
                allowed = limit(0, "float32", what="picks") * part.size[group, n]
                best, ours = -np.sort(-scores)[:number], scores[picks]
                worst = np.abs(best - ours).max(initial=0)
                assert worst <= 2 * allowed, f"{where}: scores off by {worst}, {picks}"
                if scored is None:
                    continue
                got = scored[row, group]
                assert (got[number:] == -np.inf).all(), f"{where}: values {got} of {number} picks"
                off = np.abs(got[:number] - ours) - ULP[dtype] * np.abs(ours)
                assert off.max(initial=0) <= allowed, f"{where}: values off by {off.max()}"
    assert (rows[~belongs] == -1).all(), f"{name}: picks of rows that belong to nothing"
    if scored is not None:
        assert (scored[~belongs] == -np.inf).all(), f"{name}: values of such rows"
