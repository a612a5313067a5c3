"""Exported readers in NumPy and ONNX Runtime, LiteRT or OpenVINO, without TensorFlow and Keras.

reader = fabir_tf.edge.EdgeReader.load("exported/fabir/1")
reader.answer("Who wrote it?", "It was written by Ada.").to_dict()
"""

from fabir_tf.edge.edge_reader import EdgeReader

__all__ = ["EdgeReader"]
