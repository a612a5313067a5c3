import keras
from keras import ops

from fabir_tf.layers.blocks.recurrent_encoder import RecurrentEncoder
from fabir_tf.layers.core.dropout import Dropout
from fabir_tf.layers.core.frozen import stay_frozen
from fabir_tf.layers.heads.token_logits import TokenLogits


@keras.saving.register_keras_serializable(package="fabir_tf.layers")
class StartConditionedSelector(keras.layers.Layer):
    """BiDAF's start and end logits: the network for the end knows where the answer is likely to start.

        start = w_1^T [G; M],   p = softmax(start),   a = sum_t p_t M_t
        M'    = BiRNN([G; M; a; M * a])
        end   = w_2^T [G; M']

    `G` is the attention flow, `M` the output of the modelling layers.

    Masking: explicit, `passage_mask`. Padding has no share in `a` and gets the logit -1e9.

    Args:
        units: features of the state of each recurrent network.
        cell: "lstm" or "gru".
        dropout: share of the values dropped before each product with a weight, in training.
        use_bias: `use_bias` of the logits.

    Call arguments:
        flow: float tensor `(batch, passage, flow_features)`.
        modelled: float tensor `(batch, passage, features)`.
        passage_mask: boolean tensor `(batch, passage)`, true on real tokens.

    Returns:
        Start and end logits, two float32 tensors `(batch, passage)`.

    Example:
        >>> start, end = StartConditionedSelector(units=100)(flow, modelled, passage_mask)

    Reference: Seo et al. 2017, section 2, 6; the end as in the authors' code (bi-att-flow).
    """

    def __init__(self, units: int = 100, cell: str = "lstm", dropout: float = 0.0, use_bias: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.cell = cell
        self.dropout = dropout
        self.use_bias = use_bias
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)
        self.end_encoder = RecurrentEncoder(units, cell, name="end_encoder", dtype=self.dtype_policy)
        self.start, self.end = (
            TokenLogits(dropout, use_bias, name=name, dtype=self.dtype_policy) for name in ("start", "end")
        )

    def build(self, flow_shape, modelled_shape):
        flow, modelled = flow_shape[-1], modelled_shape[-1]
        self.start.build((None, None, flow + modelled))
        self.end_encoder.build((None, None, flow + 3 * modelled))
        self.end.build((None, None, flow + 2 * self.units))
        stay_frozen(self)

    def call(self, flow, modelled, passage_mask, training=None):
        start = self.start(ops.concatenate([flow, modelled], axis=-1), passage_mask, training=training)
        starts = ops.cast(ops.softmax(start, axis=-1), self.compute_dtype)
        chosen = ops.matmul(starts[:, None], modelled)
        both = ops.concatenate([flow, modelled, chosen + ops.zeros_like(modelled), modelled * chosen], axis=-1)
        ended = self.end_encoder(self.drop(both, training=training), passage_mask)
        return start, self.end(ops.concatenate([flow, ended], axis=-1), passage_mask, training=training)

    def compute_output_shape(self, flow_shape, modelled_shape):
        return flow_shape[:-1], flow_shape[:-1]

    def compute_output_spec(self, flow, modelled, passage_mask, training=None):
        # Keras cannot infer from the shapes that the logits are float32 under every policy.
        return tuple(keras.KerasTensor(shape, "float32") for shape in self.compute_output_shape(flow.shape, None))

    def get_config(self):
        return super().get_config() | {
            "units": self.units,
            "cell": self.cell,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
        }
