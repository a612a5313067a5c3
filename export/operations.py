"""The operations that a SavedModel may hold: they compute, and reach nothing outside the model."""

from collections.abc import Iterator

from tensorflow.core.framework import node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

# What readers of this package are exported as. Each is TensorFlow's own, so that a stock TensorFlow Serving has it.
_OF_READERS = """
Abs AddV2 All Any Assert AssignVariableOp BatchMatMulV2 BiasAdd BitwiseAnd BroadcastTo Cast ConcatV2 Const Conv2D Cos
Cumsum DecodePaddedRaw DepthwiseConv2dNative DisableCopyOnRead Equal Erf Exp ExpandDims Fill FloorDiv FloorMod GatherNd
GatherV2 Greater GreaterEqual HashTableV2 Identity If Less LessEqual Log LogSoftmax LogicalAnd LogicalNot LogicalOr
LookupTableFindV2 LookupTableImportV2 LowerBound MatMul Max Maximum Mean Minimum Mul Neg NoOp NotEqual Pack Pad PadV2
Placeholder Prod RaggedRange RaggedTensorToTensor Range ReadVariableOp RealDiv Relu Reshape RightShift Roll Rsqrt
ScatterNd Select SelectV2 Shape Sigmoid Sin Size Softmax Split SplitV Square SquaredDifference Squeeze
StatefulPartitionedCall StatelessIf StatelessWhile StaticRegexFullMatch StaticRegexReplace StopGradient StridedSlice
StringJoin StringLength Sub Substr Sum Tanh TensorListFromTensor TensorListGetItem TensorListLength TensorListReserve
TensorListSetItem TensorListStack TensorScatterUpdate Tile TopKV2 Transpose UnicodeDecodeWithOffsets UnicodeEncode
Unique UniqueV2 Unpack UnsortedSegmentMax UnsortedSegmentMin VarHandleOp Where While ZerosLike
"""

# What else a reader of one's own may be made of: arithmetic, text, shapes and control flow.
_OF_OTHERS = """
Acos Acosh Add AddN ArgMax ArgMin AsString Asin Asinh AssignAddVariableOp AssignSubVariableOp Atan Atan2 Atanh AvgPool
BatchMatMulV3 BitwiseOr BitwiseXor BroadcastArgs Bucketize Case Ceil ClipByValue Conv2DBackpropInput Conv3D Cosh Cumprod
CumulativeLogsumexp DecodeBase64 DivNoNan Einsum Elu Empty EmptyTensorList EncodeBase64 EnsureShape Enter Erfc Erfinv
Exit Expm1 Floor FusedBatchNormV3 Gather IdentityN InvertPermutation IsFinite IsInf IsNan L2Loss LeakyRelu LeftShift
Lgamma LinSpace Log1p LookupTableExportV2 LookupTableSizeV2 LoopCond MatrixBandPart MatrixDiagPartV3 MatrixDiagV3
MaxPool Merge Min MirrorPad MulNoNan NextIteration OneHot OnesLike PartitionedCall PlaceholderWithDefault Pow
RaggedGather Rank Reciprocal RegexFullMatch RegexReplace Relu6 ResourceGather ReverseSequence ReverseV2 Rint Round
SegmentMaxV2 SegmentMean SegmentMinV2 SegmentSumV2 Selu ShapeN Sign Sinh Slice Softplus Softsign Sqrt StatelessCase
StringLower StringSplitV2 StringStrip StringToHashBucketFast StringToHashBucketStrong StringToNumber StringUpper Switch
Tan TensorListConcatV2 TensorListElementShape TensorListGather TensorListPopBack TensorListPushBack TensorListResize
TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub TruncateDiv TruncateMod UnicodeDecode UnicodeScript
UnicodeTranscode UnravelIndex UnsortedSegmentProd UnsortedSegmentSum UpperBound VarIsInitializedOp VariableShape Xdivy
Xlog1py Xlogy
"""

OPERATIONS = frozenset((_OF_READERS + _OF_OTHERS).split())
"""What any part of a SavedModel may hold: none of it touches a file, runs Python, loads a library or opens a socket."""

SAVING = frozenset({"MergeV2Checkpoints", "RestoreV2", "SaveV2", "ShardedFilename"})
"""What TensorFlow puts into every SavedModel to write and read variables. They touch files, so they may only stand in
the two functions made for it, which nothing else calls: TensorFlow 2 runs neither, as it reads variables itself."""


def forbidden_operations(saved: saved_model_pb2.SavedModel) -> list[str]:
    """The operations of a SavedModel that are not known to be harmless, in alphabetical order.

    Args:
        saved: a `SavedModel` message.
    """
    # With several graphs, or without a record of its objects, TensorFlow 1's rules apply, and those do run the graph
    # that saves.
    graphs = saved.meta_graphs
    is_new = len(graphs) == 1 and graphs[0].HasField("object_graph_def")
    found: set[str] = set()
    for graph in graphs:
        saving = _saving_functions(graph) if is_new else set()
        for function, node in _nodes(graph):
            if node.op not in OPERATIONS and not (node.op in SAVING and function in saving):
                found.add(node.op)
    return sorted(found)


def _nodes(graph: meta_graph_pb2.MetaGraphDef) -> Iterator[tuple[str | None, node_def_pb2.NodeDef]]:
    """All nodes with the name of their function, None for the graph itself."""
    yield from ((None, node) for node in graph.graph_def.node)
    for function in graph.graph_def.library.function:
        yield from ((function.signature.name, node) for node in function.node_def)


def _saving_functions(graph: meta_graph_pb2.MetaGraphDef) -> set[str]:
    """The functions that only the nodes call which `saver_def` names."""
    saver = graph.saver_def
    ends = {name.partition(":")[0] for name in (saver.save_tensor_name, saver.restore_op_name)} - {""}
    objects = graph.object_graph_def
    others = set(objects.concrete_functions)
    for one in objects.nodes:
        others |= {*one.function.concrete_functions, one.bare_concrete_function.concrete_function_name}
    saving: set[str] = set()
    for function, node in _nodes(graph):
        # A node may also call a function by having its name for an operation.
        others.add(node.op)
        if function is None and node.name in ends:
            saving |= _called(node.attr)
        else:
            others |= _called(node.attr)
    return saving - others


def _called(attributes) -> set[str]:
    """The functions that stand in the attributes of a node, and in those of these functions."""
    found: set[str] = set()
    for value in attributes.values():
        # Most attributes are neither, and to read what is not there takes most of the time.
        functions = [value.func] if value.HasField("func") else value.list.func if value.HasField("list") else ()
        for function in functions:
            found |= {function.name, *_called(function.attr)}
    return found
