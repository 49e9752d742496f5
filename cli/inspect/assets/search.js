// Search in the text across tokens, in ids and in the names of states.

const ENCODER = new TextEncoder();

class Search {
  constructor(choice) {
    this.choice = choice;
    this.query = "";
    this.found = [];
    this.marked = new Set();
  }

  // The bytes of all tokens' text, and the start of each token; built on first use.
  get folded() {
    if (!this.whole) {
      let length = 0;
      const parts = this.choice.texts.map((place) => toBytes(STRINGS[place]));
      const starts = parts.map((part) => (length += part.length) - part.length);
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
    const wanted = toBytes(folded);
    let at = text.indexOf(wanted);
    while (at >= 0) {
      tokens.add(lastUpTo(starts, at));
      at = text.indexOf(wanted, at + wanted.length);
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

// Text in lower case as UTF-8 bytes, each one a character, so that parts of characters join.
function toBytes(text) {
  if (PLAIN.test(text)) return text.toLowerCase();
  return Array.from(text.toLowerCase(), (char) => {
    const code = char.codePointAt(0);
    const isByte = code >= FIRST_BYTE && code <= LAST_BYTE;
    return String.fromCharCode(...(isByte ? [code - 0xdc00] : ENCODER.encode(char)));
  }).join("");
}
