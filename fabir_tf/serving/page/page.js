"use strict";

// Offsets of the server count code points; strings of JavaScript count UTF-16 units.
// No text is ever read as HTML: everything is shown through textContent.

const LONGEST_LINK = 8192;
const RUNNERS_UP = 5;

const EXAMPLES = [
  {
    passage: "The lighthouse on Skerry Point was lit for the first time in the autumn of 1874. It was designed by Margaret Oland, an engineer from the harbour town of Fenwick, after eleven ships had been lost on the reef in a single winter. Its lamp burned whale oil until 1902, when it was replaced by an electric light that can be seen from twenty-three miles away.",
    question: "Who designed the lighthouse?",
  },
  {
    passage: "You can return anything you bought from us within 60 days. Unworn shoes are refunded in full; for worn shoes we charge 12 euros. Put the parcel into any blue post box, or hand it in at one of our shops. The money is on your account five working days after the parcel has reached our warehouse in Lund.",
    question: "How long does it take until I get my money back?",
  },
  {
    passage: "The museum is open from Tuesday to Sunday, from ten in the morning until six in the evening. Children under twelve pay nothing. Dogs have to wait outside, but there is water for them at the gate, and the café lends out blankets when it is cold.",
    question: "Who founded the museum?",
  },
];

const get = (id) => document.getElementById(id);
const shown = { passage: "", spans: [], chosen: 0, attention: null, word: null };
let place = "text";
let running = null;

// === Asking ===

async function post(path, body, signal) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  let content;
  try {
    content = await response.json();
  } catch {
    throw new Error(`The server answered with status ${response.status}.`);
  }
  if (!response.ok) throw new Error(content.error || `The server answered with status ${response.status}.`);
  return content;
}

function options() {
  const body = { n_best: RUNNERS_UP };
  if (!get("model-part").hidden) body.model = get("model").value;
  if (!get("always-part").hidden && get("always").checked) body.no_answer_threshold = null;
  return body;
}

async function ask(event) {
  if (event) event.preventDefault();
  const question = get("question").value;
  const passage = get("passage").value;
  if (place === "text" && !passage.trim()) return refuse("Paste a text first.", "passage");
  if (!question.trim()) return refuse("Type a question first.", "question");
  if (running) running.abort();
  const own = (running = new AbortController());
  tell("Reading ...");
  get("error").textContent = "";
  get("result").hidden = true;
  get("ask").disabled = true;
  try {
    if (place === "text") {
      const answer = await post("v1/answer", { question, passage, ...options() }, own.signal);
      showAnswer(question, passage, answer);
    } else {
      const answer = await post("v1/search", { question, ...options() }, own.signal);
      showFound(answer);
    }
    tell("");
    get("answer").focus();
  } catch (error) {
    if (own.signal.aborted) return;
    tell("");
    const isUnreachable = error instanceof TypeError;
    get("error").textContent = isUnreachable ? "The server does not answer. Is fabir-serve still running?" : error.message;
  } finally {
    if (running === own) {
      running = null;
      get("ask").disabled = false;
    }
  }
}

function refuse(message, field) {
  get("error").textContent = message;
  get(field).focus();
}

function tell(message) {
  get("status").textContent = message;
}

// === Showing ===

const percent = (value) => (value > 0 && value < 0.005 ? "under 1 %" : `${Math.round(100 * value)} %`);

function headline(answer) {
  get("result").hidden = false;
  if (answer.is_answer) {
    get("answer").textContent = answer.answer;
    get("certainty").textContent = `${percent(answer.probability)} sure that this is right.`;
  } else if (answer.n_best.length) {
    get("answer").textContent = place === "text" ? "The text does not say." : "The documents do not say.";
    get("certainty").textContent = `${percent(answer.no_answer_probability)} sure that there is no answer.`;
  } else {
    get("answer").textContent = place === "text" ? "There is nothing to read here." : "The documents do not say.";
    get("certainty").textContent = place === "text" ? "Text and question need words that the reader can tell apart." : "";
  }
}

function showAnswer(question, passage, answer) {
  headline(answer);
  Object.assign(shown, { passage, spans: answer.n_best, chosen: answer.is_answer ? 0 : -1, attention: null, word: null });
  get("source").replaceChildren();
  get("shown").hidden = !answer.n_best.length;
  get("link").disabled = false;
  get("link-told").textContent = "";
  listOthers(answer.n_best.map((span) => ({ label: span.answer, note: percent(span.probability) })), answer.is_answer);
  draw();
  offerWords(question, passage);
}

function showFound(answer) {
  headline(answer);
  get("words-part").hidden = true;
  get("link").disabled = true;
  get("link-told").textContent = "";
  const spans = answer.n_best;
  const show = (number) => {
    const span = spans[number];
    const path = [span.source, span.heading, span.page ? `page ${span.page}` : ""].filter((part) => part !== "" && part !== null);
    get("source").textContent = path.join(" · ");
    const begin = span.start_in_sentence;
    const end = begin + [...span.answer].length;
    const units = unitsOf(span.sentence, [begin, end]);
    get("shown").hidden = false;
    get("shown").replaceChildren(...marked(span.sentence, units.get(begin), units.get(end)));
  };
  get("source").replaceChildren();
  get("shown").hidden = true;
  shown.chosen = answer.is_answer ? 0 : -1;
  if (answer.is_answer) show(0);
  const labels = spans.map((span) => ({ label: `${span.answer} (${span.source})`, note: percent(span.probability) }));
  listOthers(labels, answer.is_answer, show);
}

function listOthers(labels, isAnswer, show) {
  const list = get("others");
  list.replaceChildren();
  labels.forEach(({ label, note }, number) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.setAttribute("aria-pressed", String(number === shown.chosen));
    button.addEventListener("click", () => {
      shown.chosen = number;
      for (const other of list.querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === button));
      if (show) show(number);
      else draw();
    });
    const share = document.createElement("span");
    share.className = "percent";
    share.textContent = note;
    const item = document.createElement("li");
    item.append(button, share);
    list.append(item);
  });
  get("others-part").hidden = labels.length < (isAnswer ? 2 : 1);
  get("others-part").querySelector("h3").textContent = isAnswer ? "Runners-up" : "The best guesses";
}

// A text with a stretch of it marked; offsets in UTF-16 units.
function marked(text, start, end) {
  const mark = document.createElement("mark");
  mark.textContent = text.slice(start, end);
  return [text.slice(0, start), mark, text.slice(end)];
}

// Where each of the sorted code point offsets lies in UTF-16 units.
function unitsOf(text, offsets) {
  const units = new Map();
  let point = 0;
  let unit = 0;
  for (const offset of offsets) {
    while (point < offset && unit < text.length) {
      unit += text.codePointAt(unit) > 0xffff ? 2 : 1;
      point += 1;
    }
    units.set(offset, unit);
  }
  return units;
}

function draw() {
  const box = get("shown");
  const span = shown.spans[shown.chosen];
  const tokens = shown.attention && shown.word !== null ? shown.attention.passage : [];
  const offsets = [...tokens.flat(), ...(span ? [span.start, span.end] : [])];
  const units = unitsOf(shown.passage, [...new Set(offsets)].sort((a, b) => a - b));
  if (!tokens.length) {
    box.replaceChildren(...(span ? marked(shown.passage, units.get(span.start), units.get(span.end)) : [shown.passage]));
  } else {
    box.replaceChildren(...shaded(tokens, shown.attention.weights[shown.word], units, span));
  }
  const mark = box.querySelector("mark");
  if (mark) box.scrollTop = mark.offsetTop - box.offsetTop - box.clientHeight / 3;
}

function shaded(tokens, weights, units, span) {
  const most = Math.max(...weights, 1e-9);
  const parts = [];
  let done = 0;
  tokens.forEach(([start, end], number) => {
    const isMarked = span && start >= span.start && end <= span.end;
    const token = document.createElement(isMarked ? "mark" : "span");
    if (!isMarked) token.className = "token";
    token.style.setProperty("--weight", (0.75 * weights[number] / most).toFixed(3));
    token.textContent = shown.passage.slice(units.get(start), units.get(end));
    parts.push(shown.passage.slice(done, units.get(start)), token);
    done = units.get(end);
  });
  return [...parts, shown.passage.slice(done)];
}

// === Attention ===

function showsAttention() {
  const name = get("model").value;
  return (information.models.find((model) => model.name === name) || {}).shows_attention;
}

function offerWords(question, passage) {
  const box = get("words");
  box.replaceChildren();
  get("words-part").hidden = !showsAttention() || get("shown").hidden;
  if (get("words-part").hidden) return;
  const start = document.createElement("button");
  start.type = "button";
  start.textContent = "Show the words";
  const spans = shown.spans;
  start.addEventListener("click", async () => {
    start.disabled = true;
    try {
      const body = { question, passage };
      if (!get("model-part").hidden) body.model = get("model").value;
      const attention = await post("v1/attention", body);
      // Another answer may be shown by now.
      if (shown.spans !== spans) return;
      shown.attention = attention;
      listWords(question);
    } catch (error) {
      start.replaceWith(error instanceof TypeError ? "The server does not answer." : error.message);
    }
  });
  box.append(start);
}

function listWords(question) {
  const box = get("words");
  const offsets = shown.attention.question.flat();
  const units = unitsOf(question, [...new Set(offsets)].sort((a, b) => a - b));
  const buttons = shown.attention.question.map(([start, end], number) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = question.slice(units.get(start), units.get(end));
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => {
      shown.word = shown.word === number ? null : number;
      buttons.forEach((other, index) => other.setAttribute("aria-pressed", String(index === shown.word)));
      draw();
    });
    return button;
  });
  box.replaceChildren(...buttons);
  if (buttons.length) buttons[0].focus();
}

// === Links ===

function encode(value) {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function decode(text) {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes));
}

async function copyLink() {
  const fragment = encode({ q: get("question").value, p: shown.passage });
  const link = `${location.origin}${location.pathname}#${fragment}`;
  if (link.length > LONGEST_LINK) {
    get("link-told").textContent = "The text is too long for a link.";
    return;
  }
  history.replaceState(null, "", `#${fragment}`);
  try {
    await navigator.clipboard.writeText(link);
    get("link-told").textContent = "Copied. The texts are in the link itself.";
  } catch {
    get("link-told").textContent = "The link is in the address bar.";
  }
}

function openLink() {
  if (location.hash.length < 2) return;
  try {
    const { q, p } = decode(location.hash.slice(1));
    if (typeof q !== "string" || typeof p !== "string") return;
    choosePlace("text");
    get("question").value = q;
    get("passage").value = p;
  } catch {
    get("error").textContent = "This link is damaged.";
    return;
  }
  ask();
}

// === Start ===

let information = { models: [], search: false };

function choosePlace(name) {
  place = name;
  get("place-text").setAttribute("aria-pressed", String(name === "text"));
  get("place-documents").setAttribute("aria-pressed", String(name === "documents"));
  get("text-part").hidden = name !== "text";
  get("result").hidden = true;
  get("error").textContent = "";
}

function chooseModel() {
  const model = information.models.find((one) => one.name === get("model").value) || {};
  // A SavedModel keeps its threshold, and a model without one answers always.
  get("always-part").hidden = model.no_answer_threshold === null || model.n_best !== null;
  get("always").checked = false;
}

async function start() {
  get("form").addEventListener("submit", ask);
  get("link").addEventListener("click", copyLink);
  get("place-text").addEventListener("click", () => choosePlace("text"));
  get("place-documents").addEventListener("click", () => choosePlace("documents"));
  get("model").addEventListener("change", chooseModel);
  window.addEventListener("hashchange", openLink);
  get("passage").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask(event);
  });
  for (const button of document.querySelectorAll("[data-example]")) {
    button.addEventListener("click", () => {
      const example = EXAMPLES[Number(button.dataset.example)];
      get("passage").value = example.passage;
      get("question").value = example.question;
      ask();
    });
  }
  try {
    information = await (await fetch("v1/info")).json();
  } catch {
    get("error").textContent = "The server does not answer. Is fabir-serve still running?";
  }
  for (const { name } of information.models) get("model").append(new Option(name, name));
  get("model-part").hidden = information.models.length < 2;
  get("places").hidden = !information.search;
  chooseModel();
  openLink();
}

start();
