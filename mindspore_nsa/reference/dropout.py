"""Dropout masks: the generator and how a mask's bits address the probabilities."""

import numpy as np

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)


def philox4x32(counter, key):
    """Philox4x32 with 10 rounds (Salmon et al., SC 2011).

    counter: four arrays (or ints) of 32-bit words, key: two 32-bit ints; returns four uint32
    arrays.
    One round maps (c0, c1, c2, c3) to
        (hi(M1*c2) ^ c1 ^ k0,  lo(M1*c2),  hi(M0*c0) ^ c3 ^ k1,  lo(M0*c0))
    and every round but the first adds the Weyl constants to the key first.
    """
    c0, c1, c2, c3 = (np.asarray(word, np.uint64) for word in counter)
    k0, k1 = key
    shift = np.uint64(32)
    for _ in range(10):
        product0 = np.uint64(_MULTIPLIERS[0]) * c0
        product1 = np.uint64(_MULTIPLIERS[1]) * c2
        c0, c1, c2, c3 = (
            (product1 >> shift) ^ c1 ^ np.uint64(k0),
            product1 & _LOW,
            (product0 >> shift) ^ c3 ^ np.uint64(k1),
            product0 & _LOW,
        )
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return tuple(word.astype(np.uint32) for word in (c0, c1, c2, c3))


def dropout_mask(keep_prob, numel, seed):
    """uint8 [ceil(numel / 8)]: bit e % 8 (least significant first) of byte e // 8 is 1 iff element
    e is kept; the bits past numel in the last byte are 0.

    Element e is kept iff word(e) < ceil(p * 2^32), where p is keep_prob rounded to float32 (to
    nearest even) and p * 2^32 is exact in float64; p = 1 keeps everything. word(e) is output word
    e % 4 of Philox4x32-10 with::

        key     = (seed mod 2^32, seed // 2^32 mod 2^32)   seed a 64-bit integer, two's complement
        counter = (g mod 2^32, g // 2^32, 0, 0)            g = e // 4

    so every element depends on keep_prob, seed and its own index alone.
    """
    seed = int(seed) & 0xFFFFFFFFFFFFFFFF
    threshold = np.uint64(np.ceil(float(np.float32(keep_prob)) * 2.0**32))
    group = np.arange(-(-numel // 4), dtype=np.uint64)
    counter = (group & _LOW, group >> np.uint64(32), np.uint64(0), np.uint64(0))
    words = philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32))
    keep = np.stack(words, axis=-1).reshape(-1)[:numel] < threshold
    return np.packbits(keep, bitorder="little")


def keep_factors(drop_mask, start, shape, keep_prob, precision):
    """1/keep_prob where the bits from flat index `start` on keep the pair, else 0, as `shape`."""
    size = int(np.prod(shape))
    first, last = start // 8, -(-(start + size) // 8)
    packed = np.asarray(drop_mask, np.uint8).reshape(-1)[first:last]
    bits = np.unpackbits(packed, bitorder="little")[start % 8 : start % 8 + size]
    return (bits.reshape(shape) / float(keep_prob)).astype(precision.real)
