"""Cross entropy over a large vocabulary, whole or in chunks of tokens.

The logits of N tokens over V words are the largest tensor of a small model's step. Without chunks
they exist as product, as float32 and as gradient. With chunks only one chunk exists at a time: the
forward pass computes its gradient at once, by the same products.

Shape letters: N tokens   D hidden width   V vocabulary
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable


class ChunkedLoss(torch.autograd.Function):
    """Mean cross entropy of a linear head, for `chunk` tokens at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden_ND: torch.Tensor,
        head_VD: torch.Tensor,
        targets_N: torch.Tensor,
        chunk: int,
    ) -> torch.Tensor:
        needs_gradient = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        tokens = len(targets_N)
        total = hidden_ND.new_zeros((), dtype=torch.float32)
        hidden_grad = torch.empty_like(hidden_ND) if needs_gradient else None
        head_grad = torch.zeros_like(head_VD) if needs_gradient else None
        for start in range(0, tokens, chunk):
            part = slice(start, start + chunk)
            logits = F.linear(hidden_ND[part], head_VD).float()
            targets_N1 = targets_N[part, None]
            log_total = logits.logsumexp(dim=-1, keepdim=True)
            total += (log_total - logits.gather(1, targets_N1)).sum()
            if hidden_grad is not None and head_grad is not None:
                logits.sub_(log_total).exp_()
                logits.scatter_add_(1, targets_N1, torch.full_like(log_total, -1.0))
                gradient = logits.div_(tokens).to(hidden_ND.dtype)
                torch.mm(gradient, head_VD, out=hidden_grad[part])
                head_grad.addmm_(gradient.T, hidden_ND[part])
        ctx.save_for_backward(hidden_grad, head_grad)
        return total / tokens

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None, None]:
        hidden_grad, head_grad = ctx.saved_tensors
        return hidden_grad * gradient, head_grad.mul_(gradient), None, None


def mean_loss(
    hidden_ND: torch.Tensor, head_VD: torch.Tensor, targets_N: torch.Tensor, *, chunk: int
) -> torch.Tensor:
    """Return the mean cross entropy in float32, for `chunk` tokens at a time; 0 for all at once."""
    if chunk and chunk < len(targets_N):
        loss: torch.Tensor = ChunkedLoss.apply(hidden_ND, head_VD, targets_N, chunk)
        return loss
    return F.cross_entropy(F.linear(hidden_ND, head_VD).float(), targets_N)
