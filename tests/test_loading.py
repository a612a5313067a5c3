"""SavedModels from elsewhere: what may be loaded, what is refused, and that nothing refused has run."""

import os
import pickle
import re
import shutil

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2
from tensorflow.python.framework import op_def_registry

from fabir_tf.export import SavedModelReader
from fabir_tf.export.loading import first_line, load_saved_model, read_saved_model
from fabir_tf.export.operations import OPERATIONS, SAVING, forbidden_operations
from fabir_tf.pipelines.errors import UserError

# What gives away an operation that reaches something outside the model.
OUTSIDE = re.compile(
    r"File|Py|Print|Log.*Summary|Summary|Dataset|Iterator|Reader|Record|Load(?!.*Embedding)|Save|Restore|Checkpoint|Rpc|"
    r"Debug|Send|Recv|Remote|Custom|Library|Shared(?:Library|Filename)|Directory|Socket|Host|Xla|Stage|Queue|Barrier"
)


def save(folder, function, *specs, **objects):
    module = tf.Module()
    for name, value in objects.items():
        setattr(module, name, value)
    module.run = tf.function(function, input_signature=specs or [tf.TensorSpec([], tf.string, "x")], autograph=False)
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.run})
    return folder


def changed(folder, change):
    """Changes a message and writes it again."""
    path = folder / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    change(saved)
    path.write_bytes(saved.SerializeToString())
    return folder


def refusal(folder, names):
    return (
        rf"^{re.escape(str(folder))}: found operations that may reach files or run programs \({names}\), expected "
        r"only those that compute, or --trust_model \(in Python trust_model=True\) for a SavedModel that you trust$"
    )


def reads(x):
    return {"y": tf.io.read_file(x)}


def writes(x):
    with tf.control_dependencies([tf.io.write_file(x, "written")]):
        return {"y": tf.identity(x)}


def runs_python(x):
    return {"y": tf.numpy_function(lambda text: text, [x], tf.string)}


def saves(x):
    with tf.control_dependencies([tf.raw_ops.SaveV2(prefix=x, tensor_names=["a"], shape_and_slices=[""], tensors=[x])]):
        return {"y": tf.identity(x)}


def restores(x):
    return {"y": tf.raw_ops.RestoreV2(prefix=x, tensor_names=["a"], shape_and_slices=[""], dtypes=[tf.string])[0]}


def prints(x):
    with tf.control_dependencies([tf.raw_ops.PrintV2(input=x, output_stream="file:///dev/null")]):
        return {"y": tf.identity(x)}


def reads_in_a_branch(x):
    return {"y": tf.cond(tf.equal(x, ""), lambda: x, lambda: tf.io.read_file(x))}


def reads_in_a_loop(x):
    (text,) = tf.while_loop(lambda text: tf.strings.length(text) < 3, lambda text: (tf.io.read_file(text),), [x])
    return {"y": text}


def lists_files(x):
    return {
        "y": tf.reduce_sum(tf.data.Dataset.list_files(x).reduce(tf.constant(0, tf.int64), lambda count, _: count + 1))
    }


# === The list ===


def test_the_list_holds_operations_that_compute_only():
    assert not OPERATIONS & SAVING
    assert [name for name in OPERATIONS | SAVING if op_def_registry.get(name) is None] == []
    assert [name for name in OPERATIONS if OUTSIDE.search(name)] == []
    for name in ("ReadFile", "WriteFile", "PyFunc", "EagerPyFunc", "PrintV2", "MatchingFiles", "LoadDataset"):
        assert name not in OPERATIONS and OUTSIDE.search(name)
    # What has a state here is a variable or a table of the model itself, or calls a function that is checked.
    assert {name for name in OPERATIONS if op_def_registry.get(name).is_stateful} == {
        *("Assert", "AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp", "Case", "DisableCopyOnRead"),
        *("Empty", "HashTableV2", "If", "LookupTableExportV2", "LookupTableFindV2", "LookupTableImportV2"),
        *("LookupTableSizeV2", "ReadVariableOp", "ResourceGather", "StatefulPartitionedCall", "VarHandleOp"),
        *("VarIsInitializedOp", "VariableShape", "While"),
    }


# === Our own exports ===


def test_a_reader_of_ours_needs_no_trust(exported):
    reader = SavedModelReader(exported.folder)
    pair = "Who came?", "Ada came on Monday, and Karl on the day after."
    assert reader.answer(*pair).text == exported.reader.answer(*pair).text
    assert pickle.loads(pickle.dumps(reader)).path == reader.path
    assert reader.calibration == exported.reader.calibration


def test_saving_may_stand_in_its_two_functions_alone(exported, tmp_path):
    saved = read_saved_model(exported.folder)
    (graph,) = saved.meta_graphs
    ops = {
        function.signature.name: {node.op for node in function.node_def}
        for function in graph.graph_def.library.function
    }
    saving = [name for name, used in ops.items() if used & SAVING]
    assert len(saving) == 2
    assert forbidden_operations(saved) == []
    # In the graph itself, as TensorFlow 1 wrote it.
    graph.ClearField("object_graph_def")
    assert forbidden_operations(saved) == sorted(SAVING)


# === Others ===


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (reads, "ReadFile"),
        (writes, "WriteFile"),
        (runs_python, "PyFunc"),
        (saves, "SaveV2"),
        (restores, "RestoreV2"),
        (prints, "PrintV2"),
        (reads_in_a_branch, "ReadFile"),
        (reads_in_a_loop, "ReadFile"),
        (lists_files, ".*MatchingFiles.*"),
    ],
)
def test_operations_that_reach_outside_are_refused(tmp_path, function, names):
    folder = save(tmp_path / "1", function)
    with pytest.raises(UserError, match=refusal(folder, names)):
        load_saved_model(folder)
    with pytest.raises(UserError, match=refusal(folder, names)):
        SavedModelReader(folder)


def test_what_is_trusted_is_loaded(tmp_path):
    (tmp_path / "secret").write_text("open sesame")
    served = load_saved_model(save(tmp_path / "1", reads), trust_model=True).signatures["serving_default"]
    assert served(x=tf.constant(str(tmp_path / "secret")))["y"].numpy() == b"open sesame"


def test_loading_alone_would_write_a_file(tmp_path):
    """An initializer runs while the SavedModel is loaded: a check of what is called comes too late."""
    target = tmp_path / "written"

    class Table(tf.saved_model.experimental.TrackableResource):
        def _create_resource(self):
            return tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)

        def _initialize(self):
            tf.io.write_file(str(target), "written")

    folder = save(tmp_path / "1", lambda x: {"y": x}, table=Table())
    with pytest.raises(UserError, match=refusal(folder, "WriteFile")):
        load_saved_model(folder)
    assert not target.exists()
    load_saved_model(folder, trust_model=True)
    assert target.read_text() == "written"


def test_another_model_that_only_computes_is_loaded(tmp_path):
    weight = tf.Variable(0.5)
    half = save(tmp_path / "1", lambda x: {"y": weight * x + 2.0}, tf.TensorSpec([], tf.float32, "x"), weight=weight)
    assert load_saved_model(half).signatures["serving_default"](x=tf.constant(3.0))["y"].numpy() == 3.5


# === Ways around the check ===


def calls_restore(saved, how):
    """Lets a function that is served call the one that restores."""
    (graph,) = saved.meta_graphs
    library = graph.graph_def.library.function
    restore = next(f for f in library if any(node.op == "RestoreV2" for node in f.node_def))
    other = next(f for f in library if "signature_wrapper" in f.signature.name)
    how(graph, other, restore.signature.name)


def by_a_call(graph, other, name):
    other.node_def.add(name="call", op="PartitionedCall").attr["f"].func.name = name


def by_a_branch(graph, other, name):
    other.node_def.add(name="call", op="Case").attr["branches"].list.func.add(name=name)


def by_an_attribute_of_a_function(graph, other, name):
    call = other.node_def.add(name="call", op="PartitionedCall").attr["f"].func
    call.name = "other"
    call.attr["f"].func.name = name


def by_its_name(graph, other, name):
    """An operation that has the name of the function."""
    for function in graph.graph_def.library.function:
        if function.signature.name == name:
            function.signature.name = "Abs"
    for node in graph.graph_def.node:
        if node.attr["f"].func.name == name:
            node.attr["f"].func.name = "Abs"
    other.node_def.add(name="call", op="Abs")


def by_a_concrete_function(graph, other, name):
    graph.object_graph_def.concrete_functions[name].SetInParent()


def by_an_object(graph, other, name):
    graph.object_graph_def.nodes.add().function.concrete_functions.append(name)


def by_a_bare_function(graph, other, name):
    graph.object_graph_def.nodes.add().bare_concrete_function.concrete_function_name = name


def by_the_graph(graph, other, name):
    graph.graph_def.node.add(name="call", op="PartitionedCall").attr["f"].func.name = name


def as_the_saver(graph, other, name):
    """What is served is called what saves."""
    other.node_def.add(name="r", op="RestoreV2")
    caller = next(node for node in graph.graph_def.node if node.attr["f"].func.name == other.signature.name)
    graph.saver_def.restore_op_name = caller.name


@pytest.mark.parametrize(
    "how",
    [
        *(by_a_call, by_a_branch, by_an_attribute_of_a_function, by_its_name, by_a_concrete_function, by_an_object),
        *(by_a_bare_function, by_the_graph, as_the_saver),
    ],
)
def test_the_functions_that_save_can_be_called_by_nothing_else(exported, how):
    saved = read_saved_model(exported.folder)
    calls_restore(saved, how)
    assert "RestoreV2" in forbidden_operations(saved)


def test_a_second_graph_is_checked_too(exported):
    saved = read_saved_model(exported.folder)
    saved.meta_graphs.add().graph_def.node.add(name="x", op="ReadFile")
    assert "ReadFile" in forbidden_operations(saved)


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "a/../../b", "C:\\x", "..\\x", "file:///etc/passwd"])
@pytest.mark.parametrize("is_old", [False, True])
def test_assets_outside_the_folder_are_refused(tmp_path, name, is_old):
    def add(saved):
        asset = meta_graph_pb2.AssetFileDef(filename=name)
        if is_old:
            saved.meta_graphs[0].collection_def["saved_model_assets"].any_list.value.add().Pack(asset)
        else:
            saved.meta_graphs[0].asset_file_def.append(asset)

    folder = changed(save(tmp_path / "1", lambda x: {"y": x}), add)
    message = f"^{re.escape(f'{folder}: found the asset {name!r}')}, expected a path inside the SavedModel's folder$"
    with pytest.raises(UserError, match=message):
        load_saved_model(folder)


def test_an_asset_inside_the_folder_is_loaded(tmp_path):
    (tmp_path / "words.txt").write_text("a\n")
    asset = tf.saved_model.Asset(str(tmp_path / "words.txt"))
    loaded = load_saved_model(save(tmp_path / "1", lambda x: {"y": x}, asset=asset))
    assert loaded.asset.asset_path.numpy().decode().endswith("1/assets/words.txt")


# === Damage ===


def written(folder, content):
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"damaged", "saved_model.pb: the file is damaged, expected a SavedModel"),
        (b"", "saved_model.pb: found no graph, expected a SavedModel"),
    ],
)
def test_a_damaged_file_has_one_sentence(tmp_path, content, message):
    with pytest.raises(UserError) as caught:
        load_saved_model(written(tmp_path / "1", content))
    assert str(caught.value) == f"{tmp_path / '1'}{os.sep}{message}"


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (
            "Graph execution error:\n\nDetected at node a/Assert defined at (most recent call last):\n"
            "<stack traces unavailable>\nassertion failed: [expected one] [1 2]\n\t [[{{node a/Assert}}]]",
            "assertion failed: [expected one] [1 2]",
        ),
        ("indices[0] = 3 is not in [0, 3)\n\t [[{{node x}}]]", "indices[0] = 3 is not in [0, 3)"),
        ("Graph execution error:\n", "ValueError"),
        ("", "ValueError"),
    ],
)
def test_the_line_of_an_error_that_says_what_is_wrong(message, line):
    assert first_line(ValueError(message)) == line


def test_a_folder_without_a_saved_model(tmp_path):
    with pytest.raises(UserError, match=r"found no SavedModel \(saved_model.pb: No such file or directory\)$"):
        load_saved_model(tmp_path)


def test_a_text_that_tensorflow_would_read_instead(tmp_path):
    """Without saved_model.pb TensorFlow takes saved_model.pbtxt, which nobody has checked."""
    folder = save(tmp_path / "1", reads)
    (folder / "saved_model.pbtxt").write_text(str(read_saved_model(folder)))
    (folder / "saved_model.pb").unlink()
    with pytest.raises(UserError, match="found no SavedModel"):
        load_saved_model(folder)


def test_a_file_cut_short(exported, tmp_path):
    raw = (exported.folder / "saved_model.pb").read_bytes()
    with pytest.raises(UserError, match=r"the file is damaged, expected a SavedModel$"):
        load_saved_model(written(tmp_path / "1", raw[: len(raw) // 2]))


def test_damaged_variables(exported, tmp_path):
    folder = shutil.copytree(exported.folder, tmp_path / "1")
    (folder / "variables" / "variables.index").write_bytes(b"damaged")
    with pytest.raises(UserError, match=r"found a SavedModel that cannot be loaded \(.+\)$"):
        load_saved_model(folder)


def test_a_saved_model_that_is_no_reader(tmp_path):
    with pytest.raises(UserError, match=r"found the outputs y, expected those of a reader$"):
        SavedModelReader(save(tmp_path / "1", lambda x: {"y": tf.strings.lower(x)}))
