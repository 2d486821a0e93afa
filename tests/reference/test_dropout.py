import numpy as np
import pytest

from mindspore_nsa.reference import FLOAT64, dropout_mask
from mindspore_nsa.reference.dropout import keep_factors, philox4x32


# Known answers published with the generator (Random123, kat_vectors).
@pytest.mark.parametrize(
    "counter, key, expected",
    [
        ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_known_answers(counter, key, expected):
    words = philox4x32(counter, key)
    assert " ".join(f"{int(word):08x}" for word in words) == expected


def bits_one_by_one(keep_prob, numel, seed):
    """The definition of the docstring, one element at a time, in Python's integers."""
    seed %= 2**64
    threshold = float(np.float32(keep_prob)) * 2**32
    out = bytearray(-(-numel // 8))
    for e in range(numel):
        group = e // 4
        words = philox4x32((group % 2**32, group >> 32, 0, 0), (seed % 2**32, seed >> 32))
        if int(words[e % 4]) < threshold:
            out[e // 8] |= 1 << (e % 8)
    return np.frombuffer(bytes(out), np.uint8)


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1, -(2**63), 2**32, 123456789012345])
@pytest.mark.parametrize("numel", [0, 1, 3, 8, 9, 77])
@pytest.mark.parametrize("keep_prob", [0.8, 0.5, 1e-3])
def test_bits_follow_the_definition(keep_prob, numel, seed):
    mask = dropout_mask(keep_prob, numel, seed)
    assert mask.dtype == np.uint8
    np.testing.assert_array_equal(mask, bits_one_by_one(keep_prob, numel, seed))


def test_everything_is_kept_with_probability_one():
    np.testing.assert_array_equal(dropout_mask(1.0, 19, 3), [255, 255, 7])


def test_keep_prob_counts_as_float32():
    near = np.nextafter(0.8, 1)
    np.testing.assert_array_equal(dropout_mask(0.8, 5000, 1), dropout_mask(near, 5000, 1))
    np.testing.assert_array_equal(
        dropout_mask(0.8, 5000, 1), dropout_mask(np.float32(0.8), 5000, 1)
    )


def test_an_element_does_not_depend_on_the_number_of_elements():
    np.testing.assert_array_equal(dropout_mask(0.5, 800, 9)[:50], dropout_mask(0.5, 400, 9))


@pytest.mark.parametrize("keep_prob", [0.9, 0.5, 0.1])
def test_rate_and_independence(keep_prob):
    size = 1 << 18
    kept = np.unpackbits(dropout_mask(keep_prob, size, 5), bitorder="little").astype(float)
    deviation = np.sqrt(keep_prob * (1 - keep_prob) / size)
    assert abs(kept.mean() - keep_prob) < 5 * deviation
    centred = kept - kept.mean()
    for lag in (1, 2, 4, 8, 128):
        correlation = (centred[lag:] * centred[:-lag]).mean() / centred.var()
        assert abs(correlation) < 5 / np.sqrt(size)
    other = np.unpackbits(dropout_mask(keep_prob, size, 6), bitorder="little") - keep_prob
    assert abs((centred * other).mean() / centred.var()) < 5 / np.sqrt(size)


def test_keep_factors_read_bits_from_any_start():
    mask = np.array([0b00000110, 0b00000001], np.uint8)
    factors = keep_factors(mask, 1, (2, 4), 0.5, FLOAT64)
    np.testing.assert_array_equal(factors, [[2, 2, 0, 0], [0, 0, 0, 2]])
