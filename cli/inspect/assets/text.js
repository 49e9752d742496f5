// The model's text on the page: always text nodes, with invisible characters made visible.

const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}\p{Default_Ignorable_Code_Point}]|(?! )\p{Zs}/gu;
// True of most text.
const PLAIN = /^[ -~]*$/;
const SHORT = new Map([["\n", "\\n"], ["\r", "\\r"], ["\t", "\\t"]]);
// From here on, surrogates stand for bytes that are not characters.
const FIRST_BYTE = 0xdc80;
const LAST_BYTE = 0xdcff;

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function nameHidden(char) {
  const code = char.codePointAt(0);
  if (SHORT.has(char)) return SHORT.get(char);
  if (code >= FIRST_BYTE && code <= LAST_BYTE) return `0x${(code - 0xdc00).toString(16).toUpperCase()}`;
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

// Add `text` to `parent`. dots: show spaces at its ends as dots. lines: keep line breaks.
function put(parent, text, { dots = false, lines = false } = {}) {
  let shown = text;
  let tail = 0;
  if (dots) {
    const lead = shown.length - shown.trimStart().length;
    const spaces = /^ */.exec(shown)[0].length;
    if (spaces) parent.append(element("span", "space", "\u00b7".repeat(spaces)));
    shown = shown.slice(spaces);
    tail = lead === text.length ? 0 : / *$/.exec(shown)[0].length;
    shown = shown.slice(0, shown.length - tail);
  }
  // A combining mark would attach to the preceding character.
  if (/^\p{M}/u.test(shown)) parent.append(element("span", "space", "\u25cc"));
  let from = 0;
  for (const match of PLAIN.test(shown) ? [] : shown.matchAll(HIDDEN)) {
    if (match.index > from) parent.append(shown.slice(from, match.index));
    parent.append(element("span", "hidden-char", nameHidden(match[0])));
    if (lines && match[0] === "\n") parent.append("\n");
    from = match.index + match[0].length;
  }
  if (from < shown.length) parent.append(shown.slice(from));
  if (tail) parent.append(element("span", "space", "\u00b7".repeat(tail)));
  return parent;
}

// Plain text, for labels.
function plain(text) {
  return text.replace(HIDDEN, (char) => nameHidden(char));
}

// The number of characters, as Python counts them.
function lengthOf(text) {
  return [...text].length;
}

function milliseconds(value) {
  if (value === null) return "\u2013";
  if (value >= 10000) return `${(value / 1000).toFixed(1)} s`;
  return `${value.toFixed(value < 100 ? 2 : 0)} ms`;
}

function integer(value) {
  return value.toLocaleString("en");
}
