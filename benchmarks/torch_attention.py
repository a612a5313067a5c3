"""Attention for PyTorch on a CPU, with which a training step of MiniLM takes 0.4 to 0.7 of the time.

transformers knows it as `ATTENTION` after `register`. The mask is one of keys: a query sees what its neighbors see.
"""

import torch
from transformers import AttentionInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask

ATTENTION = "cpu"


class _Attention(torch.autograd.Function):
    """softmax(query key' + bias) value of `(batch * heads, tokens, width)`; the weights are kept for the gradients."""

    @staticmethod
    def forward(ctx, query, key, value, bias):
        weights = torch.softmax(torch.baddbmm(bias, query, key.transpose(1, 2)), -1)
        found = torch.bmm(weights, value)
        ctx.save_for_backward(query, key, value, weights, found)
        return found

    @staticmethod
    def backward(ctx, *gradients):
        (gradient,) = gradients
        query, key, value, weights, found = ctx.saved_tensors
        # Of the softmax: weights * (d weights - sum(weights * d weights)), and that sum is the one of found * gradient.
        sums = (found * gradient).sum(-1, keepdim=True).neg_().expand(-1, -1, key.shape[1])
        of_logits = torch.baddbmm(sums, gradient, value.transpose(1, 2)).mul_(weights)
        of_key = torch.bmm(of_logits.transpose(1, 2), query)
        return torch.bmm(of_logits, key), of_key, torch.bmm(weights.transpose(1, 2), gradient), None


def _attend(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **_):
    """One of transformers: `(batch, heads, tokens, width)` in, `(batch, tokens, heads, width)` out."""
    if dropout:
        raise ValueError(f"dropout must be 0 on a CPU. Received: dropout={dropout}")
    batch, heads, tokens, width = query.shape
    flat = (batch * heads, tokens, width)
    query = query * (width**-0.5 if scaling is None else scaling)
    bias = torch.zeros((), dtype=query.dtype)
    if attention_mask is not None:
        of_keys = attention_mask[:, :, :1].to(query.dtype).expand(batch, heads, 1, tokens)
        bias = of_keys.reshape(batch * heads, 1, tokens)
    bias = bias.expand(batch * heads, tokens, tokens)
    found = _Attention.apply(query.reshape(flat), key.reshape(flat), value.reshape(flat), bias)
    return found.view(batch, heads, tokens, width).transpose(1, 2).contiguous(), None


def register() -> str:
    """Makes it known to transformers; returns its name, for `attn_implementation`."""
    AttentionInterface.register(ATTENTION, _attend)
    ALL_MASK_ATTENTION_FUNCTIONS.register(ATTENTION, eager_mask)
    return ATTENTION
