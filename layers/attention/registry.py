"""The attentions that blocks can be built with, by their name in a configuration.

An attention is a layer like `ConvolutionalAttention`: it takes the same arguments, it has the three steps `score`,
`weigh` and `apply_weights`, and it holds the sublayers `value_map`, `output_map` and `drop`. The simplest way to write
one is to subclass `ConvolutionalAttention` and to override one step. One line registers it:

    ATTENTIONS["relative"] = RelativePositionAttention
"""

from fabir_tf.layers.attention.convolutional_attention import ConvolutionalAttention

ATTENTIONS = {"convolutional": ConvolutionalAttention}


def find_attention(name: str) -> type[ConvolutionalAttention]:
    """The class registered under a name.

    Raises:
        ValueError: there is none.
    """
    if name not in ATTENTIONS:
        raise ValueError(f"attention must be one of {', '.join(ATTENTIONS)}. Received: attention={name!r}")
    return ATTENTIONS[name]
