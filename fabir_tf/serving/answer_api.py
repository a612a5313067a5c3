"""The server's own API: questions and passages in, answers as `Answer.to_dict` writes them out."""

from typing import Any

from fabir_tf.reading.answers import MOST_ANSWERS, OWN_THRESHOLD
from fabir_tf.serving.errors import RequestError, invalid
from fabir_tf.serving.json_tensors import parse_json
from fabir_tf.serving.service import Asked, Service


async def answer(service: Service, body: bytes, deadline: float) -> dict[str, Any] | list[dict[str, Any]]:
    """Answers a question, or a list of them in order, in which a bad one is an error of its own.

    Raises:
        RequestError: the request is none, or it is one question that cannot be answered.
    """
    document = parse_json(body)
    if not isinstance(document, list):
        (found,) = await service.answer([_asked(document)], deadline)
        if isinstance(found, RequestError):
            raise found
        return found.to_dict()
    rows: list[Asked | RequestError] = [_asked_or_error(row) for row in document]
    answers = iter(await service.answer([row for row in rows if isinstance(row, Asked)], deadline))
    results = [next(answers) if isinstance(row, Asked) else row for row in rows]
    return [{"error": one.message} if isinstance(one, RequestError) else one.to_dict() for one in results]


async def search(service: Service, body: bytes, deadline: float) -> dict[str, Any]:
    """Answers a question from the documents of the index.

    Raises:
        RequestError: the request does not fit, or there is no index.
    """
    fields = _fields(parse_json(body), {"question"}, {"model", "n_best", "no_answer_threshold"})
    question = _text(fields, "question")
    found = await service.search(question, _model(fields), _n_best(fields), _threshold(fields), deadline)
    return found.to_dict()


async def attention(service: Service, body: bytes, deadline: float) -> dict[str, Any]:
    """Tells which words of a passage each word of a question attends to.

    Raises:
        RequestError: the request does not fit, or the model does not show it.
    """
    fields = _fields(parse_json(body), {"question", "passage"}, {"model"})
    texts = _text(fields, "question"), _text(fields, "passage")
    found = await service.attention(*texts, _model(fields), deadline)
    weights = [[round(weight, 4) for weight in row] for row in found.weights]
    return {"question": found.question, "passage": found.passage, "weights": weights}


def information(service: Service) -> dict[str, Any]:
    """What is served, for the page and for those who do not know the models' names."""
    models = []
    for name in service.models.names:
        versions = service.models.available(name)
        description = versions[0].description if versions else None
        models.append(
            {
                "name": name,
                "versions": [one.number for one in versions],
                "no_answer_threshold": description.threshold if description else None,
                "n_best": description.n_best if description else None,
                "shows_attention": bool(description and description.shows_attention),
            }
        )
    limits = service.limits
    return {
        "models": models,
        "search": service.index is not None,
        "question_characters": limits.question_characters,
        "passage_characters": limits.passage_characters,
    }


def _asked_or_error(row: Any) -> Asked | RequestError:
    try:
        return _asked(row)
    except RequestError as error:
        return error


def _asked(row: Any) -> Asked:
    fields = _fields(row, {"question", "passage"}, {"model", "n_best", "no_answer_threshold"})
    texts = _text(fields, "question"), _text(fields, "passage")
    return Asked(*texts, _model(fields), _n_best(fields), _threshold(fields))


def _fields(row: Any, needed: set[str], others: set[str]) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise invalid(f"found {_kind(row)}, expected a JSON object with {_listed(needed)}")
    for name in sorted(needed):
        if name not in row:
            raise invalid(f"{name} is missing, expected a text")
    unknown = sorted(row.keys() - needed - others)
    if unknown:
        raise invalid(f"found the unknown field {unknown[0][:100]!r}, expected {_listed(needed | others)}")
    return row


def _text(fields: dict[str, Any], name: str) -> str:
    if not isinstance(fields[name], str):
        raise invalid(f"{name}: found {_kind(fields[name])}, expected a text")
    return fields[name]


def _model(fields: dict[str, Any]) -> str | None:
    model = fields.get("model")
    if model is not None and not isinstance(model, str):
        raise invalid(f"model: found {_kind(model)}, expected the name of a model")
    return model


def _n_best(fields: dict[str, Any]) -> int:
    number = fields.get("n_best", 1)
    if type(number) is not int or not 1 <= number <= MOST_ANSWERS:
        found = number if type(number) is int else _kind(number)
        raise invalid(f"n_best: found {found}, expected a whole number from 1 to {MOST_ANSWERS}")
    return number


def _threshold(fields: dict[str, Any]) -> float | str | None:
    if "no_answer_threshold" not in fields:
        return OWN_THRESHOLD
    value = fields["no_answer_threshold"]
    if value is None or value == "none":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        found = value if isinstance(value, int | float) and not isinstance(value, bool) else _kind(value)
        raise invalid(f"no_answer_threshold: found {found}, expected a number from 0 to 1, or null to always answer")
    return float(value)


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    kinds: dict[type, str] = {str: "a text", list: "a list", dict: "an object"}
    return kinds.get(type(value), "a number")


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
