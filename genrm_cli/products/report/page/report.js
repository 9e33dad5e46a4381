// The pages of a report: lists of groups, one group, a search. All text enters by textContent: it is foreign.
"use strict";

const $ = (id) => document.getElementById(id);
const SHOWN = 100;
const LONG_CHARS = 20000;
const MAX_MATRIX = 64;
const blocks = new Map();
let index;
let current = [];
let shownAt = -1;
let searching = 0;

// ---- data

function bytesOf(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

async function unpack(text) {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

async function readGroup(number) {
  const [block, place] = index.groups[number].at;
  if (!blocks.has(block)) {
    if (blocks.size > 8) blocks.delete(blocks.keys().next().value);
    blocks.set(block, JSON.parse(await unpack($("block-" + block).textContent)));
  }
  return blocks.get(block)[place];
}

// ---- elements

function el(name, properties, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value);
  }
  node.append(...present(children));
  return node;
}

const present = (children) => children.flat(2).filter((child) => child !== null && child !== undefined && child !== "");

const number = (value, digits = 3) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const link = (text, hash) => el("a", { href: "#" + new URLSearchParams(hash) }, text);
const groupHash = (at) => ({ group: index.groups[at].key, run: index.groups[at].run });

function inline(text) {  // `code` and **bold**
  return text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/).map((part) => {
    if (part.length > 2 && part.startsWith("`")) return el("code", {}, part.slice(1, -1));
    if (part.length > 4 && part.startsWith("**")) return el("strong", {}, part.slice(2, -2));
    return part;
  });
}

function markdown(text) {
  const parts = text.split(/^(```[^\n]*\n[\s\S]*?(?:^```[ \t]*$|(?![\s\S])))/m);
  return parts.filter((part) => part).map((part) => {
    if (part.startsWith("```")) {
      return el("pre", {}, part.replace(/^```[^\n]*\n/, "").replace(/\n?```[ \t]*$/, ""));
    }
    const lines = part.split("\n").map((line, at, all) => {
      const heading = /^#{1,6} +(.*)$/.exec(line);
      const end = at < all.length - 1 ? "\n" : "";
      return heading ? el("h4", {}, inline(heading[1])) : [...inline(line), end];
    });
    return el("div", { class: "text", dir: "auto" }, lines.flat());
  });
}

function shownText(text, raw) {
  const box = el("div", { class: "long" });
  const fill = (shown) => box.replaceChildren(...(raw ? [el("pre", { dir: "auto" }, shown)] : markdown(shown)));
  fill(text.slice(0, LONG_CHARS));
  if (text.length <= LONG_CHARS) return box;
  const more = el("button", { class: "plain", onclick: () => { fill(text); more.remove(); } },
    `Show all ${text.length.toLocaleString("en")} characters`);
  return el("div", {}, box, more);
}

// ---- list

const HEADS = { key: "group", prompt: "prompt", size: "rollouts", mean: "mean", spread: "spread", reliability: "reliability",
  length: "length effect", failed: "failed" };
const SORTS = {  // a column, with a minus from its largest value
  "": "as in the file", reliability: "least reliable first", spread: "least spread first", effect: "strongest length effect first",
  "-failed": "most failures first", mean: "lowest mean reward first", "-mean": "highest mean reward first",
};

function sorted(numbers, name) {
  const column = (name || "").replace("-", ""), sign = (name || "").startsWith("-") ? -1 : 1;
  if (!Object.hasOwn(HEADS, column) && column !== "effect") return [...numbers].sort((a, b) => a - b);
  const value = (group) => (column === "effect" ? (group.length === null ? null : -Math.abs(group.length)) : group[column]);
  const values = new Map(numbers.map((at) => [at, value(index.groups[at])]));
  return [...numbers].sort((a, b) => {
    const one = values.get(a), other = values.get(b);
    if (one === null || other === null) return (one === null) - (other === null) || a - b;
    return sign * (one < other ? -1 : one > other ? 1 : 0) || a - b;
  });
}

function headOf(name, sort) {  // a second click turns the order round
  const next = sort === name ? "-" + name : name;
  const order = sort === name ? "ascending" : sort === "-" + name ? "descending" : null;
  return el("th", { class: name === "key" || name === "prompt" ? null : "number", "aria-sort": order },
    el("button", { class: "head", onclick: () => listHash({ sort: next }) }, HEADS[name], order ? (order === "ascending" ? " ▲" : " ▼") : ""));
}

function within(numbers, min, max) {  // groups with a reward in a range, an open one where a bound is missing
  if (!min && !max) return numbers;
  const low = min ? Number(min) : -Infinity, high = max ? Number(max) : Infinity;
  return numbers.filter((at) => index.groups[at].rewards.some((reward) => reward >= low && reward <= high));
}

function row(at) {
  const group = index.groups[at];
  const values = [String(group.size), ...["mean", "spread", "reliability", "length"].map((name) => number(group[name])),
    String(group.failed)];
  return el("tr", {}, el("td", {}, link(group.key, groupHash(at))), el("td", { class: "prompt", dir: "auto" }, group.prompt),
    values.map((value, place) => el("td", { class: "number", "data-name": Object.values(HEADS)[place + 2] }, value)));
}

function showList(parameters) {
  const tag = index.tags[parameters.get("list")];
  const query = parameters.get("q") || "";
  const min = parameters.get("min"), max = parameters.get("max");
  const all = within(tag ? tag.groups : index.groups.map((_, at) => at), min, max);
  const body = el("tbody"), note = el("p", { class: "dim" });
  const more = el("button", { class: "plain", onclick: () => extend() }, "Show more");
  let shown = 0;
  current = [];
  const extend = () => {
    body.append(...current.slice(shown, shown + SHOWN).map(row));
    shown = Math.min(shown + SHOWN, current.length);
    more.hidden = shown >= current.length;
  };
  $("list").replaceChildren(
    el("h2", {}, tag ? `Groups with ${tag.label}` : "Groups"), note,
    el("div", { class: "scroll" }, el("table", { class: "groups" },
      el("thead", {}, el("tr", {}, Object.keys(HEADS).map((name) => headOf(name, parameters.get("sort"))))), body)), more);
  const ordered = sorted(all, parameters.get("sort"));
  if (query) return search(ordered, query, note, extend);
  current = ordered;
  const range = min || max ? ` with a reward from ${min || "the lowest"} to ${max || "the highest"}` : "";
  note.textContent = `${current.length.toLocaleString("en")} groups${range}`;
  extend();
}

async function search(numbers, query, note, extend) {
  const mine = ++searching, wanted = query.toLowerCase();
  let done = 0;
  for (const at of [...numbers].sort((a, b) => a - b)) {  // in the order of the blocks
    const group = await readGroup(at);
    if (mine !== searching) return;
    done += 1;
    if (textsOf(group).some((text) => text.toLowerCase().includes(wanted))) {
      current.push(at);
      if (current.length <= SHOWN) extend();
    }
    if (done % 32 === 0 || done === numbers.length) {
      note.textContent = `${current.length.toLocaleString("en")} of ${done.toLocaleString("en")} groups searched` +
        ` (${numbers.length.toLocaleString("en")} in all) hold “${query}”`;
    }
  }
}

function* texts(group) {
  yield group.key;
  for (const [, text] of group.prompt) yield text;
  for (const rollout of group.rollouts) for (const [, text] of rollout.items) yield text;
}
const textsOf = (group) => [...texts(group)];

// ---- group

function evidenceAt(notes, turn) {
  const found = [];
  for (const [component, given] of Object.entries(notes || {})) {
    for (const note of Array.isArray(given) ? given : [given]) {
      const at = note && typeof note === "object" ? note.turn : undefined;
      if (at !== turn) continue;
      const words = note && typeof note === "object"
        ? [note.what, note.phrase && `“${note.phrase}”`].filter(Boolean).join(": ") || JSON.stringify(note) : String(note);
      const effect = ["raises", "lowers", "violation"].includes(note && note.effect) ? note.effect : "";
      found.push(el("span", { class: "evidence " + effect }, `${component} · ${words}`));
    }
  }
  return found;
}

function conversation(turns, notes, from, raw) {
  return turns.map(([role, text], at) => el("div", { class: "turn " + (role === "assistant" ? role : "") },
    el("small", {}, role), shownText(text, raw), evidenceAt(notes, from + at)));
}

function itemsOf(rollout, from, raw) {
  let turn = from;
  return rollout.items.map(([kind, text, name]) => {
    if (kind === "reasoning") return el("details", {}, el("summary", {}, "reasoning"), shownText(text, raw));
    if (kind === "turn") return conversation([[name, text]], rollout.notes, turn++, raw);
    if (kind === "call") return el("pre", {}, text);
    if (kind === "result") return el("details", {}, el("summary", {}, `tool result ${name}`), shownText(text, true));
    if (kind === "media") return el("p", { class: "dim" }, `[${text}: not shown]`);
    return [kind === "refusal" ? el("small", {}, "refusal") : null, shownText(text, raw)];
  }).flat();
}

function rolloutCard(rollout, prompt, raw) {
  const facts = [["rank", rollout.rank, 0], ["advantage", rollout.advantage, 3], ["standard error", rollout.error, 3]]
    .filter(([, value]) => value !== null).map(([name, value, digits]) => `${name} ${number(value, digits)}`);
  facts.push(`${rollout.chars.toLocaleString("en")} characters`);
  if (rollout.cut) facts.push("truncated");
  if (rollout.neutralised) facts.push(`broken up for the judge in ${rollout.neutralised} places`);
  const parts = Object.entries(rollout.components || {}).map(([name, value]) => `${name} ${number(value)}`);
  const own = rollout.prompt ? rollout.prompt.slice(prompt.length ? prompt.findIndex((turn, at) =>
    JSON.stringify(turn) !== JSON.stringify(rollout.prompt[at])) : 0) : [];
  const from = (rollout.prompt || prompt).length;
  return el("article", { id: "rollout-" + rollout.index },
    el("header", {}, el("b", {}, `${rollout.index} · `, rollout.reward === null ? "no reward" : number(rollout.reward)),
      el("div", { class: "dim" }, rollout.why || "", rollout.why ? "; " : "", facts.join(", ")),
      el("div", { class: "dim" }, parts.join(", "))),
    evidenceAt(rollout.notes, undefined), conversation(own, rollout.notes, from - own.length, raw),
    itemsOf(rollout, from, raw), rollout.items.length ? null : el("p", { class: "dim" }, "no response"));
}

function wordsOf(comparison) {
  const [first, ...others] = comparison.shown;
  const verdict = comparison.verdict;
  const said = verdict ? `scores ${verdict[0]} and ${verdict[1]}, ranking ${verdict[2]}`
    : comparison.failure ? `no verdict: ${comparison.failure[0]}` : `grades ${(comparison.grades || []).join(", ")}`;
  const who = others.length ? `${first} shown first, ${others.join(", ")} after it` : `${first} alone`;
  return el("article", {},
    el("header", {}, el("b", {}, who), el("div", {}, said),
      el("div", { class: "dim" }, [comparison.judge, comparison.component, comparison.repeat ? `repeat ${comparison.repeat}` : ""]
        .filter(Boolean).join(", "))),
    comparison.failure ? el("p", { class: "failed" }, comparison.failure[1]) : null,
    comparison.reply ? shownText(comparison.reply, true) : el("p", { class: "dim" }, whyNoWords(comparison)));
}

function whyNoWords(comparison) {
  if ((comparison.judge || "").startsWith("lexical")) return "The built-in baseline counts words and says none.";
  if (comparison.failure) return "No reply was kept.";
  return "Neither the comparisons nor the journal hold the judge’s words: score again with --keep-replies; verdicts in the journal are reused.";
}

function shade(verdict) {
  const lead = verdict[0] - verdict[1] || 3.5 - verdict[2];
  return lead === 0 ? "" : (lead > 0 ? "first" : "second") + Math.min(3, Math.ceil(Math.abs(lead) / 1.34));
}

const saidOf = (asked) => asked.map((each) => (each.verdict ? `${each.verdict[0]}–${each.verdict[1]}` : "✗")).join(" ");

function shadeOf(asked) {
  const one = asked.find((each) => each.verdict);
  return one ? shade(one.verdict) : "failed";
}

const legend = (isMatrix) => el("p", { class: "dim legend" },
  isMatrix ? "Row: shown first; column: shown second; best reward first; ·: not asked. "
    : "First and second response of each pair, and their scores. ",
  "The judge prefers ", el("span", { class: "first2" }, "the first"), " or ", el("span", { class: "second2" }, "the second"),
  ": the darker, the more; with equal scores, its ranking decides. ", el("span", { class: "failed" }, "✗"),
  " no verdict. Select a cell for the judge’s words and the differences between the two responses.");

function cellsOf(comparisons) {  // pairs that were asked for the reward's main part, by the order shown
  const cells = new Map();
  for (const each of comparisons) {
    if (each.component || each.shown.length !== 2 || (each.failure && each.failure[0] === "not_asked")) continue;
    const place = each.shown.join();
    cells.set(place, [...(cells.get(place) || []), each]);
  }
  return cells;
}

function wordsOfPair(i, j, cells) {
  const asked = [[i, j], [j, i]].map((order) => cells.get(order.join())).filter(Boolean);
  if (!asked.length) return el("p", { class: "dim" }, "Not asked about this pair.");
  return el("div", { class: "words" }, asked.map((each) => each.map(wordsOf)));
}

function matrix(group, order, words) {
  const cells = cellsOf(group.comparisons);
  if (!cells.size) return el("p", { class: "dim" }, "No pair was compared.");
  const open = (i, j) => {
    words.replaceChildren(...present([el("h3", {}, `The judge on ${i} and ${j}`), wordsOfPair(i, j, cells), differences(group, i, j)]));
    for (const button of document.querySelectorAll("[data-pair]")) {
      button.setAttribute("aria-pressed", String(button.dataset.pair === `${i},${j}`));
    }
  };
  const cell = (i, j) => {
    const asked = cells.get(`${i},${j}`);
    if (i === j) return el("td", { class: "self" });
    if (!asked) {
      return el("td", { class: "dim" }, el("button", { "aria-label": `${i} and ${j}: not asked`, onclick: () => open(i, j) }, "·"));
    }
    const text = saidOf(asked);
    const button = el("button", { "data-pair": `${i},${j}`, "aria-label": `${i} first, ${j} second: ${text}`, onclick: () => open(i, j) }, text);
    return el("td", { class: shadeOf(asked) }, button);
  };
  if (order.length > MAX_MATRIX) {
    const pairs = [...cells.keys()].map((place) => place.split(","));
    return el("p", {}, pairs.map(([i, j]) => [el("button", { class: "plain " + shadeOf(cells.get(`${i},${j}`)), "data-pair": `${i},${j}`,
      onclick: () => open(Number(i), Number(j)) }, `${i}, ${j}: ${saidOf(cells.get(`${i},${j}`))}`), " "]).flat());
  }
  return el("div", { class: "scroll" }, el("table", { class: "matrix" },
    el("thead", {}, el("tr", {}, el("th", {}, "first \\ second"), order.map((j) => el("th", {}, String(j))))),
    el("tbody", {}, order.map((i) => el("tr", {}, el("th", {}, String(i)), order.map((j) => cell(i, j)))))));
}

// ---- differences

const MOST_STEPS = 4e6;
const piecesOf = (text, isLong) => text.match(isLong ? /[^\n]*\n|[^\n]+/g : /\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) || [];

function common(first, second) {  // places of a longest common subsequence, by dynamic programming
  const width = second.length + 1, lengths = new Uint32Array((first.length + 1) * width), found = [];
  for (let i = first.length - 1; i >= 0; i -= 1) {
    for (let j = second.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] = first[i] === second[j] ? lengths[(i + 1) * width + j + 1] + 1
        : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  for (let i = 0, j = 0; i < first.length && j < second.length;) {
    if (first[i] === second[j]) found.push([i++, j++]);
    else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) i += 1;
    else j += 1;
  }
  return found;
}

function diff(one, other) {  // by words; by lines if that is too much; [text, whether both have it] of each
  let [first, second] = [piecesOf(one), piecesOf(other)];
  if (first.length * second.length > MOST_STEPS) [first, second] = [piecesOf(one, true), piecesOf(other, true)];
  if (first.length * second.length > MOST_STEPS) return null;
  const shared = common(first, second);
  return [first, second].map((pieces, side) => {
    const both = new Set(shared.map((pair) => pair[side])), runs = [];
    pieces.forEach((piece, at) => {
      const last = runs[runs.length - 1];
      if (last && last[1] === both.has(at)) last[0] += piece;
      else runs.push([piece, both.has(at)]);
    });
    return runs;
  });
}

function differences(group, i, j) {
  const text = (at) => group.rollouts.find((rollout) => rollout.index === at)?.items.map(([, words]) => words).join("\n\n") ?? "";
  const found = diff(text(i), text(j));
  if (!found) return el("p", { class: "dim" }, "The responses are too long for a comparison of their texts.");
  return [el("h3", {}, `Differences between ${i} and ${j}`), el("div", { class: "diff" }, found.map((runs, side) => el("div", {},
    el("small", {}, `response ${side ? j : i}`),
    el("div", { class: "text long", dir: "auto" }, runs.map(([words, isShared]) => (isShared ? words : el("mark", { class: side ? "second2" : "first2" }, words)))))))];
}

async function showGroup(parameters) {
  const key = parameters.get("group"), run = parameters.get("run");
  const at = index.groups.findIndex((group) => group.key === key && (run === null || String(group.run) === run));
  const box = $("group");
  shownAt = at;
  if (at < 0) return box.replaceChildren(el("h2", {}, "There is no such group: ", key));
  const raw = parameters.has("raw");
  const group = await readGroup(at);
  const byReward = [...group.rollouts].sort((a, b) => (b.reward ?? -Infinity) - (a.reward ?? -Infinity) || a.index - b.index);
  const words = el("div", { "aria-live": "polite" });
  const others = group.comparisons.filter((each) => each.component || each.shown.length !== 2);
  const step = (by) => current[current.indexOf(at) + by];
  const beside = (text, by) => (step(by) === undefined ? null : link(text, groupHash(step(by))));
  if (!current.includes(at)) current = index.groups.map((_, place) => place);
  box.replaceChildren(...present([
    el("h2", {}, group.key),
    el("p", { class: "dim" }, `${group.rollouts.length} rollouts, reliability ${number(group.reliability, 2)}. `,
      beside("← previous (k)", -1), " ", beside("next (j) →", 1), " ",
      link(raw ? "formatted" : "raw text", raw ? groupHash(at) : { ...groupHash(at), raw: "" })),
    el("h3", {}, "Prompt"), conversation(group.prompt, {}, 0, raw),
    el("h3", {}, "Verdicts"),
    group.comparisons.length ? legend(byReward.length <= MAX_MATRIX) : null,
    matrix(group, byReward.map((rollout) => rollout.index), words), words,
    others.length ? el("details", {}, el("summary", {}, `${others.length} other judgements`), el("div", { class: "words" }, others.map(wordsOf))) : null,
    el("h3", {}, "Responses, best first"),
    el("div", { class: "responses" }, byReward.map((rollout) => rolloutCard(rollout, group.prompt, raw)))]));
}

// ---- pages

async function route() {
  searching += 1;
  const parameters = new URLSearchParams(location.hash.slice(1));
  $("sort").value = parameters.get("sort") || "";
  $("search").value = parameters.get("q") || "";
  for (const name of ["min", "max"]) $(name).value = parameters.get(name) || "";
  const page = parameters.has("group") ? "group" : parameters.has("list") || parameters.has("q") ? "list" : "overview";
  for (const name of ["overview", "list", "group"]) $(name).hidden = name !== page;
  if (page === "overview") { const there = location.hash.length > 1 && $(location.hash.slice(1)); if (there) there.scrollIntoView(); }
  else window.scrollTo(0, 0);
  try {
    if (page === "list") await showList(parameters);
    if (page === "group") await showGroup(parameters);
  } catch (error) {
    $(page).replaceChildren(el("p", { class: "warn" }, String(error.message || error)));
  }
}

function listHash(changes) {
  const now = new URLSearchParams(location.hash.slice(1));
  const next = new URLSearchParams({ list: now.get("list") || "" });
  for (const name of ["q", "sort", "min", "max"]) {
    const value = name in changes ? changes[name] : now.get(name);
    if (value) next.set(name, value);
  }
  location.hash = next;
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, select")) { if (event.key === "Escape") event.target.blur(); return; }
  const move = (by) => {
    const next = current[current.indexOf(shownAt) + by];
    if (!$("group").hidden && next !== undefined) location.hash = new URLSearchParams(groupHash(next));
  };
  if (event.key === "/") { event.preventDefault(); $("search").focus(); }
  if (event.key === "j") move(1);
  if (event.key === "k") move(-1);
  if (event.key === "l") listHash({});
  if (event.key === "o") location.hash = "";
}

async function start() {
  index = JSON.parse(await unpack($("index").textContent));
  index.groups = index.groups.map((values) => Object.fromEntries(index.columns.map((name, at) => [name, values[at]])));
  for (const [name, text] of Object.entries(SORTS)) $("sort").append(el("option", { value: name }, text));
  $("sort").addEventListener("change", (event) => listHash({ sort: event.target.value }));
  $("search").addEventListener("change", (event) => listHash({ q: event.target.value.trim() }));
  for (const name of ["min", "max"]) $(name).addEventListener("change", (event) => listHash({ [name]: event.target.value }));
  window.addEventListener("hashchange", route);
  document.addEventListener("keydown", onKey);
  await route();
  document.documentElement.dataset.ready = "";
}

start();
