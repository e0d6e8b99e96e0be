"""The experts of a block: SwiGLU feed-forward layers, one for each token, in one of three ways.

grouped   tokens sorted by expert, and one product over all groups (the device's grouped kernel)
padded    one batched product, in which every expert has as many rows as the fullest one
loop      one product for each expert; the host needs the counts, so a GPU has to wait

The results are the same. The fastest way depends on the device, on the tokens of an expert and on
their balance.

Shape letters: N tokens   D hidden width   E experts   F expert width   C rows of the fullest expert
"""

import torch
import torch.nn.functional as F
from torch import nn

from mi300bench_training.zaya1.config import ZayaModelConfig


def grouped(
    x_ND: torch.Tensor, up_EGD: torch.Tensor, down_EDF: torch.Tensor, ends_E: torch.Tensor
) -> torch.Tensor:
    """Return tokens sorted by expert through their experts; rows past the last group are zero."""
    # The product does not compute rows past the last group, so they must not be read.
    works_N1 = (torch.arange(len(x_ND), device=x_ND.device) < ends_E[-1])[:, None]
    x_ND = torch.where(works_N1, x_ND, 0.0)
    gate, up = torch.where(
        works_N1, F.grouped_mm(x_ND, up_EGD.transpose(1, 2), offs=ends_E), 0.0
    ).chunk(2, dim=-1)
    return torch.where(
        works_N1, F.grouped_mm(F.silu(gate) * up, down_EDF.transpose(1, 2), offs=ends_E), 0.0
    )


def padded(
    x_ND: torch.Tensor, up_EGD: torch.Tensor, down_EDF: torch.Tensor, ends_E: torch.Tensor
) -> torch.Tensor:
    """Return the same by batched products, with the rows of the fullest expert for each."""
    starts_E = torch.cat([ends_E.new_zeros(1), ends_E[:-1]])
    rows = int((ends_E - starts_E).max())
    offset_C = torch.arange(rows, device=x_ND.device)
    index_EC = starts_E[:, None] + offset_C
    works_EC = index_EC < ends_E[:, None]
    index_EC = index_EC.clamp_max(len(x_ND) - 1)
    x_ECD = torch.where(works_EC[..., None], x_ND[index_EC], 0.0)
    gate, up = torch.bmm(x_ECD, up_EGD.transpose(1, 2)).chunk(2, dim=-1)
    down_ECD = torch.bmm(F.silu(gate) * up, down_EDF.transpose(1, 2))
    return torch.zeros_like(x_ND).index_put((index_EC[works_EC],), down_ECD[works_EC])


def loop(
    x_ND: torch.Tensor, up_EGD: torch.Tensor, down_EDF: torch.Tensor, ends_E: torch.Tensor
) -> torch.Tensor:
    """Return the same by one product for each expert."""
    ends = ends_E.tolist()
    pieces = []
    for start, end, up_GD, down_DF in zip(
        [0, *ends], ends, up_EGD.unbind(0), down_EDF.unbind(0), strict=False
    ):
        gate, up = F.linear(x_ND[start:end], up_GD).chunk(2, dim=-1)
        pieces.append(F.linear(F.silu(gate) * up, down_DF))
    return torch.cat([*pieces, torch.zeros_like(x_ND[ends[-1] :])])


WAYS = {"grouped": grouped, "padded": padded, "loop": loop}


class Experts(nn.Module):
    """Experts stacked in one tensor, so that an idle one also has a gradient.

    `up` has the weights of both gate and up.
    """

    def __init__(self, model: ZayaModelConfig, *, how: str) -> None:
        super().__init__()
        self.num_experts = model.experts
        self.way = WAYS[how]
        self.up = nn.Parameter(torch.empty(model.experts, 2 * model.expert_width, model.hidden))
        self.down = nn.Parameter(torch.empty(model.experts, model.hidden, model.expert_width))

    def forward(
        self, x_ND: torch.Tensor, chosen_N: torch.Tensor, kind: torch.dtype
    ) -> torch.Tensor:
        """Return each token's expert output; it is zero for skipped tokens, which sort last."""
        order = torch.argsort(chosen_N, stable=True)
        counts = torch.bincount(chosen_N, minlength=self.num_experts + 1)
        ends_E = counts[: self.num_experts].cumsum(0).to(torch.int32)
        sorted_ND = self.way(x_ND[order].to(kind), self.up.to(kind), self.down.to(kind), ends_E)
        back = torch.empty_like(order).scatter_(
            0, order, torch.arange(len(order), device=order.device)
        )
        return sorted_ND[back]
