"use strict";
// The data of the page: reads rows from columns and tables of strings.

const DATA = JSON.parse(document.getElementById("data").textContent);
const STRINGS = DATA.strings;
const KINDS = ["reasoning", "content", "call", "arguments", "finish", "cut", "malformed"];
const CALL = 2;
const FINISH = 4;
const STOPS = ["", "searched for stop strings", "not searched for stop strings: reasoning has none",
  "searched, but the first tokens must not end the answer (min_tokens)", "completes a stop string"];
const STOP_MATCHED = 4;
// The kind of a state's text, by the first pattern that matches its name.
const FAMILIES = [
  ["reasoning", /^reasoning/i],
  ["text", /^(start|content|code_|answer)/i],
  ["raw", /^raw/i],
  ["markup", /^(ignored|tool_section|header)$/i],
  ["call", /./],
];
const FAMILY_NAMES = {
  reasoning: "reasoning", text: "answer", call: "tool call", markup: "markup", raw: "raw text",
};

function familyOf(state) {
  const found = FAMILIES.find(([, pattern]) => pattern.test(state));
  return found ? found[0] : "markup";
}

// Entries of `width` numbers, the first being the token: returns where each token's entries begin.
function indexByToken(flat, width, count) {
  const from = new Uint32Array(count + 1);
  for (let at = 0; at < flat.length; at += width) from[flat[at] + 1] += 1;
  for (let token = 0; token < count; token += 1) from[token + 1] += from[token];
  return from;
}

// The last index in an ascending list whose value is not above `value`; -1 if all are above.
function lastUpTo(list, value) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (list[middle] <= value) low = middle + 1; else high = middle;
  }
  return low - 1;
}

// Runs of equal values: start and value of each.
class Runs {
  constructor(flat) {
    this.starts = flat.filter((_, place) => place % 2 === 0);
    this.values = flat.filter((_, place) => place % 2 === 1);
  }

  at(token) {
    return this.values[lastUpTo(this.starts, token)];
  }
}

// A choice as read by one pair of parsers.
class Side {
  constructor(data, count) {
    this.parsers = data.parsers;
    this.kind = data.kind;
    this.failures = data.failures;
    this.whole = data.whole;
    this.ignoredFrom = data.ignoredFrom;
    this.states = new Runs(data.states);
    this.stops = new Runs(data.stops);
    this.lists = { deltas: data.deltas, events: data.events, held: data.held };
    this.from = {};
    for (const name of Object.keys(this.lists)) {
      this.from[name] = indexByToken(this.lists[name], 4, count);
    }
  }

  get label() {
    return this.kind ? `${this.kind} ${this.parsers}` : this.parsers;
  }

  state(token) {
    return STRINGS[this.states.at(token)];
  }

  stop(token) {
    return this.stops.at(token);
  }

  // [kind, call, text] of each delta or event; [why, length, text] of each held-back text.
  parts(name, token) {
    const flat = this.lists[name];
    const found = [];
    for (let entry = this.from[name][token]; entry < this.from[name][token + 1]; entry += 1) {
      const at = entry * 4;
      found.push([flat[at + 1], flat[at + 2], STRINGS[flat[at + 3]]]);
    }
    return found;
  }

  // The tokens that have entries.
  tokensWith(name) {
    const from = this.from[name];
    const found = [];
    for (let token = 0; token + 1 < from.length; token += 1) {
      if (from[token] < from[token + 1]) found.push(token);
    }
    return found;
  }
}

class Choice {
  constructor(data) {
    this.index = data.index;
    this.ids = data.ids;
    this.texts = data.texts;
    this.count = data.ids.length;
    this.chunkStarts = data.chunkStarts;
    this.chunkTimes = data.chunkTimes;
    this.timing = data.timing;
    this.difference = data.difference;
    this.agrees = data.agrees;
    this.leftOut = data.leftOut;
    this.discarded = new Runs(data.discarded);
    this.sides = data.sides.map((side) => new Side(side, this.count));
    this.sent = data.sent;
    this.sentByToken = new Map();
    for (const group of data.sent) {
      const token = Math.max(group[0] - 1, 0);
      if (!this.sentByToken.has(token)) this.sentByToken.set(token, []);
      this.sentByToken.get(token).push(group);
    }
  }

  text(token) {
    return STRINGS[this.texts[token]];
  }

  // Why the token's call was generated again; "" for a token of the answer.
  discardedFor(token) {
    return STRINGS[this.discarded.at(token)];
  }

  chunk(token) {
    return lastUpTo(this.chunkStarts, token);
  }

  gapBefore(chunk) {
    return chunk > 0 ? this.chunkTimes[chunk] - this.chunkTimes[chunk - 1] : 0;
  }
}

const CHOICES = DATA.choices.map((choice) => new Choice(choice));
