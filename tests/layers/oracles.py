"""The readers' equations in NumPy float64, written from the papers. Tests compare the layers with them.

Nothing here is shared with the layers' code, and speed does not matter. `weights` is always a dictionary of arrays by
their names inside a layer (`"query/kernel"`); `part` selects the weights of a sublayer. A mask is boolean, true on real
tokens.
"""

import itertools
import math

import numpy as np


def part(weights, name):
    """The weights of one sublayer, by their names inside it."""
    return {key[len(name) + 1 :]: value for key, value in weights.items() if key.startswith(name + "/")}


def affine(x, weights):
    return x @ weights["kernel"] + weights["bias"]


def relu(x):
    return np.maximum(x, 0.0)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def log_softmax(logits):
    """Log softmax of one vector."""
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def masked_softmax(logits, mask, axis):
    """exp(l) / sum(exp(l)) over the real entries of an axis; 0 elsewhere and where an axis holds no real entry."""
    logits, mask = (np.moveaxis(array, axis, -1) for array in (logits, np.broadcast_to(mask, np.shape(logits))))
    weights = np.zeros(logits.shape)
    for index in np.ndindex(logits.shape[:-1]):
        real = mask[index]
        if real.any():
            weights[index][real] = np.exp(log_softmax(logits[index][real].astype("float64")))
    return np.moveaxis(weights, -1, axis)


def word_table(words, weights):
    """A zero vector for id 0, then the trainable rows, then the frozen rows."""
    rows = [*weights["trainable_table"], *weights.get("frozen_table", [])]
    dim = weights["trainable_table"].shape[-1]
    vectors = np.zeros((*words.shape, dim))
    for index in np.ndindex(words.shape):
        if words[index] > 0:
            vectors[index] = rows[words[index] - 1]
    return vectors


def word_embedding(words, weights):
    """One linear map on all vectors."""
    return affine(word_table(words, weights), part(weights, "projection"))


def character_embedding(characters, weights):
    """Thesis eq. 5.5 to 5.7: tanh of the maximum over the VALID positions of a word's own characters."""
    kernel, bias = weights["convolution/kernel"], weights["convolution/bias"]
    width, dim, filters = kernel.shape
    result = np.zeros((*characters.shape[:-1], filters))
    for index in np.ndindex(characters.shape[:-1]):
        vectors = [weights["table"][c - 1] for c in characters[index] if c > 0]
        vectors += [np.zeros(dim)] * (width - len(vectors))
        positions = [
            sum(vectors[start + offset] @ kernel[offset] for offset in range(width)) + bias
            for start in range(len(vectors) - width + 1)
        ]
        result[index] = np.tanh(np.max(positions, axis=0))
    return result


def highway(x, weights, depth):
    """y = x * g + (1 - g) * relu(W x + b), g = sigmoid(W' x + b')."""
    for number in range(depth):
        gate = sigmoid(affine(x, part(weights, f"gate_{number}")))
        x = x * gate + (1.0 - gate) * relu(affine(x, part(weights, f"transform_{number}")))
    return x


def position_encoding(length, dim, min_frequency, position_offset):
    """[sin(i f_1) ... sin(i f_{d/2}), cos(i f_1) ... cos(i f_{d/2})], f geometric from 1 down to min_frequency."""
    half = dim // 2
    encoding = np.zeros((length, dim))
    for i in range(length):
        for k in range(half):
            frequency = min_frequency ** (k / (half - 1))
            encoding[i, k] = np.sin((position_offset + i) * frequency)
            encoding[i, half + k] = np.cos((position_offset + i) * frequency)
    return encoding


def heads_of(x, num_heads):
    """The features cut into consecutive heads, `(batch, heads, length, features / heads)`."""
    return np.stack(np.split(x, num_heads, axis=-1), axis=1)


def convolve_logits(logits, kernel):
    """Conv(pad(logits), H), zero padding: H is `h x w x heads x heads`, or `h x w x heads x 1`, one kernel per head."""
    height, width, num_heads, outputs = kernel.shape
    if outputs == 1 and num_heads > 1:
        kernel = np.einsum("yxh,hg->yxhg", kernel[..., 0], np.eye(num_heads))
    rows, columns = logits.shape[2:]
    top, left = height // 2, width // 2
    padded = np.pad(logits, ((0, 0), (0, 0), (top, top), (left, left)))
    convolved = np.zeros_like(logits)
    for y, x in itertools.product(range(height), range(width)):
        neighbors = padded[:, :, y : y + rows, x : x + columns]
        convolved += np.einsum("bhij,hg->bgij", neighbors, kernel[y, x])
    return convolved


def distance_bias(table, queries, keys):
    """One number per head and clipped distance, `(heads, queries, keys)`; the middle of the table is distance 0."""
    longest = table.shape[1] // 2
    bias = np.zeros((table.shape[0], queries, keys))
    for i, j in np.ndindex(queries, keys):
        bias[:, i, j] = table[:, longest + min(max(j - i, -longest), longest)]
    return bias


def attention_weights(queries, keys, query_mask, key_mask, weights, num_heads, softmax_axis):
    """Eq. 12a to the softmax of 12d: weights `(batch, heads, queries, keys)`."""
    u = heads_of(affine(queries, part(weights, "query")), num_heads)
    k = heads_of(affine(keys, part(weights, "key")), num_heads)
    real = (query_mask[:, :, None] & key_mask[:, None, :])[:, None]
    logits = np.einsum("bhif,bhjf->bhij", u, k) * real
    if "kernel" in weights:
        logits = convolve_logits(logits, weights["kernel"])
    logits = logits / np.sqrt(u.shape[-1])
    if "distance_bias" in weights:
        logits = logits + distance_bias(weights["distance_bias"], *logits.shape[2:])
    return masked_softmax(logits, real, {"query": 2, "key": 3}[softmax_axis])


def weighted_sum(attention, values, value_weights, output_weights):
    """The rest of eq. 12d, and 12e."""
    v = heads_of(affine(values, value_weights), attention.shape[1])
    heads = np.einsum("bhij,bhjf->bhif", attention, v)
    return affine(np.concatenate(list(np.moveaxis(heads, 1, 0)), axis=-1), output_weights)


def convolutional_attention(queries, keys, values, query_mask, key_mask, weights, num_heads, softmax_axis="key"):
    """Eq. 12."""
    attention = attention_weights(queries, keys, query_mask, key_mask, weights, num_heads, softmax_axis)
    return weighted_sum(attention, values, part(weights, "value"), part(weights, "output"))


def decoupled_attention(embeddings, wide_encodings, encodings, mask, weights, num_heads):
    """Figure 2: queries and keys from x + e, the same weights on x and on the narrow encodings."""
    both = embeddings + wide_encodings
    attention = attention_weights(both, both, mask, mask, weights, num_heads, "key")
    return (
        weighted_sum(attention, embeddings, part(weights, "value"), part(weights, "output")),
        weighted_sum(attention, encodings, part(weights, "encoding_value"), part(weights, "encoding_output")),
    )


def feed_forward(x, weights):
    """Eq. 15."""
    return affine(relu(affine(x, part(weights, "hidden"))), part(weights, "output"))


def residual_norm(x, update, weights, epsilon=1e-8):
    """Layer normalization of x + update: gain, bias, biased variance."""
    total = x + update
    centered = total - total.mean(axis=-1, keepdims=True)
    variance = (centered**2).mean(axis=-1, keepdims=True)
    return weights["gain"] * centered / np.sqrt(variance + epsilon) + weights["bias"]


def after_self_attention(passage, question, passage_mask, question_mask, weights, num_heads, cross_axis):
    """Question: feedforward. Passage: attention over the processed question, feedforward. Each with add and norm."""
    update = feed_forward(question, part(weights, "question_feed_forward"))
    question = residual_norm(question, update, part(weights, "question_feed_forward_norm"))
    update = convolutional_attention(
        passage,
        question,
        question,
        passage_mask,
        question_mask,
        part(weights, "cross_attention"),
        num_heads,
        cross_axis,
    )
    passage = residual_norm(passage, update, part(weights, "passage_cross_norm"))
    update = feed_forward(passage, part(weights, "passage_feed_forward"))
    return residual_norm(passage, update, part(weights, "passage_feed_forward_norm")), question


def processing_layer(passage, question, passage_mask, question_mask, weights, num_heads, cross_axis="query"):
    """Figure 1, right: self-attention with the same weights on both texts, then `after_self_attention`."""
    shared = part(weights, "self_attention")
    update = convolutional_attention(question, question, question, question_mask, question_mask, shared, num_heads)
    question = residual_norm(question, update, part(weights, "question_self_norm"))
    update = convolutional_attention(passage, passage, passage, passage_mask, passage_mask, shared, num_heads)
    passage = residual_norm(passage, update, part(weights, "passage_self_norm"))
    return after_self_attention(passage, question, passage_mask, question_mask, weights, num_heads, cross_axis)


def decoupled_encoder(
    x, mask, weights, text, num_heads, output_dim, min_frequency=1e-4, position_offset=500, encoding_scale=1.0
):
    """Figure 2, with a norm on each result. `encoding_scale=0` drops all encodings."""
    wide, narrow = (
        encoding_scale * position_encoding(x.shape[1], dim, min_frequency, position_offset)[None]
        for dim in (x.shape[2], output_dim)
    )
    narrow = np.repeat(narrow, len(x), axis=0)
    update, encoding_update = decoupled_attention(x, wide, narrow, mask, part(weights, "attention"), num_heads)
    embeddings = residual_norm(x, update, part(weights, f"{text}_self_norm"))
    return embeddings, residual_norm(narrow, encoding_update, part(weights, f"{text}_encoding_norm"))


def reduction_layer(
    passage,
    question,
    passage_encodings,
    question_encodings,
    passage_mask,
    question_mask,
    weights,
    num_heads,
    cross_axis="query",
):
    """Figure 1, middle, after the decoupled attention."""
    passage, question = after_self_attention(
        passage, question, passage_mask, question_mask, weights, num_heads, cross_axis
    )
    reduction = part(weights, "reduction")
    return affine(passage, reduction) + passage_encodings, affine(question, reduction) + question_encodings


def convolve_tokens(x, weights):
    """A SAME convolution along the tokens, odd width, zeros outside."""
    kernel = weights["kernel"]
    width = kernel.shape[0]
    padded = np.pad(x, ((0, 0), (width // 2, width // 2), (0, 0)))
    return sum(padded[:, t : t + x.shape[1]] @ kernel[t] for t in range(width)) + weights["bias"]


def convolutional_selector(passage, passage_mask, weights):
    """Thesis eq. 5.20; both convolutions treat padding as the zeros outside the text."""
    real = passage_mask[..., None]
    hidden = relu(convolve_tokens(passage * real, part(weights, "hidden")))
    logits = convolve_tokens(hidden * real, part(weights, "logits"))
    return logits[..., 0], logits[..., 1]


def linear_selector(passage, weights):
    """Thesis eq. 5.19, one vector for the start and one for the end."""
    logits = passage @ weights["logits/kernel"]
    return logits[..., 0], logits[..., 1]


def spans_in_order(start_logits, end_logits, allowed, digits=9):
    """Every allowed pair (i, j) with its probability, the most probable first.

    Log probabilities that agree to `digits` digits are ties; a tie goes to the earlier i, then to the earlier j.
    """
    start, end = (log_softmax(np.asarray(logits, "float64")) for logits in (start_logits, end_logits))
    pairs = [
        (i, j, start[i] + end[j]) for i in range(len(start_logits)) for j in range(len(end_logits)) if allowed(i, j)
    ]
    pairs.sort(key=lambda pair: (-round(pair[2], digits), pair[0], pair[1]))
    return [(i, j, np.exp(score)) for i, j, score in pairs]


def best_spans(start_logits, end_logits, max_answer, digits=9):
    """Every span i <= j < i + max_answer of one passage with its probability; see `spans_in_order`."""
    return spans_in_order(start_logits, end_logits, lambda i, j: i <= j < i + max_answer, digits)


def fabir(inputs, weights, config):
    """The whole model, figure 1: logits of start and end; those of padding have no meaning.

    Args:
        inputs: the four arrays of ids.
        weights: name of a layer -> its weights.
        config: the model's configuration as a dictionary.
    """
    axis = {"column": "query", "row": "key"}[config["cross_attention"]]
    texts, masks = {}, {}
    for text in ("passage", "question"):
        words = word_embedding(inputs[f"{text}_words"], weights["word_embedding"])
        characters = character_embedding(inputs[f"{text}_characters"], weights["character_embedding"])
        both = np.concatenate([words, characters], axis=-1)
        texts[text] = highway(both, weights["highway"], config["highway_layers"])
        masks[text] = inputs[f"{text}_words"] != 0
    encoded = [
        decoupled_encoder(
            texts[text],
            masks[text],
            weights["decoupled_encoder"],
            text,
            config["num_heads"],
            config["d_model"],
            config["min_frequency"],
            config["position_offset"],
        )
        for text in ("passage", "question")
    ]
    (passage, passage_encodings), (question, question_encodings) = encoded
    state = reduction_layer(
        passage,
        question,
        passage_encodings,
        question_encodings,
        masks["passage"],
        masks["question"],
        weights["reduction_layer"],
        config["num_heads"],
        axis,
    )
    for number in range(1, config["num_layers"] + 1):
        layer_weights = weights[f"processing_layer_{number}"]
        # In every second layer the two texts change places.
        order = -1 if config["interaction"] == "switching" and number % 2 == 0 else 1
        ordered = [masks["passage"], masks["question"]][::order]
        state = processing_layer(*state[::order], *ordered, layer_weights, config["num_heads"], axis)[::order]
    if config["selector"] == "linear":
        return linear_selector(state[0], weights["selector"])
    return convolutional_selector(state[0], masks["passage"], weights["selector"])


def attention_flow(passage, question, passage_mask, question_mask, weights):
    """Seo et al., equations 1 to 3, pair by pair, on real tokens alone; 0 on padding."""
    kernel, bias = weights["kernel"][:, 0], weights.get("bias", [0.0])[0]
    flow = np.zeros((*passage.shape[:2], 4 * passage.shape[2]))
    for row in range(len(passage)):
        h, u = passage[row][passage_mask[row]], question[row][question_mask[row]]
        similarity = np.array([[np.concatenate([p, q, p * q]) @ kernel + bias for q in u] for p in h])
        to_passage = np.exp(log_softmax(similarity.max(axis=1)))
        attended = (to_passage[:, None] * h).sum(axis=0)
        for token, p in enumerate(h):
            asked = np.exp(log_softmax(similarity[token])) @ u
            flow[row, token] = np.concatenate([p, asked, p * asked, p * attended])
    return flow


def lstm(sequence, weights):
    """Hochreiter and Schmidhuber's cell with a forget gate, Keras' order of the gates: input, forget, cell, output."""
    state = cell = np.zeros(weights["recurrent_kernel"].shape[0])
    states = []
    for x in sequence:
        gates = x @ weights["kernel"] + state @ weights["recurrent_kernel"] + weights["bias"]
        entering, kept, candidate, shown = np.split(gates, 4)
        cell = sigmoid(kept) * cell + sigmoid(entering) * np.tanh(candidate)
        state = sigmoid(shown) * np.tanh(cell)
        states.append(state)
    return states


def gru(sequence, weights):
    """Cho et al.'s cell, the reset after the product as in cuDNN; Keras' order of the gates: update, reset, new."""
    state = np.zeros(weights["recurrent_kernel"].shape[0])
    states = []
    for x in sequence:
        update, reset, new = np.split(x @ weights["kernel"] + weights["bias"][0], 3)
        update_of_state, reset_of_state, new_of_state = np.split(
            state @ weights["recurrent_kernel"] + weights["bias"][1], 3
        )
        update, reset = sigmoid(update + update_of_state), sigmoid(reset + reset_of_state)
        state = update * state + (1.0 - update) * np.tanh(new + reset * new_of_state)
        states.append(state)
    return states


def recurrent_encoder(x, mask, weights, cell="lstm"):
    """The real tokens of each text from both ends; 0 on padding."""
    cells = {"lstm": lstm, "gru": gru}
    forward, backward = (
        {name.rsplit("/", 1)[1]: value for name, value in part(weights, direction).items()}
        for direction in ("forward", "backward")
    )
    units = forward["recurrent_kernel"].shape[0]
    encoded = np.zeros((*x.shape[:2], 2 * units))
    for row, tokens in enumerate(x):
        tokens = tokens[mask[row]]
        for token, state in enumerate(cells[cell](tokens, forward)):
            encoded[row, token, :units] = state
        for token, state in enumerate(cells[cell](tokens[::-1], backward)):
            encoded[row, len(tokens) - 1 - token, units:] = state
    return encoded


def character_cnn(characters, weights, filters, highway_layers, activation=relu):
    """Peters et al. 2018, section 3.4: every window counts, those over what fills a word up, too."""
    table = np.concatenate([np.zeros((1, weights["table"].shape[1])), weights["table"]])
    values = np.zeros((*characters.shape[:-1], sum(count for _, count in filters)))
    for index in np.ndindex(characters.shape[:-1]):
        vectors = table[characters[index]]
        found = []
        for number, (width, _) in enumerate(filters):
            convolution = part(weights, f"convolution_{number}")
            windows = [vectors[start : start + width] for start in range(len(vectors) - width + 1)]
            sums = [np.einsum("wd,wdn->n", window, convolution["kernel"]) for window in windows]
            found.append(activation(np.max(sums, axis=0) + convolution["bias"]))
        values[index] = np.concatenate(found)
    return affine(highway(values, part(weights, "highway"), highway_layers), part(weights, "projection"))


def layer_mix(x, weights):
    """Peters et al. 2018, eq. 1."""
    shares = np.exp(weights["scores"]) / np.exp(weights["scores"]).sum()
    return weights["gamma"] * sum(share * x[..., number, :] for number, share in enumerate(shares))


def projected_lstm(sequence, state, weights, cell_clip, projection_clip):
    """Outputs of one text's real tokens, and the state after the last; the gates are input, new, forget, output."""
    projection = weights["steps/cell/recurrent_kernel"].shape[0]
    shown, memory = state[:projection], state[projection:]
    outputs = []
    for x in sequence:
        gates = x @ weights["kernel"] + shown @ weights["steps/cell/recurrent_kernel"] + weights["bias"]
        entering, new, kept, leaving = np.split(gates, 4)
        memory = np.clip(sigmoid(kept + 1) * memory + sigmoid(entering) * np.tanh(new), -cell_clip, cell_clip)
        shown = (sigmoid(leaving) * np.tanh(memory)) @ weights["steps/cell/output_kernel"]
        shown = np.clip(shown, -projection_clip, projection_clip)
        outputs.append(shown)
    return np.reshape(outputs, (-1, projection)), np.concatenate([shown, memory])


def bidirectional_language_model(x, state, mask, weights, depth, skip_connections, **clips):
    """Each text alone, between its borders, from both ends."""
    length, projection = x.shape[1:]
    layers, states = np.zeros((len(x), length, 1 + depth, 2 * projection)), np.zeros_like(state)
    for row, words in enumerate(x):
        words = words[mask[row]]
        text = np.concatenate([weights["borders"][:1], words, weights["borders"][1:]])
        for half, (direction, step) in enumerate((("forward", 1), ("backward", -1))):
            features = slice(half * projection, (half + 1) * projection)
            read = text[::step]
            layers[row, : len(words), 0, features] = words
            for number in range(depth):
                own = part(weights, f"{direction}_{number}")
                output, states[row, number, half] = projected_lstm(read, state[row, number, half], own, **clips)
                read = output + read if skip_connections and number else output
                layers[row, : len(words), 1 + number, features] = read[::step][1:-1]
    return layers, states


def start_conditioned_selector(flow, modelled, passage_mask, weights, cell="lstm"):
    """The start from [G; M]; the end from a network over [G; M; a; M * a], a the mean of M under the start."""
    start = (np.concatenate([flow, modelled], axis=-1) @ weights["start/kernel"])[..., 0] + weights.get("start/bias", 0)
    starts = masked_softmax(start, passage_mask, 1)
    chosen = np.broadcast_to((starts[..., None] * modelled).sum(axis=1, keepdims=True), modelled.shape)
    both = np.concatenate([flow, modelled, chosen, modelled * chosen], axis=-1)
    ended = recurrent_encoder(both, passage_mask, part(weights, "end_encoder"), cell)
    end = (np.concatenate([flow, ended], axis=-1) @ weights["end/kernel"])[..., 0] + weights.get("end/bias", 0)
    return start, end


def convolve_image(image, kernel, bias):
    """A `k x k` convolution of one channel, SAME."""
    size = kernel.shape[0]
    padded = np.pad(image, size // 2)
    out = np.zeros_like(image)
    for row, column in np.ndindex(image.shape):
        out[row, column] = (padded[row : row + size, column : column + size] * kernel[:, :, 0, 0]).sum() + bias[0]
    return out


def convolutional_highway(x, mask, weights, depth):
    """The real tokens of each text, with zeros around them and one gate for all of them."""
    x = x.copy()
    for row in range(len(x)):
        text = x[row][mask[row]]
        for number in range(depth):
            transform, gate = (part(weights, f"{name}_{number}") for name in ("transform", "gate"))
            transformed = relu(convolve_image(text, transform["kernel"], transform["bias"]))
            opened = sigmoid(convolve_image(text, gate["kernel"], gate["bias"])).mean()
            text = transformed * opened + text * (1.0 - opened)
        x[row][mask[row]] = text
    return x


def summed_character_embedding(characters, weights):
    """A kernel slides over the sum of a word's character vectors; the results are summed."""
    kernel, bias = weights["convolution/kernel"], weights["convolution/bias"]
    size, dim = kernel.shape[0], weights["table"].shape[1]
    out = np.zeros((*characters.shape[:2], kernel.shape[2]))
    for index in np.ndindex(characters.shape[:2]):
        summed = sum((weights["table"][character - 1] for character in characters[index] if character), np.zeros(dim))
        for start in range(dim - size + 1):
            out[index] += summed[start : start + size] @ kernel[:, 0] + bias
    return out


def one_hot_character_embedding(characters, weights, known):
    """Unit vectors, the maximum over the positions inside the word, a network of two layers."""
    kernel, bias = weights["convolution/kernel"], weights["convolution/bias"]
    size = kernel.shape[0]
    out = np.zeros((*characters.shape[:2], weights["output/bias"].shape[0]))
    for index in np.ndindex(characters.shape[:2]):
        word = [character for character in characters[index] if character]
        vectors = np.zeros((max(len(word), size), known + 2))
        for position, character in enumerate(word):
            vectors[position, character - 2 if 2 <= character <= known + 1 else known + 1] = 1.0
        starts = range(len(vectors) - size + 1)
        windows = [(vectors[t : t + size, :, None] * kernel).sum(axis=(0, 1)) + bias for t in starts]
        hidden = relu(affine(np.max(windows, axis=0), part(weights, "hidden")))
        out[index] = affine(hidden, part(weights, "output"))
    return out


def null_head(passage, question, start_logits, end_logits, passage_mask, question_mask, weights):
    """Each question word beside what it aligns with near the likeliest answer, row by row and without padding."""
    out = []
    for row in range(len(passage)):
        tokens, asked = passage[row][passage_mask[row]], question[row][question_mask[row]]
        size, features = len(tokens), passage.shape[-1]
        real = [logits[row][passage_mask[row]] for logits in (start_logits, end_logits)]
        bounds = [np.exp(log_softmax(logits)) if size else logits for logits in real]
        places = np.arange(size)
        closeness = np.exp(-abs(weights["decay"]) * abs(places[:, None] - places))
        near = np.log(closeness @ np.mean(bounds, axis=0) + 1e-6)
        compared = []
        for word in asked:
            likeness = tokens @ (word * weights["match"]) / np.sqrt(features) + weights["near"] * near
            aligned = np.exp(log_softmax(likeness)) @ tokens if size else np.zeros(features)
            pair = np.concatenate([word * aligned, abs(word - aligned)])
            compared.append(relu(affine(pair, part(weights, "compare"))))
        ends = [bound @ tokens if size else np.zeros(features) for bound in bounds]
        span = relu(affine(np.concatenate(ends), part(weights, "of_span")))
        pooled = np.zeros((2, len(weights["compare/bias"])))
        if len(asked):
            shares = np.exp(log_softmax(asked @ weights["question_query"][:, 0]))
            pooled = np.stack([shares @ compared, np.max(compared, axis=0)])
        out.append(affine(np.concatenate([*pooled, span]), part(weights, "logits")))
    return np.stack(out)


# === BERT ===


def bert_embeddings(ids, segment_ids, weights, epsilon=1e-12):
    """The sum of a word's, a position's and a segment's row, normalized; without a segment table the first two."""
    total = np.zeros((*ids.shape, weights["gain"].shape[0]))
    for row, place in np.ndindex(ids.shape):
        total[row, place] = weights["word_table"][ids[row, place]] + weights["position_table"][place]
        if "segment_table" in weights:
            total[row, place] += weights["segment_table"][segment_ids[row, place]]
    return residual_norm(total, 0.0, weights, epsilon)


def gelu(x):
    """x times the probability that a standard normal number is below x."""
    return x * np.vectorize(lambda value: 0.5 * math.erfc(-value / math.sqrt(2.0)))(x)


def bert_layer(x, mask, weights, num_heads, activation=gelu, epsilon=1e-12):
    """Attention among the real tokens of each row, add and norm, feedforward, add and norm; padding stays 0."""
    out = np.zeros(x.shape)
    for row in range(len(x)):
        tokens = x[row][mask[row]]
        if len(tokens):
            out[row][mask[row]] = _bert_tokens(tokens, weights, num_heads, activation, epsilon)
    return out


def _bert_tokens(tokens, weights, num_heads, activation, epsilon):
    size = tokens.shape[-1] // num_heads
    query, key, value = (affine(tokens, part(weights, f"attention/{name}")) for name in ("query", "key", "value"))
    attended = np.zeros(tokens.shape)
    for head in range(num_heads):
        own = slice(head * size, (head + 1) * size)
        for i in range(len(tokens)):
            logits = np.array([query[i, own] @ key[j, own] / math.sqrt(size) for j in range(len(tokens))])
            attended[i, own] = np.exp(log_softmax(logits)) @ value[:, own]
    attended = affine(attended, part(weights, "attention/output"))
    tokens = residual_norm(tokens, attended, part(weights, "attention_norm"), epsilon)
    update = affine(activation(affine(tokens, part(weights, "hidden"))), part(weights, "output"))
    return residual_norm(tokens, update, part(weights, "output_norm"), epsilon)


def dense_head(x, weights):
    """Cheung, eq. 15."""
    return affine(x, part(weights, "logits"))


def two_dense_head(x, weights, activation=lambda values: values):
    """Two linear maps, with a function between them."""
    return dense_head(activation(affine(x, part(weights, "hidden"))), weights)


def highway_head(x, weights):
    """Cheung, eq. 18, whose gate is open for the transformed vector: t = 1 - g for the gate g that is trained."""
    transform = sigmoid(-affine(x, part(weights, "highway/gate_0")))
    return dense_head(
        relu(affine(x, part(weights, "highway/transform_0"))) * transform + x * (1.0 - transform), weights
    )


def residual_head(x, weights, blocks):
    """He et al. 2016, figure 2: weights, relu, weights, the sum with the input, relu."""
    for number in range(blocks):
        block = part(weights, f"block_{number}")
        x = relu(affine(relu(affine(x, part(block, "hidden"))), part(block, "output")) + x)
    return dense_head(x, weights)


def gated_head(x, weights):
    """Cheung, eq. 16."""
    return relu(affine(x, part(weights, "gate"))) * np.tanh(affine(x, part(weights, "value")))
