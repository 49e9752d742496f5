// The main script: selection, keys, search, colours.

const PRINTED = 2000;
const byId = (id) => document.getElementById(id);
const THEMES = ["auto", "light", "dark"];
const KEYS = [
  [["\u2193", "j"], "next token"],
  [["\u2191", "k"], "previous token"],
  [["PgDn", "PgUp"], "one page down, up"],
  [["g", "G"], "first, last token"],
  [["n", "p"], "next, previous token of the \u201cStep to\u201d kind"],
  ...JUMPS.map(([key, name]) => [[key], key === "l" ? `the ${name}` : `next ${name}`]),
  [["/"], "search; Enter and Shift+Enter step, Esc returns"],
  [["t"], "colours: system, light, dark"],
  [["?"], "this list"],
];

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

class Page {
  constructor() {
    this.rows = new Rows(byId("grid"), byId("head"), byId("body"), (token) => this.choose(token));
    this.strip = new Strip(byId("strip"), byId("legend"), (token) => this.goTo(token));
    this.fillControls();
    this.listen();
    this.show(CHOICES[0]);
    this.follow();
    window.addEventListener("hashchange", () => this.follow());
    byId("grid").focus({ preventScroll: true });
  }

  show(choice) {
    this.choice = choice;
    this.token = 0;
    this.search = new Search(choice);
    byId("search").value = "";
    byId("found").textContent = "";
    this.jumps = new Map();
    showFacts(byId("facts"), choice);
    showNotes(byId("notes"), choice, (token) => this.goTo(token));
    showAnswer(byId("answer"), choice);
    this.rows.show(choice, this.search);
    this.strip.show(choice, this.search);
    byId("strip").setAttribute("aria-label", `${integer(choice.count)} tokens by state: ${this.describeStates()}`);
    if (choice.count) this.goTo(choice.difference ? choice.difference[0] : 0);
    else byId("details").replaceChildren(element("p", "why", "The choice has no tokens."));
    if (choice.difference) byId("jump").value = "x";
  }

  // The page's address names what it shows: #t53&c1&q=text, the token counted from 1, the choice, the search.
  follow() {
    const parts = location.hash.slice(1).split("&");
    const value = (name) => (parts.find((part) => part.startsWith(name)) || "").slice(name.length);
    const choice = CHOICES[Number(value("c"))];
    if (choice && choice !== this.choice) {
      byId("choice").value = value("c");
      this.show(choice);
    }
    const query = decode(value("q="));
    if (query !== this.search.query) {
      byId("search").value = query;
      this.find(query);
    }
    const token = Number(value("t"));
    if (token >= 1) this.goTo(token - 1);
  }

  // Write the address, without an entry in the history.
  address() {
    const place = CHOICES.indexOf(this.choice);
    const { query } = this.search;
    const parts = [`t${this.token + 1}`, place > 0 && `c${place}`, query && `q=${encodeURIComponent(query)}`];
    history.replaceState(null, "", `#${parts.filter(Boolean).join("&")}`);
  }

  describeStates() {
    const names = new Set(this.choice.sides.flatMap((side) => side.states.values.map((value) => STRINGS[value])));
    return [...names].join(", ");
  }

  choose(token) {
    this.select(token, () => this.rows.choose(this.token));
  }

  goTo(token) {
    this.select(token, () => this.rows.goTo(this.token));
  }

  select(token, scroll) {
    if (!this.choice.count) return;
    this.token = Math.max(0, Math.min(token, this.choice.count - 1));
    scroll();
    this.strip.mark(this.token);
    if (this.addressed) this.address();
    this.addressed = true;
    showToken(byId("details"), this.choice, this.token);
  }

  // The next or previous token of a list relative to the chosen one; wraps around.
  step(list, forward) {
    if (!list.length) return;
    const place = forward ? lastUpTo(list, this.token) + 1 : lastUpTo(list, this.token - 1);
    this.goTo(list[(place + list.length) % list.length]);
  }

  jump(forward) {
    const key = byId("jump").value;
    if (!this.jumps.has(key)) this.jumps.set(key, JUMPS.find(([each]) => each === key)[2](this.choice));
    this.step(this.jumps.get(key), forward);
  }

  find(query) {
    const found = this.search.run(query);
    this.rows.place(true);
    this.strip.draw();
    this.count();
    this.address();
    return found;
  }

  findStep(forward) {
    this.step(this.search.found, forward);
    this.count();
  }

  count() {
    const { found, query } = this.search;
    const place = this.search.marked.has(this.token) ? `${integer(found.indexOf(this.token) + 1)} of ` : "";
    byId("found").textContent = query ? `${place}${integer(found.length)} found` : "";
  }

  fillControls() {
    byId("request").textContent = plain(DATA.id);
    document.title = `${plain(DATA.id)} \u2013 Backedge inspect`;
    byId("outcome").textContent = DATA.outcome;
    byId("outcome").classList.toggle("bad", DATA.outcome !== "finished");
    byId("choice-label").hidden = CHOICES.length < 2;
    byId("choice").replaceChildren(...CHOICES.map((choice, place) => new Option(String(choice.index), String(place))));
    byId("jump").replaceChildren(...JUMPS.map(([key, name]) => new Option(name, key)));
    for (const [keys, meaning] of KEYS) {
      const names = element("dt");
      keys.forEach((key) => names.append(element("kbd", "", key), " "));
      byId("keys").append(names, element("dd", "", meaning));
    }
    this.setTheme("auto");
    showRequest(byId("asked"));
  }

  setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    byId("theme").textContent = `Colours: ${theme}`;
    this.strip.draw();
  }

  switchTheme() {
    const place = THEMES.indexOf(document.documentElement.dataset.theme);
    this.setTheme(THEMES[(place + 1) % THEMES.length]);
  }

  listen() {
    let typed = 0;
    byId("search").addEventListener("input", (event) => {
      clearTimeout(typed);
      typed = setTimeout(() => this.find(event.target.value), 60);
    });
    byId("search").addEventListener("keydown", (event) => this.searchKey(event));
    byId("choice").addEventListener("change", (event) => this.show(CHOICES[Number(event.target.value)]));
    byId("previous").addEventListener("click", () => this.jump(false));
    byId("next").addEventListener("click", () => this.jump(true));
    byId("theme").addEventListener("click", () => this.switchTheme());
    byId("help-open").addEventListener("click", () => byId("help").showModal());
    byId("help-close").addEventListener("click", () => byId("help").close());
    document.addEventListener("keydown", (event) => this.key(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.strip.draw());
    window.addEventListener("beforeprint", () => this.preparePrint());
    window.addEventListener("afterprint", () => byId("print").replaceChildren());
  }

  searchKey(event) {
    if (event.key === "Enter") {
      if (this.search.query !== event.target.value) this.find(event.target.value);
      this.findStep(!event.shiftKey);
    } else if (event.key === "Escape") {
      event.target.value = "";
      this.find("");
      byId("grid").focus({ preventScroll: true });
    } else return;
    event.preventDefault();
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || byId("help").open) return;
    if (event.target.closest("input, select, textarea")) return;
    // Enter and Space press a focused button, so no key here uses them.
    const action = this.actions()[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  actions() {
    const { token, rows } = this;
    const actions = {
      ArrowDown: () => this.choose(token + 1),
      ArrowUp: () => this.choose(token - 1),
      PageDown: () => this.choose(token + rows.page),
      PageUp: () => this.choose(token - rows.page),
      Home: () => this.choose(0),
      End: () => this.choose(this.choice.count - 1),
      n: () => this.jump(true),
      p: () => this.jump(false),
      t: () => this.switchTheme(),
      "?": () => byId("help").showModal(),
      "/": () => { byId("search").focus(); byId("search").select(); },
    };
    Object.assign(actions, { j: actions.ArrowDown, k: actions.ArrowUp, g: actions.Home, G: actions.End });
    for (const [key] of JUMPS) actions[key] = () => { byId("jump").value = key; this.jump(true); };
    return actions;
  }

  // The list holds only visible rows, so printing uses a separate table.
  preparePrint() {
    const { choice } = this;
    const table = element("table");
    const head = table.createTHead().insertRow();
    const names = ["#", "ms", "id", "token", ...choice.sides.flatMap((side) => ["state", side.label])];
    names.forEach((name) => head.append(element("th", "", name)));
    const body = table.createTBody();
    for (let token = 0; token < Math.min(choice.count, PRINTED); token += 1) this.printRow(body.insertRow(), token);
    byId("print").replaceChildren(table);
    if (choice.count > PRINTED) byId("print").append(element("p", "", `The first ${integer(PRINTED)} of ${integer(choice.count)} tokens.`));
  }

  printRow(row, token) {
    const { choice } = this;
    const chunk = choice.chunk(token);
    const begins = choice.chunkStarts[chunk] === token;
    row.className = [begins && "cut", choice.discardedFor(token) && "discarded"].filter(Boolean).join(" ");
    row.insertCell().textContent = token + 1;
    row.insertCell().textContent = begins ? choice.chunkTimes[chunk].toFixed(2) : "";
    row.insertCell().textContent = choice.ids[token] < 0 ? "end" : choice.ids[token];
    put(row.insertCell(), choice.text(token), { dots: true });
    for (const side of choice.sides) {
      row.insertCell().textContent = side.state(token);
      this.rows.fillSide(side, token, element("span"), row.insertCell());
    }
  }
}

const PAGE = new Page();
