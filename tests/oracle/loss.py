# SPDX-License-Identifier: Apache-2.0
"""Losses and their backward ops against PyTorch in float64."""
import numpy as np
import torch
from torch.nn import functional as F

from norm import CLOSE, FLOATS, narrow, wide
from oracle import Fixtures


def cross_entropies(f):
    for dtype in FLOATS:
        for labels in (np.array([0, 3, 2, 2], np.int32), np.array([1, 0, 3, 1], np.uint8)):
            x, dl = f.normal(dtype, (4, 4)), f.normal(dtype, (4,))
            logits = wide(x)
            loss = F.cross_entropy(logits, torch.tensor(labels.astype(np.int64)), reduction="none")
            grad, = torch.autograd.grad(loss, logits, wide(dl))
            f.case(f"softmax_cross_entropy_{dtype}", "softmax_cross_entropy(x, i)", {"x": x, "i": labels},
                   [narrow(loss, dtype)], rel=CLOSE[dtype])
            f.case(f"softmax_cross_entropy_backward_{dtype}", "softmax_cross_entropy_backward(x, i, dl)",
                   {"x": x, "i": labels, "dl": dl}, [narrow(grad, dtype)], rel=CLOSE[dtype])


def ignored(f):
    """Labels out of range with oob=zero are PyTorch's ignore_index."""
    labels = np.array([2, -1, 0, 7], np.int64)
    x, dl = f.normal("f64", (4, 3)), f.normal("f64", (4,))
    logits = wide(x)
    loss = F.cross_entropy(logits, torch.tensor(np.where((labels < 0) | (labels > 2), -100, labels)), reduction="none")
    grad, = torch.autograd.grad(loss, logits, wide(dl))
    f.case("softmax_cross_entropy_ignored", "softmax_cross_entropy(x, i, oob=zero)", {"x": x, "i": labels},
           [narrow(loss, "f64")], rel=32)
    f.case("softmax_cross_entropy_backward_ignored", "softmax_cross_entropy_backward(x, i, dl, oob=zero)",
           {"x": x, "i": labels, "dl": dl}, [narrow(grad, "f64")], rel=32)


def extremes(f):
    """Large logits neither overflow nor lose the loss; one class has none."""
    x = np.array([[1000.0, 0.0, -1000.0], [-1e30, 0.0, 1.0], [800.0, 800.0, 800.0]])
    labels = np.array([2, 1, 0], np.int32)
    loss = F.cross_entropy(torch.tensor(x), torch.tensor(labels.astype(np.int64)), reduction="none")
    f.case("softmax_cross_entropy_large", "softmax_cross_entropy(x, i)", {"x": x, "i": labels}, [loss.numpy()], ulp=4)
    f.case("softmax_cross_entropy_one_class", "softmax_cross_entropy(x, i)",
           {"x": np.array([[3.0], [-700.0]]), "i": np.zeros(2, np.int32)}, [np.zeros(2)])


if __name__ == "__main__":
    with Fixtures("loss") as fixtures:
        cross_entropies(fixtures)
        ignored(fixtures)
        extremes(fixtures)
