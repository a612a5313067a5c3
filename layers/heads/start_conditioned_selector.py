import keras
from keras import ops

from fabir_tf.layers.blocks.recurrent_encoder import RecurrentEncoder
from fabir_tf.layers.core.dropout import Dropout
from fabir_tf.layers.heads.token_logits import TokenLogits


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class StartConditionedSelector(keras.layers.Layer):
    """BiDAF's borders: the end is sought by a network that knows where the answer is likely to begin.

        start = w_1^T [G; M],   p = softmax(start),   a = sum_t p_t M_t
        M'    = BiRNN([G; M; a; M * a])
        end   = w_2^T [G; M']

    `G` is the attention flow, `M` what the modelling layers made of it.

    Masking: explicit, `passage_mask`. Padding has no part in `a` and leaves with the logit -1e9.

    Args:
        units: features of each of the recurrent networks' states.
        cell: "lstm" or "gru".
        dropout: share of the values dropped in front of each product with a weight, in training.

    Call arguments:
        flow: float tensor `(batch, passage, flow_features)`.
        modelled: float tensor `(batch, passage, features)`.
        passage_mask: boolean tensor `(batch, passage)`, true on real tokens.

    Returns:
        Start and end logits, two float32 tensors `(batch, passage)`.

    Example:
        >>> start, end = StartConditionedSelector(units=100)(flow, modelled, passage_mask)

    Reference: Seo et al. 2017, section 2, 6, and the end as in its authors' program (bi-att-flow).
    """

    def __init__(self, units: int = 100, cell: str = "lstm", dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.cell = cell
        self.dropout = dropout
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)
        self.end_encoder = RecurrentEncoder(units, cell, name="end_encoder", dtype=self.dtype_policy)
        self.start, self.end = (TokenLogits(dropout, name=name, dtype=self.dtype_policy) for name in ("start", "end"))

    def build(self, flow_shape, modelled_shape):
        flow, modelled = flow_shape[-1], modelled_shape[-1]
        self.start.build((None, None, flow + modelled))
        self.end_encoder.build((None, None, flow + 3 * modelled))
        self.end.build((None, None, flow + 2 * self.units))

    def call(self, flow, modelled, passage_mask, training=None):
        start = self.start(ops.concatenate([flow, modelled], axis=-1), passage_mask, training=training)
        begins = ops.cast(ops.softmax(start, axis=-1), self.compute_dtype)
        chosen = ops.matmul(begins[:, None], modelled)
        both = ops.concatenate([flow, modelled, chosen + ops.zeros_like(modelled), modelled * chosen], axis=-1)
        ended = self.end_encoder(self.drop(both, training=training), passage_mask)
        return start, self.end(ops.concatenate([flow, ended], axis=-1), passage_mask, training=training)

    def compute_output_shape(self, flow_shape, modelled_shape):
        return flow_shape[:-1], flow_shape[:-1]

    def compute_output_spec(self, flow, modelled, passage_mask, training=None):
        # Float32 under every policy, which Keras would not guess from the shapes.
        return tuple(keras.KerasTensor(shape, "float32") for shape in self.compute_output_shape(flow.shape, None))

    def get_config(self):
        return super().get_config() | {"units": self.units, "cell": self.cell, "dropout": self.dropout}
