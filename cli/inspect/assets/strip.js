// The overview strip: all tokens by state, the gaps between chunks, the current position.

const BAND = 13;
const GAPS = 16;
// If several states share a pixel, show the rarest.
const PRIORITY = { text: 1, reasoning: 2, markup: 3, call: 4, raw: 5 };

class Strip {
  constructor(canvas, legend, onToken) {
    this.canvas = canvas;
    this.swatches = {};
    legend.replaceChildren();
    for (const [family, name] of Object.entries(FAMILY_NAMES)) {
      const swatch = element("i", `swatch ${family}`);
      const item = element("span");
      item.append(swatch, name);
      legend.append(item);
      this.swatches[family] = swatch;
    }
    legend.append(element("span", "", "bars: time between chunks"));
    canvas.addEventListener("click", (event) => {
      if (this.choice) onToken(Math.floor((event.offsetX / canvas.clientWidth) * this.choice.count));
    });
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  show(choice, search) {
    this.choice = choice;
    this.search = search;
    const height = GAPS + BAND * choice.sides.length + 4;
    this.canvas.style.height = `${height}px`;
    this.draw();
  }

  mark(token) {
    this.token = token;
    this.draw();
  }

  draw() {
    if (this.waits || !this.choice) return;
    this.waits = true;
    requestAnimationFrame(() => { this.waits = false; this.paint(); });
  }

  paint() {
    const { canvas, choice } = this;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width) return;
    const scale = window.devicePixelRatio || 1;
    // A new size clears the canvas.
    Object.assign(canvas, { width: Math.round(width * scale), height: Math.round(height * scale) });
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const ink = getComputedStyle(canvas).color;
    this.paintGaps(pen, width, getComputedStyle(document.getElementById("found")).color);
    choice.sides.forEach((side, place) => this.paintStates(pen, width, side, GAPS + 2 + place * BAND));
    for (const token of this.search.found.slice(0, 5000)) this.paintLine(pen, width, token, GAPS - 3, 3, ink, 1.5);
    if (choice.difference) {
      this.paintLine(pen, width, choice.difference[0], 0, height, getComputedStyle(this.swatches.raw).backgroundColor, 2);
    }
    this.paintLine(pen, width, this.token || 0, 0, height, ink, 1.5);
  }

  x(token, width) {
    return (token / Math.max(this.choice.count, 1)) * width;
  }

  paintLine(pen, width, token, top, height, colour, thick) {
    pen.fillStyle = colour;
    pen.fillRect(Math.min(this.x(token, width), width - thick), top, thick, height);
  }

  paintGaps(pen, width, colour) {
    const highest = new Float64Array(Math.max(width, 1));
    let most = 0;
    for (let chunk = 1; chunk < this.choice.chunkStarts.length; chunk += 1) {
      const at = Math.min(Math.floor(this.x(this.choice.chunkStarts[chunk], width)), width - 1);
      highest[at] = Math.max(highest[at], this.choice.gapBefore(chunk));
      most = Math.max(most, highest[at]);
    }
    pen.fillStyle = colour;
    const thick = Math.max(1, Math.min(6, (width / Math.max(this.choice.chunkStarts.length, 1)) * 0.5));
    highest.forEach((gap, at) => {
      const height = most > 0 ? (gap / most) * (GAPS - 4) : 0;
      if (height > 0) pen.fillRect(at, GAPS - 1 - height, thick, height);
    });
  }

  paintStates(pen, width, side, top) {
    const names = Object.keys(PRIORITY);
    const pixels = new Uint8Array(Math.max(Math.ceil(width), 1));
    const { starts, values } = side.states;
    starts.forEach((start, place) => {
      const family = familyOf(STRINGS[values[place]]);
      const end = place + 1 < starts.length ? starts[place + 1] : this.choice.count;
      const last = Math.max(Math.ceil(this.x(end, width)), Math.floor(this.x(start, width)) + 1);
      for (let at = Math.floor(this.x(start, width)); at < last; at += 1) {
        pixels[at] = Math.max(pixels[at], PRIORITY[family]);
      }
    });
    for (const [place, family] of names.entries()) {
      pen.fillStyle = getComputedStyle(this.swatches[family]).backgroundColor;
      let begin = -1;
      for (let at = 0; at <= pixels.length; at += 1) {
        const is = pixels[at] === PRIORITY[names[place]];
        if (is && begin < 0) begin = at;
        if (!is && begin >= 0) { pen.fillRect(begin, top, at - begin, BAND - 2); begin = -1; }
      }
    }
  }
}
