"""The share of one of several workers: its part of a batch, of a text, of the heads."""

from mindspore_nsa.nn import (
    ContextShards,
    gather_parameters,
    parallel_groups,
    shard_parameters,
    split_axis,
)

from .errors import InputError
from .model import nsa_config


class Worker:
    """One of the workers; without others it has everything.

    Args:
        config (Config): The training.
        groups (ParallelGroups): What `set_up` gave. Default: those of one worker.
        order (str): Which parts of a text its workers have, as `ContextShards` takes it.
    """

    def __init__(self, config, groups=None, order="contiguous"):
        self.groups = groups or parallel_groups()
        data, context = self.groups.data, self.groups.context
        if config.rows % data.size:
            raise InputError(
                f"config: rows={config.rows} must be a multiple of {data.size} workers"
            )
        self.first = self.groups.replicas.rank == 0 and self.groups.tensor.rank == 0
        self.rows = config.rows // data.size
        self.sizes, self.shards = nsa_config(config), None
        if context.size > 1:
            try:
                self.shards = ContextShards(self.rows * config.context, context, order)
            except ValueError as error:
                raise InputError(f"--context: {error}") from None

    @property
    def parallel(self):
        """Arguments that attention layers take."""
        return {"context": self.shards, "tensor_group": self.groups.tensor}

    @property
    def whole(self):
        """Whether the layers are those of one worker, which have caches."""
        return self.shards is None and self.groups.tensor.size == 1

    def batch(self, corpus, positions, config, segments):
        """Its part of the pieces at some positions, as `Corpus.batch` packs them."""
        first = self.groups.data.rank * self.rows
        mine = positions[first : first + self.rows]
        tokens, targets, ends = corpus.batch(mine, config.context, segments)
        if self.shards is None:
            return tokens, targets, ends
        if segments:
            ends = self.shards.lists(ends, self.sizes)
        return self.shards.shard(tokens), self.shards.shard(targets), ends

    def has_part(self, name, model):
        """Whether it has its heads of a parameter of a model only."""
        return self.groups.tensor.size > 1 and split_axis(name, model) is not None

    def whole_shape(self, parameter, model):
        """The shape of a parameter of a model with all heads."""
        shape = list(parameter.shape)
        if self.has_part(parameter.name, model):
            shape[split_axis(parameter.name, model)] *= self.groups.tensor.size
        return tuple(shape)

    def part(self, arrays, model):
        """Its heads of whole parameters of a model by name."""
        return shard_parameters(arrays, model, self.groups.tensor)

    def gathered(self, parameters, model):
        """The Parameters with all heads; every worker of the tensor group must call it."""
        named = {p.name: p for p in parameters}
        return list(gather_parameters(named, model, self.groups.tensor).values())
