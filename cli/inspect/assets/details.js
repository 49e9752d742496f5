// Details of the chosen token, and of the whole answer.

function entry(list, name, value) {
  const term = element("dt", "", name);
  const definition = element("dd");
  if (value instanceof Node) definition.append(value); else definition.textContent = value;
  list.append(term, definition);
}

function quoted(text) {
  return put(element("span", "mono"), text, { dots: true });
}

function showToken(parent, choice, token) {
  parent.replaceChildren(element("h2", "", `Token ${integer(token + 1)} of ${integer(choice.count)}`));
  const list = element("dl");
  const chunk = choice.chunk(token);
  entry(list, "text", quoted(choice.text(token)));
  entry(list, "id", choice.ids[token] < 0 ? "none: generation ended" : String(choice.ids[token]));
  entry(list, "chunk", `${integer(chunk + 1)} of ${integer(choice.chunkStarts.length)}`);
  const gap = chunk > 0 ? `, ${milliseconds(choice.gapBefore(chunk))} after the chunk before` : "";
  entry(list, "time", milliseconds(choice.chunkTimes[chunk]) + gap);
  const reason = choice.discardedFor(token);
  if (reason) entry(list, "discarded", `${reason}: the call was generated again`);
  parent.append(list);
  for (const side of choice.sides) showSide(parent, choice, side, token);
  for (const group of choice.sentByToken.get(token) || []) showSent(parent, group);
}

// The data has the end of a long held text; the tokens have the rest.
function wholeHeld(choice, token, length, end) {
  if (length <= lengthOf(end)) return end;
  const places = choice.texts.slice(Math.max(0, token + 1 - length), token + 1);
  const whole = [...places.map((place) => STRINGS[place]).join("")].slice(-length).join("");
  return whole.endsWith(end) ? whole : `\u2026${end}`;
}

function showSide(parent, choice, side, token) {
  parent.append(element("h3", "", side.label));
  if (token >= side.ignoredFrom) {
    parent.append(element("p", "why", "The choice had already finished; this token was dropped."));
    return;
  }
  const list = element("dl");
  const before = token > 0 ? side.state(token - 1) : "";
  const state = side.state(token);
  entry(list, "state", before && before !== state ? `${before} \u2192 ${state}` : state);
  for (const [kind, call, text] of side.parts("deltas", token)) {
    entry(list, kind === CALL ? `call ${call}` : KINDS[kind], quoted(text));
  }
  const events = side.parts("events", token);
  for (const [kind, , text] of events) entry(list, `parser: ${KINDS[kind]}`, quoted(text));
  const stop = STOPS[side.stop(token)];
  if (stop) entry(list, "stop", stop);
  parent.append(list);
  for (const [why, length, text] of side.parts("held", token)) {
    const held = element("dl");
    entry(held, `holds ${integer(length)}`, quoted(wholeHeld(choice, token, length, text)));
    parent.append(held, element("p", "why", `${DATA.why[why]}. ${DATA.explanations[why]}`));
  }
}

function showSent(parent, [, atMs, parts]) {
  parent.append(element("h3", "", `sent at ${milliseconds(atMs)}`));
  const list = element("dl");
  for (const [kind, call, text] of parts) {
    const name = kind === CALL ? `call ${call}` : KINDS[kind];
    const shown = STRINGS[text];
    const hidden = DATA.redacted && kind !== CALL && kind !== FINISH;
    entry(list, name, hidden ? `${integer(lengthOf(shown))} characters, not recorded` : quoted(shown));
  }
  parent.append(list);
}

function showRequest(parent) {
  for (const [name, text] of DATA.asked) {
    const shown = element("pre");
    for (const line of text.split("\n")) put(shown, line).append("\n");
    parent.append(element("h3", "", name), shown);
  }
}

function showAnswer(parent, choice) {
  parent.replaceChildren(element("h2", "", "The answer"));
  for (const side of choice.sides) {
    if (choice.sides.length > 1) parent.append(element("h3", "", side.label));
    for (const [kind, call, text] of side.whole) {
      parent.append(element("h3", "", kind === CALL ? `call ${call}` : KINDS[kind]));
      parent.append(put(element("pre", FAMILY_BY_KIND[kind]), text.slice(0, 20000), { lines: true }));
    }
    if (!side.whole.length) parent.append(element("p", "why", "No output."));
  }
}

function showFacts(list, choice) {
  list.replaceChildren();
  const { timing } = choice;
  const speed = timing.tokens_per_s === null ? "" : `, ${timing.tokens_per_s.toFixed(0)}/s`;
  const facts = [
    ["model", plain(DATA.model)],
    ["recorded by", [DATA.source, DATA.engine].filter(Boolean).map(plain).join(", ")],
    ["parsers", choice.sides.map((side) => side.label).join(" | ")],
    ["prompt", `${integer(DATA.promptTokens)} tokens`],
    ["output", `${integer(timing.tokens)} tokens in ${integer(timing.chunks)} chunks${speed}`],
    ["first token, first delta, last", ["first_token_ms", "first_delta_ms", "last_ms"].map((name) => milliseconds(timing[name])).join(", ")],
    ["gaps: median, 99\u00a0%, longest", ["median_gap_ms", "high_gap_ms", "longest_gap_ms"].map((name) => milliseconds(timing[name])).join(", ")],
  ];
  if (DATA.stop.length) facts.push(["stop strings", DATA.stop.slice(0, 8).map((stop) => `"${plain(stop)}"`).join(" ")]);
  for (const [name, value] of facts) {
    const group = element("div");
    entry(group, name, value);
    list.append(group);
  }
}

// goTo: called with the token of the first difference.
function showNotes(parent, choice, goTo) {
  parent.replaceChildren();
  const note = (text, bad) => {
    const made = element("p", bad ? "note bad" : "note", plain(text));
    parent.append(made);
    return made;
  };
  if (DATA.note) note(DATA.note, true);
  if (DATA.error) note(DATA.error, true);
  for (const side of choice.sides) for (const failure of side.failures) note(failure, true);
  if (DATA.redacted) note("The recording is redacted: words are replaced by placeholders; markers and structure are kept.");
  if (DATA.turns) note(DATA.turns);
  if (DATA.resumed) note(`The first ${integer(DATA.resumed)} tokens are another worker's, which died.`);
  if (DATA.discarded) note(`${integer(DATA.discarded)} tokens were discarded: their call was generated again.`);
  if (DATA.dropped) note(`${integer(DATA.dropped)} further tokens were not recorded.`);
  if (choice.leftOut) note(`${integer(choice.leftOut)} further tokens are not shown.`);
  if (choice.agrees === false) note("These parsers do not reproduce the deltas that were sent.", true);
  if (choice.sides.length > 1 && choice.difference === null) note("Both parsers give the same output.");
  if (choice.difference) {
    const [token, left, right] = choice.difference;
    const made = note(`First difference at token ${integer(token + 1)}: ${left} \u2260 ${right}`, true);
    const button = element("button", "", "Show");
    button.type = "button";
    button.id = "to-difference";
    button.addEventListener("click", () => goTo(token));
    made.append(button);
  }
}
