"""A call of a layer with a cache: one operator writes the new tokens and computes all branches."""

from typing import Any

import mindspore
from mindspore import Tensor, ops

from ..ops._cache_step import nsa_cache_step
from .cache_check import check_cache
from .cache_state import ROLLBACK, angles_of
from .compression import Compression
from .config import NSAConfig
from .gates import Gates
from .parts import Asked, LayerPart, plain, raise_refusal, refusal, untouched
from .precision import rounded
from .rotary import RotaryAngles, Rotate


class CacheStep(LayerPart):
    """The step of a layer.

    Args:
        layer (AttentionLayer): The layer.
        config (NSAConfig): Sizes of this worker's heads.
    """

    def __init__(self, layer: Any, config: NSAConfig) -> None:
        super().__init__(layer)
        self.sparse = layer.sparse
        theta, factor, low, high = angles_of(config).values()
        self.theta, self.factor, self.low, self.high = theta, factor, low, high

    @Asked
    def refusal(self) -> str:
        """Return the error of a part that the operator would not call, or ""."""
        layer = self.layer
        cells, config = layer._cells, layer.config
        if self.sparse:
            for part in ("compress_key", "compress_value"):
                if not untouched(cells[part], Compression):
                    return self._refused(part, Compression)
            if not _adds_branches(cells["gates"]):
                return self._refused("gates", Gates)
        angles = cells["angles"]
        made_with = layer.dim, config.rope_theta, config.rope_scaling
        if not untouched(angles, RotaryAngles) or angles.made_with != made_with:
            return self._refused("angles", RotaryAngles)
        if not untouched(cells["rotate"], Rotate):
            return self._refused("rotate", Rotate)
        return ""

    def _refused(self, part: str, needed: Any) -> str:
        layer = self.layer
        return refusal(f"{layer.name} with a cache", part, layer._cells[part], needed)

    def check(self, cache: Any) -> None:
        """Raise the error of a part that the operator would not call."""
        if cache is not None and self.refusal != "":
            raise_refusal(self.refusal)

    def attend(self, x: Tensor, rows: Tensor, ends: Any, cache: Any, dtype: Any, kinds: Any) -> Any:
        """Attention [T, N1, Dv] of the rows of x, whose tokens go into the cache."""
        layer = self.layer
        sizes, kv_heads, sparse = layer.cache_made_for
        state, selected, others = check_cache(
            layer.name, x, cache, ends, sizes, kv_heads, sparse, layer.number()
        )
        query, key_value, logits = layer.projections.project(rows, dtype, kinds)
        if self.sparse and logits is None:
            logits = layer.gates.logits(rows, dtype)
        heads = layer.branch_heads.before_rotation(query, key_value)
        if self.sparse:
            out = self._sparse(heads, cache[selected], cache[state], cache[others], ends, logits)
        else:
            out = self._dense(heads, cache[selected], cache[state], ends)
        # The dtype of the cache need not be this one.
        return rounded(out, dtype)

    def _sparse(
        self, heads: Any, selected: Tensor, state: Tensor, others: Tensor, ends: Any, logits: Tensor
    ) -> Tensor:
        layer = self.layer
        c = layer.config
        query, key, value = heads
        return nsa_cache_step(
            query,
            key,
            value,
            selected,
            state,
            ends,
            gates=layer.gates.weights(logits),
            weight_k=ops.cast(layer.compress_key.weight, mindspore.float32),
            weight_v=ops.cast(layer.compress_value.weight, mindspore.float32),
            position_k=layer.compress_key.encodings(),
            position_v=layer.compress_value.encodings(),
            others=others,
            angles=layer.angles.coarse,
            fine_angles=layer.angles.fine,
            scale_value=layer.scale,
            theta=self.theta,
            rope_factor=self.factor,
            rope_low=self.low,
            rope_high=self.high,
            window_size=layer.pre_tokens + 1,
            shared_kv=c.shared_kv,
            rollback=ROLLBACK,
            compress_block_size=c.compress_block_size,
            compress_stride=c.compress_stride,
            select_block_size=c.select_block_size,
            select_block_count=c.select_block_count,
            init_blocks=c.init_blocks,
            local_blocks=c.local_blocks,
            importance=c.importance,
            layer=layer.number(),
        )

    def _dense(self, heads: Any, selected: Tensor, state: Tensor, ends: Any) -> Tensor:
        layer = self.layer
        query, key, value = heads
        return nsa_cache_step(
            query,
            key,
            value,
            selected,
            state,
            ends,
            angles=layer.angles.coarse,
            fine_angles=layer.angles.fine,
            scale_value=layer.scale,
            theta=self.theta,
            rope_factor=self.factor,
            rope_low=self.low,
            rope_high=self.high,
            window_size=layer.pre_tokens + 1,
            layer=layer.number(),
        )


def _adds_branches(gates: Any) -> bool:
    """Whether gates add branches as `Gates` does; a subclass may say what the weights are."""
    return (
        isinstance(gates, Gates)
        and plain(gates)
        and "mix" not in vars(gates)
        and (type(gates).construct, type(gates).mix) == (Gates.construct, Gates.mix)
    )
