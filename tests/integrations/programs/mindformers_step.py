"""A training step of a model of MindFormers in graph mode."""

from mindspore import nn, ops


class Step(nn.Cell):
    """Returns the loss before the step."""

    def __init__(self, model, optimizer):
        super().__init__(auto_prefix=False)
        self.model, self.optimizer = model, optimizer
        self.gradient = ops.value_and_grad(model, None, optimizer.parameters)

    def construct(self, x, y, mask):
        loss, gradients = self.gradient(x, None, None, None, y, None, None, mask)
        self.optimizer(gradients)
        return loss[0]
