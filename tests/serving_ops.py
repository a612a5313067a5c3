"""Operations that a reader may use: each is TensorFlow's own, so a stock TensorFlow Serving has it."""

NAMES = """
AddV2 All Any Assert AssignVariableOp BatchMatMulV2 BiasAdd BitwiseAnd BroadcastTo Cast ConcatV2 Const
Conv2D Cos Cumsum DepthwiseConv2dNative DisableCopyOnRead Equal Exp ExpandDims Fill FloorDiv FloorMod
GatherNd GatherV2 Greater GreaterEqual HashTableV2 Identity If Less LessEqual LogSoftmax LogicalAnd
LogicalNot LogicalOr LookupTableFindV2 LookupTableImportV2 LowerBound MatMul Max Maximum Mean
MergeV2Checkpoints Minimum Mul Neg NoOp NotEqual Pack Pad PadV2 Placeholder Prod RaggedRange
RaggedTensorToTensor Range ReadVariableOp RealDiv Relu Reshape RestoreV2 RightShift Roll Rsqrt SaveV2
ScatterNd Select SelectV2 Shape ShardedFilename Sigmoid Sin Size Softmax Split SplitV Square SquaredDifference
Squeeze StatefulPartitionedCall StatelessIf StatelessWhile StaticRegexFullMatch StaticRegexReplace
StopGradient StridedSlice StringJoin StringLength Sub Substr Sum Tanh TensorListLength TensorListReserve
TensorListSetItem TensorListStack TensorScatterUpdate Tile TopKV2 Transpose UnicodeDecodeWithOffsets
UnicodeEncode Unpack Unique UniqueV2 UnsortedSegmentMax UnsortedSegmentMin VarHandleOp Where While ZerosLike
"""
SERVING_OPS = frozenset(NAMES.split())
