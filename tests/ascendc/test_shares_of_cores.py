"""Work of equal parts is shared out evenly: no core moves much more than its share of the bytes."""

import numpy as np
import pytest

from tests.common.draw import Draw
from tests.common.flash_cases import flash_attention_score_grad_of
from tests.common.nsa_cases import selected_attention_grad_of
from tests.common.parity import causal_compress_attention, flash, selected

from .attention_checks import check_call

CORES = 6
# Twice as many segments as cores, each of one tile of queries.
EQUAL = 128 * np.arange(1, 2 * CORES + 1)
# Later tiles of a long causal text see more keys.
LONG = np.array([128 * 2 * CORES])


def _flash(draw, ends, mode):
    tokens = int(ends[-1])
    return flash(
        *(draw, "TND", len(ends), 2, 1, tokens, tokens, 16),
        **{"mode": mode, "seq_q": ends, "seq_kv": ends},
    )


def _selected(draw):
    """Every query chooses the two blocks of its segment."""
    indices = np.tile(np.arange(2), (EQUAL[-1], 1, 1))
    return selected(draw, EQUAL, EQUAL, 2, 1, 16, 16, 2, indices=indices)


CALLS = {
    "flash": lambda draw: _flash(draw, EQUAL, 0),
    "flash, causal": lambda draw: _flash(draw, LONG, 3),
    "flash_grad": lambda draw: flash_attention_score_grad_of(_flash(draw, EQUAL, 0), draw),
    "flash_grad, causal": lambda draw: flash_attention_score_grad_of(_flash(draw, LONG, 3), draw),
    "selected": _selected,
    "selected_grad": lambda draw: selected_attention_grad_of(_selected(draw), draw),
    "compress": lambda draw: causal_compress_attention(draw, 4 * EQUAL, 2, 1, 16, 16),
}


def check_shares(runner, name):
    """The busiest core's part of the bytes that a core moves alone."""
    case = CALLS[name](Draw(0, "float16"))
    (_, alone), (_, shared) = (runner.run(case, cores) for cores in (1, CORES))
    assert (alone.cores, shared.cores) == (1, CORES)
    part = shared.most_gm / alone.most_gm * CORES
    # Tiles of a long text are not equal, so what is left over is not, either.
    assert part <= (1.3 if "causal" in name else 1.01), part


@pytest.mark.parametrize("name", [name for name in CALLS if "flash" in name])
def test_flash_attention(flash_runner, name):
    check_shares(flash_runner, name)


@pytest.mark.parametrize("queries, keys", [(100, 1500), (1500, 100)])
def test_a_gradient_takes_cores_for_the_more_of_both_tiles(flash_runner, queries, keys):
    """The tiles of queries or those of keys are one, the others twelve."""
    check_cores(flash_runner, queries, keys)


def check_cores(runner, queries, keys):
    """All cores are taken, and the gradients are right."""
    draw = Draw(1, "float16")
    case = flash_attention_score_grad_of(flash(draw, "BSND", 1, 1, 1, queries, keys, 16), draw)
    check_call(runner, case, [(CORES, 0)])
    _, counts = runner.run(case, CORES)
    assert counts.cores == CORES


@pytest.mark.parametrize("name", ["selected", "selected_grad"])
def test_selected_attention(selected_runner, name):
    check_shares(selected_runner, name)


def test_compressed_attention(compress_attention_runner):
    check_shares(compress_attention_runner, "compress")
