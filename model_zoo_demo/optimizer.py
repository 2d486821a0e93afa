"""From the gradient of a batch to new weights: accumulation, all-reduce, clipping, AdamW or SGD.

The Cells here have no prefix of their own, so that weights keep the names that the model gave them.
"""

import math

import mindspore as ms
import numpy as np
from mindspore import ParameterTuple, Tensor, nn, ops

from .model import arguments

_EPSILON = 1e-8


def learning_rate(step, config):
    """Linear warm-up, then half a cosine down to `final_rate` of the highest rate."""
    if step < config.warmup:
        return config.learning_rate * (step + 1) / config.warmup
    past = (step - config.warmup) / max(1, config.steps - 1 - config.warmup)
    low = config.final_rate * config.learning_rate
    return low + (config.learning_rate - low) * (1 + math.cos(math.pi * min(past, 1))) / 2


class Gradient(nn.Cell):
    """Loss of a batch and its gradient."""

    def __init__(self, loss):
        super().__init__(auto_prefix=False)
        self.loss = loss
        self.weights = ParameterTuple(loss.trainable_params())

    def construct(self, *batch):
        """The batch is what the loss takes."""
        return ms.value_and_grad(self.loss, None, self.weights)(*batch)


class Add(nn.Cell):
    """The sum of two gradients."""

    def construct(self, *both):
        """The Tensors of the one, then those of the other: a new tuple would be a new graph."""
        half = len(both) // 2
        total = ()
        for i in range(half):
            total += (both[i] + both[half + i],)
        return total


class MeanOverWorkers(nn.Cell):
    """A tuple of Tensors, each averaged over the workers of a group; None: there is one."""

    def __init__(self, group=None):
        super().__init__()
        self.workers = group.size if group else 1
        self.sum = ops.AllReduce(group=group.name) if self.workers > 1 else None

    def construct(self, tensors):
        """With one worker the Tensors themselves."""
        if self.sum is None:
            return tensors
        return tuple(self.sum(x) / self.workers for x in tensors)


class AdamW(nn.Cell):
    """AdamW (Loshchilov and Hutter, 2019) on MindSpore's fused kernel.

    The kernel has no bias correction. With a = sqrt(1 - beta2^t) and b = 1 - beta1^t,

        rate * (m / b) / (sqrt(v) / a + epsilon) = (rate * a / b) * m / (sqrt(v) + epsilon * a),

    so a changed rate and epsilon give it; the decay is divided by what the rate is multiplied with.
    """

    def __init__(self, weights, decaying, config):
        super().__init__(auto_prefix=False)
        self.weights = ParameterTuple(weights)
        self.first = self.weights.clone(prefix="adamw_first", init="zeros")
        self.second = self.weights.clone(prefix="adamw_second", init="zeros")
        decaying = {p.name for p in decaying}
        self.decays = tuple(config.weight_decay * (p.name in decaying) for p in weights)
        self.beta1, self.beta2 = config.beta1, config.beta2
        self.kernel = ops.AdamWeightDecay()

    def scalars(self, rate, step):
        """Arguments of `construct` at a step from 0 on: rate, epsilon, factor of the decay."""
        a = math.sqrt(1 - self.beta2 ** (step + 1))
        b = 1 - self.beta1 ** (step + 1)
        return rate * a / b, _EPSILON * a, b / a

    def state(self):
        """Parameters that a checkpoint must hold besides the weights."""
        return [*self.first, *self.second]

    def construct(self, gradients, scalars):
        """Gradients in the order of the weights, and `scalars` as a Tensor [3]."""
        rate, epsilon, decay_factor = scalars[0], scalars[1], scalars[2]
        done = ()
        for i in range(len(self.weights)):
            done += (
                self.kernel(
                    self.weights[i],
                    self.first[i],
                    self.second[i],
                    rate,
                    self.beta1,
                    self.beta2,
                    epsilon,
                    self.decays[i] * decay_factor,
                    gradients[i],
                ),
            )
        return done


class SGD(nn.Cell):
    """Weights less rate times gradient."""

    def __init__(self, weights):
        super().__init__(auto_prefix=False)
        self.weights = ParameterTuple(weights)

    def scalars(self, rate, step):
        """Arguments of `construct` at a step: the rate."""
        return (rate,)

    def state(self):
        """Nothing."""
        return []

    def construct(self, gradients, scalars):
        """Gradients in the order of the weights, and `scalars` as a Tensor [1]."""
        done = ()
        for i in range(len(self.weights)):
            done += (ops.assign_sub(self.weights[i], scalars[0] * gradients[i]),)
        return done


class Update(nn.Cell):
    """Mean over the workers, clipping, new weights.

    Workers that share the heads have parts of some weights, whose squares they add up for the norm.
    """

    def __init__(self, optimizer, config, worker, model):
        super().__init__(auto_prefix=False)
        self.optimizer = optimizer
        self.clip = config.clip
        self.accumulation = config.accumulation
        self.mean = MeanOverWorkers(worker and worker.groups.replicas)
        self.parts, self.sum = (False,) * len(optimizer.weights), None
        if worker and worker.groups.tensor.size > 1:
            self.parts = tuple(worker.has_part(p.name, model) for p in optimizer.weights)
            self.sum = ops.AllReduce(group=worker.groups.tensor.name)

    def construct(self, loss, scalars, *gradients):
        """Sums of loss and gradient over the accumulated batches to mean loss and gradient norm."""
        gradients = self.mean(gradients)
        (loss,) = self.mean((loss,))
        total, of_parts = Tensor(0.0, ms.float32), Tensor(0.0, ms.float32)
        for i in range(len(gradients)):
            square = ops.square(gradients[i]).sum()
            if self.parts[i]:
                of_parts = of_parts + square
            else:
                total = total + square
        if self.sum is not None:
            total = total + self.sum(of_parts)
        norm = ops.sqrt(total) / self.accumulation
        factor = 1 / self.accumulation
        if self.clip > 0:
            factor = factor * ops.minimum(self.clip / (norm + 1e-6), Tensor(1.0, ms.float32))
        scaled = ()
        for gradient in gradients:
            scaled += (gradient * factor,)
        done = self.optimizer(scaled, scalars)
        return ops.depend(loss / self.accumulation, done), norm


class Step:
    """One step of training, on one worker's share of the batches.

    Args:
        loss (nn.Cell): Its inputs are a batch, its output their mean loss.
        decaying (list[Parameter]): The weights that decay.
        config (Config): The training.
        worker (Worker): Which part of it this process has. Default: all.
    """

    def __init__(self, loss, decaying, config, worker=None):
        self.config = config
        self.weights = loss.trainable_params()
        if config.optimizer == "adamw":
            self.optimizer = AdamW(self.weights, decaying, config)
        else:
            self.optimizer = SGD(self.weights)
        self.gradient = Gradient(loss)
        self.add = Add()
        self.update = Update(self.optimizer, config, worker, loss)

    def __call__(self, batches, step):
        """Train on NumPy batches; returns mean loss and norm of the gradient, as floats."""
        loss, gradients = None, None
        for batch in batches:
            value, new = self.gradient(*arguments(batch))
            loss = value if loss is None else loss + value
            gradients = new if gradients is None else self.add(*gradients, *new)
        rate = learning_rate(step, self.config)
        scalars = np.array(self.optimizer.scalars(rate, step), np.float32)
        loss, norm = self.update(loss, Tensor(scalars), *gradients)
        return float(loss.asnumpy()), float(norm.asnumpy())

    def state(self):
        """Every Parameter that a checkpoint must hold."""
        return [*self.weights, *self.optimizer.state()]
