// Search in the text across tokens, in ids and in the names of states.

class Search {
  constructor(choice) {
    this.choice = choice;
    this.query = "";
    this.found = [];
    this.marked = new Set();
  }

  // Folded text of all tokens, and the start of each; built on first use.
  get folded() {
    if (!this.whole) {
      const bytes = new Bytes();
      const starts = new Array(this.choice.count);
      const parts = new Array(this.choice.count);
      let length = 0;
      for (let token = 0; token < this.choice.count; token += 1) {
        starts[token] = length;
        parts[token] = bytes.join(this.choice.text(token)).toLowerCase();
        // A character that spans tokens belongs to the first of them.
        if (bytes.ended >= 0) {
          for (let before = bytes.ended + 1; before <= token; before += 1) starts[before] = length + 1;
        }
        bytes.next(token);
        length += parts[token].length;
      }
      this.whole = { text: parts.join(""), starts };
    }
    return this.whole;
  }

  run(query) {
    this.query = query;
    const tokens = new Set();
    const folded = query.toLowerCase();
    if (folded) {
      this.findText(folded, tokens);
      this.findIds(folded, tokens);
      this.findStates(folded, tokens);
    }
    this.found = [...tokens].sort((one, other) => one - other);
    this.marked = tokens;
    return this.found;
  }

  findText(folded, tokens) {
    const { text, starts } = this.folded;
    let at = text.indexOf(folded);
    while (at >= 0) {
      tokens.add(lastUpTo(starts, at));
      at = text.indexOf(folded, at + Math.max(folded.length, 1));
    }
  }

  findIds(folded, tokens) {
    const digits = /^#?(\d+)$/.exec(folded);
    if (!digits) return;
    const id = Number(digits[1]);
    this.choice.ids.forEach((each, token) => { if (each === id) tokens.add(token); });
  }

  findStates(folded, tokens) {
    for (const { states } of this.choice.sides) {
      states.values.forEach((value, place) => {
        if (STRINGS[value].toLowerCase().includes(folded)) tokens.add(states.starts[place]);
      });
    }
  }
}

// The targets of "Step to": the tokens of each kind, in order.
const JUMPS = [
  ["d", "delta", (choice) => merge(choice.sides.map((side) => side.tokensWith("deltas")))],
  ["s", "state change", (choice) => merge(choice.sides.map((side) => side.states.starts))],
  ["h", "held-back text", (choice) => merge(choice.sides.map((side) => beginnings(side.tokensWith("held"))))],
  ["c", "chunk", (choice) => choice.chunkStarts],
  ["o", "deltas sent", (choice) => [...choice.sentByToken.keys()].sort((one, other) => one - other)],
  ["x", "difference", (choice) => (choice.difference ? [choice.difference[0]] : [])],
  ["m", "stop string", (choice) => merge(choice.sides.map((side) => side.stops.starts.filter(
    (_, place) => side.stops.values[place] === STOP_MATCHED)))],
  ["l", "longest gap", (choice) => longestGap(choice)],
];

function merge(lists) {
  return lists.length === 1 ? lists[0] : [...new Set(lists.flat())].sort((one, other) => one - other);
}

function beginnings(tokens) {
  return tokens.filter((token, place) => place === 0 || tokens[place - 1] !== token - 1);
}

function longestGap(choice) {
  let found = -1;
  let longest = 0;
  for (let chunk = 1; chunk < choice.chunkStarts.length; chunk += 1) {
    if (choice.gapBefore(chunk) > longest) {
      longest = choice.gapBefore(chunk);
      found = choice.chunkStarts[chunk];
    }
  }
  return found < 0 ? [] : [found];
}

// Joins tokens that each contain part of a character.
class Bytes {
  constructor() {
    this.waiting = [];
    this.began = -1;  // the token of the first waiting byte
    this.ended = -1;  // the same for the character that the last text completed
    this.token = 0;
  }

  // Return a token's text, including a character that it completes, without one that it begins.
  join(text) {
    this.ended = -1;
    if (!this.waiting.length && !/[\udc80-\udcff]/u.test(text)) return text;
    let joined = "";
    for (const char of text) {
      const code = char.codePointAt(0);
      if (code < FIRST_BYTE || code > LAST_BYTE) { this.waiting = []; joined += char; continue; }
      if (!this.waiting.length) this.began = this.token;
      this.waiting.push(code - 0xdc00);
      joined += this.complete();
    }
    return joined;
  }

  complete() {
    const [first] = this.waiting;
    const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (this.waiting.length < length) return "";
    const char = new TextDecoder().decode(new Uint8Array(this.waiting));
    this.waiting = [];
    if (this.began < this.token) this.ended = this.began;
    return char;
  }

  next(token) {
    this.token = token + 1;
  }
}
