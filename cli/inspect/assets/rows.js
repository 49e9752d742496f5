// The rows of tokens. Only visible rows are elements, which are reused during scrolling.

const ROW = 26;
const SPARE = 6;
// Limit for a text in a row; the details show all of it.
const ROW_TEXT = 90;
const HELD_TEXT = 26;

class Rows {
  constructor(grid, head, body, onChoose) {
    this.grid = grid;
    this.head = head;
    this.body = body;
    this.pool = [];
    this.chosen = 0;
    grid.addEventListener("scroll", () => this.refresh(), { passive: true });
    new ResizeObserver(() => this.refresh()).observe(grid);
    body.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) onChoose(row.token);
    });
  }

  show(choice, search) {
    this.choice = choice;
    this.search = search;
    const two = choice.sides.length > 1;
    const side = "minmax(92px, 120px) minmax(150px, 2.6fr)";
    const columns = `58px 76px 62px minmax(116px, 1fr) ${side}${two ? ` ${side}` : ""} 136px`;
    this.grid.style.setProperty("--columns", columns);
    this.grid.style.setProperty("--wide", two ? "920px" : "700px");
    this.grid.style.setProperty("--narrow", `44px minmax(96px, 1fr) ${side}${two ? ` ${side}` : ""} 136px`);
    this.fillHead();
    this.body.style.height = `${choice.count * ROW}px`;
    this.body.replaceChildren();
    this.pool = [];
    this.grid.setAttribute("aria-rowcount", String(choice.count + 1));
    this.grid.setAttribute("aria-colcount", String(this.head.children.length));
    this.refresh();
  }

  fillHead() {
    const names = ["#", "ms", "id", "token"];
    for (const side of this.choice.sides) names.push("state", `${side.label}: gives, holds`);
    names.push("sent");
    this.head.replaceChildren(...names.map((name, place) => {
      const cell = element("span", place < 3 ? "number" : "", name);
      cell.setAttribute("role", "columnheader");
      return cell;
    }));
  }

  refresh() {
    if (this.waits || !this.choice) return;
    this.waits = true;
    requestAnimationFrame(() => { this.waits = false; this.place(); });
  }

  // Assign a row to each element. After a change of the data all rows must be filled again.
  place(all = false) {
    const seen = Math.ceil(this.grid.clientHeight / ROW);
    const size = Math.min(seen + 2 * SPARE, this.choice.count);
    while (this.pool.length < size) this.pool.push(this.makeRow());
    while (this.pool.length > size) this.pool.pop().remove();
    const top = Math.floor(this.grid.scrollTop / ROW) - SPARE;
    const first = Math.max(0, Math.min(top, this.choice.count - size));
    for (let token = first; token < first + size; token += 1) {
      const row = this.pool[token % size];
      if (all || row.token !== token) this.fill(row, token);
    }
    const chosen = document.getElementById(`token-${this.chosen}`);
    if (chosen) this.grid.setAttribute("aria-activedescendant", chosen.id);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  makeRow() {
    const row = element("div", "row");
    row.setAttribute("role", "row");
    const classes = ["number", "number", "number", "token"];
    this.choice.sides.forEach((_, place) => classes.push(place ? "state split" : "state", "gives"));
    classes.push("sent");
    for (const className of classes) {
      const cell = element("span", className);
      cell.setAttribute("role", "gridcell");
      row.append(cell);
    }
    this.body.append(row);
    return row;
  }

  fill(row, token) {
    const { choice } = this;
    const chunk = choice.chunk(token);
    const begins = choice.chunkStarts[chunk] === token;
    row.token = token;
    row.id = `token-${token}`;
    row.style.transform = `translateY(${token * ROW}px)`;
    row.setAttribute("aria-rowindex", String(token + 2));
    row.setAttribute("aria-selected", token === this.chosen ? "true" : "false");
    const differs = choice.difference !== null && choice.difference[0] === token;
    row.className = ["row", begins && "cut", chunk % 2 && "odd", differs && "differs",
      this.search.marked.has(token) && "found", token >= choice.sides[0].ignoredFrom && "ignored",
      choice.discardedFor(token) && "discarded", token === this.chosen && "chosen"].filter(Boolean).join(" ");
    const cells = row.children;
    cells[0].textContent = differs ? `\u2260 ${token + 1}` : token + 1;  // people count from 1
    cells[1].textContent = begins ? choice.chunkTimes[chunk].toFixed(2) : "";
    cells[2].textContent = choice.ids[token] < 0 ? "end" : choice.ids[token];
    const family = familyOf(choice.sides[0].state(token));
    const box = element("span", `box ${family}`);
    cells[3].replaceChildren(put(box, choice.text(token).slice(0, ROW_TEXT), { dots: true }));
    choice.sides.forEach((side, place) => this.fillSide(side, token, cells[4 + place * 2], cells[5 + place * 2]));
    this.fillSent(cells[cells.length - 1], token);
  }

  fillSide(side, token, state, gives) {
    const reason = this.choice.discardedFor(token);
    const name = reason ? "discarded" : token >= side.ignoredFrom ? "after the end" : side.state(token);
    state.textContent = name;
    state.classList.remove(...Object.keys(FAMILY_NAMES));
    state.classList.add(familyOf(name));
    gives.replaceChildren(...(reason ? [element("span", "alarm", `${reason} `)] : []));
    for (const [kind, call, text] of side.parts("deltas", token)) putDelta(gives, kind, call, text);
    if (side.stop(token) === STOP_MATCHED) gives.append(element("span", "alarm", "stop string "));
    for (const [why, length, text] of side.parts("held", token)) {
      // The text first: a narrow column cuts the end.
      const held = element("span", "holds");
      put(held, `${length > HELD_TEXT ? "\u2026" : ""}${text.slice(-HELD_TEXT)}`);
      held.append(element("span", "kind", ` holds ${integer(length)}, ${DATA.why[why]}`));
      gives.append(held, "  ");
    }
  }

  fillSent(cell, token) {
    const groups = this.choice.sentByToken.get(token);
    if (!groups) { cell.textContent = ""; return; }
    const size = groups.flatMap((group) => group[2]).reduce((sum, [, , text]) => sum + lengthOf(STRINGS[text]), 0);
    const last = groups[groups.length - 1];
    const more = groups.length > 1 ? ` \u00d7${groups.length}` : "";
    cell.textContent = `${last[1].toFixed(2)} ms${more}, ${integer(size)} ch`;
  }

  choose(token) {
    const before = this.chosen;
    this.chosen = token;
    const { grid } = this;
    const top = token * ROW;
    const head = this.head.offsetHeight;
    if (top < grid.scrollTop) grid.scrollTop = top;
    else if (top + ROW > grid.scrollTop + grid.clientHeight - head) {
      grid.scrollTop = top + ROW + head - grid.clientHeight;
    }
    this.place();
    this.markChosen(before, false);
    this.markChosen(token, true);
  }

  markChosen(token, is) {
    const row = document.getElementById(`token-${token}`);
    if (!row || row.classList.contains("chosen") === is) return;
    row.classList.toggle("chosen", is);
    row.setAttribute("aria-selected", String(is));
  }

  // Like `choose`, but centres the token if it was not visible.
  goTo(token) {
    const top = token * ROW;
    const { grid } = this;
    if (top < grid.scrollTop || top + ROW > grid.scrollTop + grid.clientHeight - this.head.offsetHeight) {
      grid.scrollTop = Math.max(0, top - grid.clientHeight / 2 + ROW);
    }
    this.choose(token);
  }

  get page() {
    return Math.max(1, Math.floor((this.grid.clientHeight - this.head.offsetHeight) / ROW) - 1);
  }
}

const FAMILY_BY_KIND = ["reasoning", "text", "call", "call", "finish", "alarm", "alarm"];

function putDelta(parent, kind, call, text) {
  const part = element("span");
  part.append(element("span", `kind ${FAMILY_BY_KIND[kind]}`, kind === CALL ? `call ${call}` : KINDS[kind]), " ");
  put(part, text.slice(0, ROW_TEXT), { dots: true });
  parent.append(part, "  ");
}
