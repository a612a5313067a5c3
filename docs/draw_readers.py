"""Draws docs/pictures/: the graph of each reader from its functional model, and the way from a text to an answer.

    python docs/draw_readers.py

A picture has one box per layer, with its name, its class, its trainable parameters and the shapes of its outputs. A
layer that is called once for each text is one box. Dropout, masks and operations without a layer are not drawn.
"""

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterable
from html import escape
from pathlib import Path

import keras

import fabir_tf
from fabir_tf.models.graph_nodes import call_of
from fabir_tf.models.parameters import count_trainable

FOLDER = Path(__file__).parent / "pictures"
WIDTH, MARGIN, GAP, ROW_GAP, TOP = 800, 16, 22, 40, 62
# Lengths that no layer has, so that a shape shows which text it belongs to.
SIZES = {997: "batch", 1009: "passage", 1013: "question"}
LENGTHS = {name: size for size, name in SIZES.items()}
ARROWS = {"passage": "#00796b", "question": "#d84315"}
FILLS = {
    "input": "#eceff1",
    "embeddings": "#e0f2f1",
    "attention": "#e3f2fd",
    "blocks": "#ede7f6",
    "heads": "#fff3e0",
    "output": "#eceff1",
    "join": "#ffffff",
}


# === A model's graph ===


@dataclasses.dataclass
class Box:
    """A box of a picture: its lines of text, the first one bold, its kind, which gives the color, and its place.

    A box without lines is where an arrow passes a rank, whose height is the box's room.
    """

    kind: str
    lines: list[str]
    shapes: list[str] = dataclasses.field(default_factory=list)
    rank: int = 0
    x: float = WIDTH / 2
    y: float = 0.0
    room: float = 0.0

    @property
    def width(self) -> float:
        sizes = [
            (8.2 if number == 0 and self.kind != "join" else 6.9) * len(line) for number, line in enumerate(self.lines)
        ]
        return max(sizes, default=0) + 26 if self.lines else 18

    @property
    def height(self) -> float:
        return 20 + 17 * len(self.lines) if self.lines else 0


Edge = tuple[object, object, str]


def graph_of(model: keras.Model) -> tuple[dict[object, Box], list[Edge]]:
    """The boxes of a model by key, and its arrows: source, target and text."""
    calls = _calls(model)
    values = _sized_values(calls)
    texts_of_calls = defaultdict(list)
    for operation, node in calls:
        texts_of_calls[id(operation)].append(_text(values[id(node.outputs[0])].shape))
    boxes: dict[object, Box] = {}
    origins: dict[int, list[tuple[object, str]]] = {}
    edges: dict[Edge, None] = {}
    for operation, node in calls:
        sources = list(dict.fromkeys(itertools.chain(*(origins[id(source)] for source in node.input_tensors))))
        kind = _kind(operation)
        if kind is None:
            for output in node.outputs:
                origins[id(output)] = [] if output.dtype == "bool" else sources
            continue
        is_shared = sorted(texts_of_calls[id(operation)]) == ["passage", "question"]
        key = id(operation) if is_shared else id(node)
        box = boxes.setdefault(key, Box(kind, _title(operation, kind, is_shared)))
        for output in node.outputs:
            shape = values[id(output)].shape
            box.shapes.append(_shape_text(shape, is_shared))
            origins[id(output)] = [(key, _text(shape))]
        edges |= {(source, key, text): None for source, text in sources}
    for box in boxes.values():
        box.lines.append(_joined(box.shapes, box.kind))
    for name, tensor in model.output.items():
        boxes[name] = Box("output", [name, _shape_text(values[id(tensor)].shape)])
        edges |= {(source, name, text): None for source, text in origins[id(tensor)]}
    # A reader may leave some inputs unused.
    used = {key for source, target, _ in edges for key in (source, target)}
    return {key: box for key, box in boxes.items() if key in used}, list(edges)


def _calls(model: keras.Model) -> list[tuple]:
    """All calls in an order in which they can be computed: operation and node."""
    found: dict[int, tuple] = {}

    def visit(tensor: keras.KerasTensor) -> None:
        operation, node = call_of(tensor)
        if id(node) not in found:
            for source in node.input_tensors:
                visit(source)
            found[id(node)] = operation, node

    for tensor in (*model.inputs, *model.output.values()):
        visit(tensor)
    return list(found.values())


def _sized_values(calls: list[tuple]) -> dict[int, keras.KerasTensor]:
    """Each symbolic tensor once more, with `SIZES` as the unknown lengths."""
    values: dict[int, keras.KerasTensor] = {}
    for operation, node in calls:
        if isinstance(operation, keras.layers.InputLayer):
            (tensor,) = node.outputs
            shape = (LENGTHS["batch"], LENGTHS[tensor.name.partition("_")[0]], *tensor.shape[2:])
            outputs = [keras.KerasTensor(shape, tensor.dtype)]
        else:
            args, kwargs = node.arguments.fill_in(values)
            kwargs.pop("training", None)
            outputs = keras.tree.flatten(operation(*args, **kwargs))
        values |= {id(tensor): value for tensor, value in zip(node.outputs, outputs, strict=True)}
    return values


def _kind(operation: keras.Operation) -> str | None:
    """The kind of an operation's box; None for one that is not drawn."""
    if isinstance(operation, keras.layers.InputLayer):
        return "input"
    if type(operation).__name__ in ("Concatenate", "Add"):
        return "join"
    if not isinstance(operation, keras.layers.Layer) or "Dropout" in type(operation).__name__:
        return None
    return type(operation).__module__.split(".")[2] if "fabir_tf" in type(operation).__module__ else "blocks"


def _title(operation: keras.Operation, kind: str, is_shared: bool) -> list[str]:
    if kind == "input":
        return [operation.name]
    if kind == "join":
        return []
    shared = ", once for each text" if is_shared else ""
    lines = [operation.name, f"{type(operation).__name__}{shared}"]
    count = count_trainable(operation)
    return [*lines, f"{count:,} parameters"] if count else lines


def _text(shape: tuple) -> str:
    """The text that a tensor belongs to."""
    return SIZES.get(shape[1], "passage") if len(shape) > 1 else "passage"


def _shape_text(shape: tuple, is_shared: bool = False) -> str:
    names = [SIZES.get(size, str(size)) for size in shape]
    if is_shared:
        names[1] = "text"
    return f"({', '.join(names)})"


def _joined(shapes: list[str], kind: str) -> str:
    counts = {shape: shapes.count(shape) for shape in shapes}
    if len(counts) == 1 and len(shapes) > 1 and "text" not in shapes[0]:
        text = f"{len(shapes)} x {shapes[0]}"
    else:
        text = " and ".join(counts)
    return f"concatenated: {text}" if kind == "join" else text


# === Layout ===


def lay_out(boxes: dict[object, Box], edges: list[Edge]) -> tuple[dict[object, Box], list[tuple[list, str]], float]:
    """Ranks from the inputs down, and positions within each rank.

    Returns:
        All boxes, with empty ones where an arrow passes a rank; the arrows as lists of keys with their text; and the
        height of the picture.
    """
    sources, targets = defaultdict(list), defaultdict(list)
    for source, target, _ in edges:
        sources[target].append(source)
        targets[source].append(target)
    # Once more than the longest path could be: a box may come before one of its sources.
    for _ in boxes:
        for key, box in boxes.items():
            box.rank = max((boxes[source].rank + 1 for source in sources[key]), default=0)
    for key, box in boxes.items():
        if not sources[key]:
            box.rank = min(boxes[target].rank for target in targets[key]) - 1
    last = max(box.rank for box in boxes.values())
    for box in boxes.values():
        box.rank = last if box.kind == "output" else box.rank
    everything, arrows = dict(boxes), []
    passing: dict[tuple, object] = {}
    for source, target, text in edges:
        path = [source]
        for rank in range(boxes[source].rank + 1, boxes[target].rank):
            key = passing.setdefault((source, target, rank), object())
            everything.setdefault(key, Box("passing", [], rank=rank))
            path.append(key)
        arrows.append(([*path, target], text))
    neighbors = defaultdict(set)
    for path, _ in arrows:
        for one, other in itertools.pairwise(path):
            neighbors[one].add(other)
            neighbors[other].add(one)
    ranks = [[key for key, box in everything.items() if box.rank == rank] for rank in range(last + 1)]
    _order(ranks, neighbors)
    _place(ranks, neighbors, everything)
    y = TOP
    for rank in ranks:
        height = max(everything[key].height for key in rank)
        for key in rank:
            everything[key].y, everything[key].room = y + height / 2, height
        y += height + ROW_GAP
    return everything, arrows, y - ROW_GAP + MARGIN


def _order(ranks: list[list], neighbors: dict) -> None:
    """Sorts each rank by the mean place of its neighbors, down and up several times."""
    for sweep in range(10):
        order = range(1, len(ranks)) if sweep % 2 == 0 else range(len(ranks) - 2, -1, -1)
        for number in order:
            beside = ranks[number + (-1 if sweep % 2 == 0 else 1)]
            place = {key: index / max(len(beside) - 1, 1) for index, key in enumerate(beside)}
            own = {key: index / max(len(ranks[number]) - 1, 1) for index, key in enumerate(ranks[number])}

            def mean(key, place=place, own=own):
                found = [place[other] for other in neighbors[key] if other in place]
                return sum(found) / len(found) if found else own[key]

            ranks[number].sort(key=mean)


def _place(ranks: list[list], neighbors: dict, boxes: dict) -> None:
    """Moves each box below and above its neighbors, without overlaps and within the page."""
    for _ in range(60):
        for rank in ranks:
            wanted = [
                sum(boxes[other].x for other in neighbors[key]) / len(neighbors[key]) if neighbors[key] else WIDTH / 2
                for key in rank
            ]
            widths = [boxes[key].width for key in rank]
            for key, x in zip(rank, _apart(wanted, widths), strict=True):
                boxes[key].x = x


def _apart(wanted: list[float], widths: list[float]) -> list[float]:
    """Positions close to the wanted ones whose boxes do not touch."""
    distances = [(one + other) / 2 + GAP for one, other in itertools.pairwise(widths)]
    offsets = [0.0, *itertools.accumulate(distances)]
    # Pooled means: boxes that would overlap move together.
    groups: list[list[float]] = []
    for value in (x - offset for x, offset in zip(wanted, offsets, strict=True)):
        groups.append([value, 1])
        while len(groups) > 1 and groups[-2][0] > groups[-1][0]:
            (one, count), (other, more) = groups[-2:]
            groups[-2:] = [[(one * count + other * more) / (count + more), count + more]]
    lefts = [value for value, count in groups for _ in range(int(count))]
    least, most = MARGIN + widths[0] / 2, WIDTH - MARGIN - widths[-1] / 2 - offsets[-1]
    return [min(max(left, least), most) + offset for left, offset in zip(lefts, offsets, strict=True)]


# === SVG ===


def picture(boxes: dict[object, Box], edges: list[Edge], title: str) -> str:
    """The SVG text of a graph."""
    everything, arrows, height = lay_out(boxes, edges)
    ports = _ports(everything, arrows)
    parts = [_arrow(everything, *arrow, ports[number]) for number, arrow in enumerate(arrows)]
    parts += [_box(box) for box in everything.values() if box.lines]
    legend = _label(MARGIN, 28, title, size=17, weight="bold", anchor="start")
    for number, (text, color) in enumerate(ARROWS.items()):
        x = WIDTH - 260 + 120 * number
        legend += f'<line x1="{x}" y1="23" x2="{x + 28}" y2="23" stroke="{color}" stroke-width="3"/>'
        legend += _label(x + 36, 28, text, anchor="start")
    return svg(height, [legend, *parts])


def svg(height: float, parts: Iterable[str]) -> str:
    """A picture of the page's width on a white ground."""
    heads = "".join(
        f'<marker id="{text}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{color}"/></marker>'
        for text, color in ARROWS.items()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
        f'height="{height:.0f}" font-family="Helvetica, Arial, sans-serif"><defs>{heads}</defs>\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _ports(boxes: dict, arrows: list) -> list[tuple[float, float]]:
    """Where each arrow leaves and enters a box: side by side, in the order of their other ends."""
    at = defaultdict(list)
    for number, (path, _) in enumerate(arrows):
        at[path[0], "out"].append((boxes[path[1]].x, number))
        at[path[-1], "in"].append((boxes[path[-2]].x, number))
    found = {}
    for (key, side), others in at.items():
        step = min(16.0, (boxes[key].width - 24) / max(len(others), 1))
        for index, (_, number) in enumerate(sorted(others)):
            found[number, side] = boxes[key].x + step * (index - (len(others) - 1) / 2)
    return [(found[number, "out"], found[number, "in"]) for number in range(len(arrows))]


def _arrow(boxes: dict, path: list, text: str, ports: tuple[float, float]) -> str:
    shift = {"passage": -4, "question": 4}[text]
    first, last = boxes[path[0]], boxes[path[-1]]
    points = [(ports[0], first.y + first.height / 2)]
    for box in (boxes[key] for key in path[1:-1]):
        points += [(box.x + shift, box.y - box.room / 2), (box.x + shift, box.y + box.room / 2)]
    points += [(ports[1], last.y - last.height / 2 - 1)]
    steps = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x, y), (to_x, to_y) in itertools.pairwise(points):
        middle = (y + to_y) / 2
        steps.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
    color = ARROWS[text]
    return f'<path d="{"".join(steps)}" fill="none" stroke="{color}" stroke-width="1.8" marker-end="url(#{text})"/>'


def _box(box: Box) -> str:
    x, y = box.x - box.width / 2, box.y - box.height / 2
    dashes = ' stroke-dasharray="4 3"' if box.kind == "join" else ""
    parts = [_rectangle(x, y, box.width, box.height, FILLS[box.kind], dashes)]
    for number, line in enumerate(box.lines):
        is_name = number == 0 and box.kind != "join"
        weight, size = ("bold", 14) if is_name else ("normal", 12.5)
        parts.append(_label(box.x, y + 24 + 17 * number, line, size=size, weight=weight))
    return "".join(parts)


def _rectangle(x: float, y: float, width: float, height: float, fill: str, more: str = "") -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="7" fill="{fill}" '
        f'stroke="#607d8b"{more}/>'
    )


def _label(x, y, text, size=13.0, weight="normal", anchor="middle", color="#212121") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{color}">{escape(str(text))}</text>'
    )


# === From a text to an answer ===

QUESTION = "Who was its first keeper?"
PASSAGE = "The village library opened in 1904. Its first keeper was Ines Holm."
STAGES = (
    ("input", "Text processor", "tokens with offsets,", "ids of words, characters"),
    ("embeddings", "Embeddings", "words, characters,", "highway, positions"),
    ("attention", "Attention", "passage and question,", "{layers} layers"),
    ("heads", "Selector", "start and end logit", "of each token"),
)


def architecture() -> str:
    """The way from a text to an answer, with the probabilities of the reader that comes with the package."""
    reader = fabir_tf.Reader.load("fabir-base")
    found = fabir_tf.look_inside(reader, QUESTION, PASSAGE)
    answer = reader.answer(QUESTION, PASSAGE)
    layers = 1 + reader.config.num_layers
    parts = []
    parts.append(_rectangle(MARGIN, 16, WIDTH - 2 * MARGIN, 74, FILLS["input"]))
    for y, name, text in ((44, "Question", QUESTION), (72, "Passage", PASSAGE)):
        color = ARROWS[name.lower()]
        parts.append(_label(MARGIN + 14, y, name, size=14, weight="bold", anchor="start", color=color))
        parts.append(_label(MARGIN + 100, y, text, size=15, anchor="start"))
    width, top = 174, 132
    step = (WIDTH - 2 * MARGIN - width) / (len(STAGES) - 1)
    parts.append(_line(MARGIN + width / 2, 90, MARGIN + width / 2, top - 2))
    for number, (kind, name, *lines) in enumerate(STAGES):
        x = MARGIN + number * step
        parts.append(_rectangle(x, top, width, 76, FILLS[kind]))
        parts.append(_label(x + width / 2, top + 24, name, size=15, weight="bold"))
        for row, line in enumerate(lines):
            parts.append(_label(x + width / 2, top + 45 + 18 * row, line.format(layers=layers)))
        if number:
            parts.append(_line(x - step + width, top + 38, x - 2, top + 38))
    parts.append(_line(WIDTH - MARGIN - width / 2, top + 76, WIDTH - MARGIN - width / 2, 258))
    return svg(432, [*parts, *_bars(found, answer)])


def _bars(inspection, answer) -> list[str]:
    """The start and end probability of each token of the passage, and the answer below."""
    words, base, tall = inspection.passage.words, 352, 62
    slots = [max(7.4 * len(word), 14) + 10 for word in words]
    scale = (WIDTH - 2 * MARGIN - 20) / sum(slots)
    parts = [_label(MARGIN, 278, "Probability that the answer", anchor="start")]
    for number, name in enumerate(("starts", "ends")):
        x = MARGIN + 210 + 116 * number
        parts.append(_bar(x, 268, 12, 12, _SIDES[number]))
        parts.append(_label(x + 18, 278, f"{name} here", anchor="start"))
    x, chosen = MARGIN + 10, []
    for index, (word, slot) in enumerate(zip(words, slots, strict=True)):
        slot *= scale
        middle = x + slot / 2
        is_chosen = answer.start <= inspection.passage.starts[index] < answer.end
        chosen += [middle] if is_chosen else []
        for number, values in enumerate((inspection.start, inspection.end)):
            height = max(float(values[index]) * tall, 1.0)
            left = middle + (-11 if number == 0 else 1)
            parts.append(_bar(left, base - height, 10, height, _SIDES[number]))
        parts.append(_label(middle, base + 20, word, size=13.5, weight="bold" if is_chosen else "normal"))
        x += slot
    middle = min(max(sum(chosen) / len(chosen), MARGIN + 190), WIDTH - MARGIN - 190)
    text = f"{answer.text}: start {answer.start}, end {answer.end}, probability {answer.probability:.2f}"
    parts.append(_rectangle(middle - 190, base + 38, 380, 32, FILLS["heads"]))
    parts.append(_label(middle, base + 59, text, size=14, weight="bold"))
    return parts


_SIDES = ("#00897b", "#fb8c00")


def _bar(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>'


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    return (
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{ARROWS["passage"]}" '
        f'stroke-width="2" marker-end="url(#passage)"/>'
    )


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in fabir_tf.list_models():
        built = fabir_tf.build_model(name, frozen_words=1)
        title = f"{name}: {count_trainable(built):,} trainable parameters"
        (FOLDER / f"{name}.svg").write_text(picture(*graph_of(built), title), encoding="utf-8")
    (FOLDER / "architecture.svg").write_text(architecture(), encoding="utf-8")


if __name__ == "__main__":
    main()
