// Unit tests of the page's script, without a browser: `node --test tests/products/report/`. pytest runs them, too.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

const source = readFileSync(new URL("../../../genrm_cli/products/report/page/report.js", import.meta.url), "utf8");
const NAMES = ["sorted", "shade", "cellsOf", "evidenceAt", "markdown", "texts", "number", "groupHash", "whyNoWords", "within", "diff"];

class Element {
  constructor(name) {
    Object.assign(this, { name, attributes: {}, children: [] });
  }
  append(...children) {
    this.children.push(...children);
  }
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  addEventListener() {}
  get text() {
    return this.children.map((child) => (typeof child === "string" ? child : child.text)).join("");
  }
}

function load(index) {
  const body = source.replace(/\nstart\(\);\n$/, "\n");
  assert.notEqual(body, source, "the script starts itself in its last line");
  const document = { createElement: (name) => new Element(name), getElementById: () => null };
  return new Function("document", "window", "given", `${body}\nindex = given;\nreturn { ${NAMES} };`)(document, {}, index);
}

const groups = [
  { key: "a", run: 0, mean: 2, spread: 0.5, reliability: null, length: -0.9, failed: 0, rewards: [1, 3] },
  { key: "b", run: 0, mean: 4, spread: 0.1, reliability: 0.9, length: 0.2, failed: 3, rewards: [3.5, 4.5] },
  { key: "c", run: 1, mean: null, spread: 0.5, reliability: 0.2, length: null, failed: 0, rewards: [] },
];
const page = load({ groups, runs: [{ uri: "x" }, { uri: "y" }] });

test("groups are sorted by each measure, those without a value last, equal ones as in the file", () => {
  assert.deepEqual(page.sorted([0, 1, 2], "reliability"), [2, 1, 0]);
  assert.deepEqual(page.sorted([0, 1, 2], "spread"), [1, 0, 2]);
  assert.deepEqual(page.sorted([0, 1, 2], "effect"), [0, 1, 2]);
  assert.deepEqual(page.sorted([0, 1, 2], "-length"), [1, 0, 2]);
  assert.deepEqual(page.sorted([0, 1, 2], "-failed"), [1, 0, 2]);
  assert.deepEqual(page.sorted([0, 1, 2], "-mean"), [1, 0, 2]);
  assert.deepEqual(page.sorted([0, 1, 2], "mean"), [0, 1, 2]);
  assert.deepEqual(page.sorted([0, 1, 2], "-key"), [2, 1, 0]);
  assert.deepEqual(page.sorted([2, 0, 1], "constructor"), [0, 1, 2]);
  assert.deepEqual(page.sorted([2, 0, 1], null), [0, 1, 2]);
});

test("a range of rewards keeps the groups with a reward in it, and may be open on either side", () => {
  assert.deepEqual(page.within([0, 1, 2], "2", "3"), [0]);
  assert.deepEqual(page.within([0, 1, 2], "2.5", null), [0, 1]);
  assert.deepEqual(page.within([0, 1, 2], "", "0"), []);
  assert.deepEqual(page.within([0, 1, 2], null, ""), [0, 1, 2]);
});

test("a diff holds both texts whole, and marks what only one of them has", () => {
  const [first, second] = page.diff("one two three", "one 2 three four");
  assert.deepEqual(first, [["one ", true], ["two", false], [" three", true]]);
  assert.deepEqual(second, [["one ", true], ["2", false], [" three", true], [" four", false]]);
  const long = Array.from({ length: 1500 }, (_, at) => `line ${at}`).join("\n");
  const [whole, changed] = page.diff(long, long.replace("line 700\n", "line x\n"));
  assert.deepEqual([whole.length, changed[1]], [3, ["line x\n", false]]);
  assert.equal(whole.map(([words]) => words).join(""), long);
  assert.equal(page.diff("a\n".repeat(3000), "b\n".repeat(3000)), null);
});

test("sorting leaves the given list as it is", () => {
  const given = [2, 0, 1];
  page.sorted(given, "spread");
  assert.deepEqual(given, [2, 0, 1]);
});

test("a cell is shaded by the scores, and by the ranking where they are equal", () => {
  assert.equal(page.shade([5, 1, 1]), "first3");
  assert.equal(page.shade([2, 3, 4]), "second1");
  assert.equal(page.shade([3, 3, 5]), "second2");
  assert.equal(page.shade([3, 3, 3.5]), "");
});

test("the matrix holds the pairs that were asked: no grades, components, or planned comparisons", () => {
  const pair = { shown: [0, 1], verdict: [4, 2, 2] };
  const failed = { shown: [1, 0], failure: ["timeout", "after 1 s"] };
  const others = [
    { shown: [0, 2], failure: ["not_asked", "stopped by max_calls"] },
    { shown: [0], grades: [3] },
    { shown: [2, 0], component: "safety" },
  ];
  const cells = page.cellsOf([pair, failed, ...others, pair]);
  assert.deepEqual([...cells.keys()], ["0,1", "1,0"]);
  assert.equal(cells.get("0,1").length, 2);
});

test("evidence stands at its turn, in words; what names no turn is found without one", () => {
  const notes = {
    safety: [{ turn: 2, what: "promises a cure", phrase: "you will be fine", effect: "violation" }, { turn: 3, what: "x" }],
    empathy: "warm",
  };
  const [found, ...more] = page.evidenceAt(notes, 2);
  assert.equal(more.length, 0);
  assert.equal(found.text, "safety · promises a cure: “you will be fine”");
  assert.equal(found.attributes.class, "evidence violation");
  assert.deepEqual(page.evidenceAt(notes, undefined).map((each) => each.text), ["empathy · warm"]);
  assert.deepEqual(page.evidenceAt(null, 0), []);
});

test("an effect that the page does not know gets no class of its own", () => {
  const [found] = page.evidenceAt({ safety: [{ turn: 0, what: "x", effect: "first3 matrix" }] }, 0);
  assert.equal(found.attributes.class, "evidence ");
});

test("Markdown becomes headings, code and bold; fences without an end hold the rest; no character is lost", () => {
  const [text, code, rest] = page.markdown("# Title\na `b` **c** <i>\n```js\nlet x;\n```\nend");
  assert.deepEqual(text.children.filter((child) => child.name).map((child) => [child.name, child.text]), [
    ["h4", "Title"], ["code", "b"], ["strong", "c"],
  ]);
  assert.match(text.text, /<i>/);
  assert.deepEqual([code.name, code.text], ["pre", "let x;"]);
  assert.equal(rest.text.trim(), "end");
  assert.equal(page.markdown("```\nopen\n# no title").map((part) => part.text).join(), "open\n# no title");
});

test("the search looks at the key, the prompt and every part of a response", () => {
  const group = { key: "k", prompt: [["user", "why"]], rollouts: [{ items: [["text", "a"], ["call", "f(1)"]] }, { items: [] }] };
  assert.deepEqual([...page.texts(group)], ["k", "why", "a", "f(1)"]);
});

test("links name the run", () => {
  assert.deepEqual(page.groupHash(2), { group: "c", run: 1 });
});

test("what is not known is a dash, never 0", () => {
  assert.equal(page.number(null), "–");
  assert.equal(page.number(undefined), "–");
  assert.equal(page.number(0), "0.000");
});

test("words that are missing are explained", () => {
  assert.match(page.whyNoWords({ judge: "lexical" }), /baseline/);
  assert.match(page.whyNoWords({ judge: "m" }), /--keep-replies/);
  assert.match(page.whyNoWords({ judge: "m", failure: ["timeout", ""] }), /No reply/);
});
