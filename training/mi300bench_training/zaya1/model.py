"""The model. Each block is compressed convolutional attention, then a routed mixture of experts.

Sources: ZAYA1-8B technical report (arXiv 2605.05365), CCA (arXiv 2510.04476). A test compares it
with transformers' `ZayaForCausalLM`. The residual stream is float32; its scales and biases are per
channel.

Shape letters of this file
B batch   T tokens of a sequence   N = B x T   D hidden width   V vocabulary
H query heads   G key-value heads   C head width   Q = H x C   K = G x C
E experts   F expert width   R router width
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from mi300bench_training.zaya1.config import ZayaComputeConfig, ZayaConfig, ZayaModelConfig
from mi300bench_training.zaya1.experts import Experts
from mi300bench_training.zaya1.loss import mean_loss

INIT_STD = 0.02
# The initial bias of the skip expert, in units of probability (from the released code).
SKIP_BIAS = -1.0


class Norm(nn.Module):
    """RMSNorm, computed in float32."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x.float(), (x.shape[-1],), self.weight, self.eps)


class Join(nn.Module):
    """(x + bias) * scale of a mixer's output and of the residual, then their sum, in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.output_scale = nn.Parameter(torch.ones(width))
        self.output_bias = nn.Parameter(torch.zeros(width))
        self.residual_scale = nn.Parameter(torch.ones(width))
        self.residual_bias = nn.Parameter(torch.zeros(width))

    def forward(self, output_BTD: torch.Tensor, residual_BTD: torch.Tensor) -> torch.Tensor:
        scaled = (output_BTD.float() + self.output_bias) * self.output_scale
        return scaled + (residual_BTD + self.residual_bias) * self.residual_scale


def shift_right(x_BTD: torch.Tensor) -> torch.Tensor:
    """Return the sequence shifted by one token, with zeros at the first."""
    return F.pad(x_BTD, (0, 0, 1, 0))[:, :-1]


def rotate(x_BTHC: torch.Tensor, base: float, fraction: float) -> torch.Tensor:
    """Rotate the first `fraction` of each head by position; its halves are pairs (NeoX)."""
    width = int(x_BTHC.shape[-1] * fraction)
    frequency = base ** (
        -torch.arange(0, width, 2, device=x_BTHC.device, dtype=torch.float32) / width
    )
    angle = (
        torch.arange(x_BTHC.shape[1], device=x_BTHC.device, dtype=torch.float32)[:, None]
        * frequency
    )
    cos, sin = angle.cos()[None, :, None], angle.sin()[None, :, None]
    first, second, rest = x_BTHC.split([width // 2, width // 2, x_BTHC.shape[-1] - width], dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], dim=-1)


def unit_length(x_BTHC: torch.Tensor) -> torch.Tensor:
    """Scale each head to length sqrt(C), in float32."""
    x = x_BTHC.float()
    length = x.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(torch.float32).eps)
    return x * (x.shape[-1] ** 0.5 / length)


class Attention(nn.Module):
    """Compressed convolutional attention: two short convolutions mix queries and keys along time.

    A token's query and key depend on the tokens t-2 to t; half of the values come from token t-1.
    The learned `temperature` scales the keys of each key-value head. It starts at 1. One released
    initialisation has 0, but then attention is uniform and queries have no gradient.
    """

    def __init__(self, model: ZayaModelConfig) -> None:
        super().__init__()
        self.model = model
        query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
        channels = query + key
        self.query = nn.Linear(model.hidden, query, bias=False)
        self.key = nn.Linear(model.hidden, key, bias=False)
        self.value_now = nn.Linear(model.hidden, key // 2, bias=False)
        self.value_before = nn.Linear(model.hidden, key // 2, bias=False)
        self.depthwise = nn.Conv1d(channels, channels, 2, groups=channels)
        self.grouped = nn.Conv1d(channels, channels, 2, groups=model.heads + model.kv_heads)
        self.temperature = nn.Parameter(torch.ones(model.kv_heads))
        self.output = nn.Linear(query, model.hidden, bias=False)

    def forward(self, x_BTD: torch.Tensor) -> torch.Tensor:
        model = self.model
        batch, time, _ = x_BTD.shape
        query_BTQ, key_BTK = self.query(x_BTD), self.key(x_BTD)
        value_BTGC = torch.cat(
            [self.value_now(x_BTD), self.value_before(shift_right(x_BTD))], dim=-1
        ).view(batch, time, model.kv_heads, model.head_dim)
        group = model.heads // model.kv_heads
        query_BTGgC = query_BTQ.view(batch, time, model.kv_heads, group, model.head_dim)
        key_BTG1C = key_BTK.view(batch, time, model.kv_heads, 1, model.head_dim)
        mean_query = (query_BTGgC + key_BTG1C) * 0.5
        mean_key = mean_query.mean(dim=3)

        mixed = torch.cat([query_BTQ, key_BTK], dim=-1).transpose(1, 2)
        # Contiguous channels: otherwise torch does not use its fused attention, and keeps T x T
        # weights.
        mixed = self.grouped(self.depthwise(F.pad(mixed, (2, 0)))).transpose(1, 2).contiguous()
        mixed_query, mixed_key = mixed.split([query_BTQ.shape[-1], key_BTK.shape[-1]], dim=-1)
        query_BTHC = mixed_query.view(batch, time, model.heads, -1) + mean_query.flatten(2, 3)
        key_BTGC = mixed_key.view(batch, time, model.kv_heads, -1) + mean_key

        query_BTHC = rotate(unit_length(query_BTHC), model.rope_base, model.rope_fraction)
        key_BTGC = rotate(
            unit_length(key_BTGC) * self.temperature[:, None], model.rope_base, model.rope_fraction
        )
        kind = value_BTGC.dtype
        attended = F.scaled_dot_product_attention(
            query_BTHC.to(kind).transpose(1, 2),
            key_BTGC.to(kind).transpose(1, 2),
            value_BTGC.transpose(1, 2),
            is_causal=True,
            enable_gqa=True,
        )
        return self.output(attended.transpose(1, 2).flatten(2))


class Router(nn.Module):
    """Chooses one expert for each token, or the skip expert.

    The state includes that of the previous block's router (exponential depth averaging). `balance`
    changes only the choice, not the weight of the output, and has no gradient. The training step
    updates it from the distance of each expert's share from an even one.
    """

    balance: torch.Tensor

    def __init__(self, model: ZayaModelConfig, *, is_first: bool) -> None:
        super().__init__()
        width = model.router_width
        self.down = nn.Linear(model.hidden, width)
        self.register_parameter(
            "state_scale", None if is_first else nn.Parameter(torch.ones(width))
        )
        self.norm = Norm(width, model.norm_eps)
        self.inner1 = nn.Linear(width, width)
        self.inner2 = nn.Linear(width, width)
        self.logits = nn.Linear(width, model.experts + 1, bias=False)
        self.register_buffer("balance", torch.zeros(model.experts + 1))
        self.chosen_N: torch.Tensor | None = None

    def forward(
        self, x_NxD: torch.Tensor, state_NxR: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return each token's expert, its probability, and the next router's state, in float32."""
        with torch.autocast(x_NxD.device.type, enabled=False):
            state = self.down(x_NxD.float())
            if self.state_scale is not None and state_NxR is not None:
                state = state + self.state_scale * state_NxR
            inner = F.gelu(self.inner2(F.gelu(self.inner1(self.norm(state)))))
            probability_NxE = torch.softmax(self.logits(inner), dim=-1)
        chosen_N = (probability_NxE.detach() + self.balance).argmax(dim=-1)
        self.chosen_N = chosen_N.detach()
        return chosen_N, probability_NxE.gather(1, chosen_N[:, None]), state


class Block(nn.Module):
    """Attention and experts, each with a norm before it and a scaled residual after it."""

    def __init__(self, model: ZayaModelConfig, *, is_first: bool, experts: str) -> None:
        super().__init__()
        self.skip = model.skip
        self.num_experts = model.experts
        self.attention_norm = Norm(model.hidden, model.norm_eps)
        self.attention = Attention(model)
        self.attention_join = Join(model.hidden)
        self.expert_norm = Norm(model.hidden, model.norm_eps)
        self.router = Router(model, is_first=is_first)
        self.experts = Experts(model, how=experts)
        self.expert_join = Join(model.hidden)

    def forward(
        self, residual_BTD: torch.Tensor, state_NxR: torch.Tensor | None, kind: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        attended = self.attention(self.attention_norm(residual_BTD).to(kind))
        residual_BTD = self.attention_join(attended, residual_BTD)
        x_NxD = self.expert_norm(residual_BTD).to(kind).flatten(0, 1)
        chosen_N, probability_Nx1, state_NxR = self.router(x_NxD, state_NxR)
        output_NxD = self.experts(x_NxD, chosen_N, kind)
        if self.skip == "input":
            output_NxD = torch.where((chosen_N == self.num_experts)[:, None], x_NxD, output_NxD)
        output_BTD = (output_NxD * probability_Nx1).view_as(residual_BTD)
        return self.expert_join(output_BTD, residual_BTD), state_NxR


class Zaya(nn.Module):
    """The language model; the embedding is also the head."""

    def __init__(
        self,
        model: ZayaModelConfig,
        *,
        precision: str = "float32",
        compute: ZayaComputeConfig | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.compute = compute or ZayaComputeConfig()
        self.kind: torch.dtype = getattr(torch, precision)
        self.embedding = nn.Embedding(model.vocab, model.hidden)
        self.input_scale = nn.Parameter(torch.ones(model.hidden))
        self.input_bias = nn.Parameter(torch.zeros(model.hidden))
        self.blocks = nn.ModuleList(
            Block(model, is_first=index == 0, experts=self.compute.experts)
            for index in range(model.blocks)
        )
        self.final_norm = Norm(model.hidden, model.norm_eps)

    def forward(
        self, tokens_BT: torch.Tensor, targets_BT: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return logits [B, T, V]; with targets, their mean cross entropy in float32."""
        with torch.autocast(
            tokens_BT.device.type, dtype=torch.bfloat16, enabled=self.kind is torch.bfloat16
        ):
            residual = (self.embedding(tokens_BT).float() + self.input_bias) * self.input_scale
            state = None
            is_recomputed = self.compute.recompute == "block" and torch.is_grad_enabled()
            for block in self.blocks:
                if is_recomputed:
                    residual, state = checkpoint(
                        block, residual, state, self.kind, use_reentrant=False
                    )
                else:
                    residual, state = block(residual, state, self.kind)
            hidden, head = (
                self.final_norm(residual).to(self.kind),
                self.embedding.weight.to(self.kind),
            )
            if targets_BT is None:
                return F.linear(hidden, head)
            return mean_loss(
                hidden.flatten(0, 1), head, targets_BT.flatten(), chunk=self.compute.loss_chunk
            )


def initialise(model: Zaya, seed: int) -> None:
    """Draw the weights from normal(0, 0.02); output projections are smaller in deeper models.

    Scales are 1 and biases 0, except the router's bias of the skip expert.
    """
    generator = torch.Generator(device="cpu").manual_seed(seed)
    depth = (2 * model.model.blocks) ** -0.5
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() < 2:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
                continue
            if "depthwise" in name or "grouped" in name:
                std = parameter[0].numel() ** -0.5
            else:
                std = INIT_STD * (
                    depth if name.endswith(("output.weight", "experts.down")) else 1.0
                )
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * std)
        for block in model.blocks:
            block.router.balance.zero_()
            block.router.balance[-1] = SKIP_BIAS


def build(config: ZayaConfig, *, device: str) -> Zaya:
    """Return the model of `config` with random weights, the same on every rank and device."""
    with torch.device("meta"):
        zaya = Zaya(config.model, precision=config.precision, compute=config.compute)
    zaya.to_empty(device=device)
    initialise(zaya, config.seed)
    return zaya
