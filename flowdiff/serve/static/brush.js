// Choose two periods on the strips of response times: pull once for the time before, once for the time after.
// Without this module the form of Compare does the same.
const DIGITS = 16; // of 2026-11-19T09:05

function instant(ms) {
  return `${new Date(ms).toISOString().slice(0, DIGITS)}Z`;
}

class Brush {
  constructor(root) {
    this.root = root;
    this.start = Number(root.dataset.start);
    this.end = Number(root.dataset.end);
    this.step = Number(root.dataset.step);
    this.bar = root.querySelector(".brush-bar");
    this.picked = []; // at most two periods [from, to], ms
    this.pulled = null; // where a pull began, ms
    const strip = this.strip();
    if (!strip) return;
    root.classList.add("brushable");
    root.addEventListener("pointerdown", (event) => this.begin(event));
    root.addEventListener("pointermove", (event) => this.move(event));
    root.addEventListener("pointerup", (event) => this.finish(event));
    root.addEventListener("pointercancel", () => { this.pulled = null; this.draw(); });
    root.addEventListener("keydown", (event) => { if (event.key === "Escape") { this.picked = []; this.draw(); } });
    new ResizeObserver(() => this.draw()).observe(root);
  }

  strip() {
    return this.root.querySelector("svg.heat");
  }

  at(event) {
    const box = this.strip().getBoundingClientRect();
    const share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    return this.start + share * (this.end - this.start);
  }

  inside(event) {
    const box = this.strip().getBoundingClientRect();
    return event.clientX >= box.left && event.clientX <= box.right && !event.target.closest("a, button");
  }

  whole(one, other) {
    const low = this.start + Math.floor((Math.min(one, other) - this.start) / this.step) * this.step;
    const high = this.start + Math.ceil((Math.max(one, other) - this.start) / this.step) * this.step;
    return [low, Math.min(Math.max(high, low + this.step), this.end)];
  }

  begin(event) {
    if (event.button !== 0 || !this.inside(event)) return;
    event.preventDefault();
    this.root.setPointerCapture(event.pointerId);
    if (this.picked.length === 2) this.picked = [];
    this.pulled = this.at(event);
    this.current = this.whole(this.pulled, this.pulled);
    this.draw();
  }

  move(event) {
    if (this.pulled === null) return;
    this.current = this.whole(this.pulled, this.at(event));
    this.draw();
  }

  finish(event) {
    if (this.pulled === null) return;
    const next = this.whole(this.pulled, this.at(event));
    this.pulled = null;
    const [before] = this.picked;
    if (before && next[0] < before[1] && before[0] < next[1]) this.picked = [next];
    else this.picked = [...this.picked, next].sort((one, other) => one[0] - other[0]);
    this.draw();
  }

  draw() {
    this.root.querySelectorAll(".picked").forEach((one) => one.remove());
    const shown = this.pulled === null ? this.picked : [...this.picked, this.current];
    const box = this.strip().getBoundingClientRect();
    const left = box.left - this.root.getBoundingClientRect().left;
    shown.forEach(([from, to], number) => {
      const mark = document.createElement("div");
      mark.className = number ? "picked after" : "picked";
      // Through the CSSOM: the policy allows no style attribute in a document, and this is none.
      mark.style.left = `${left + (box.width * (from - this.start)) / (this.end - this.start)}px`;
      mark.style.width = `${(box.width * (to - from)) / (this.end - this.start)}px`;
      this.root.append(mark);
    });
    this.tell();
  }

  tell() {
    const texts = this.picked.map(([from, to]) => `${instant(from)}/${instant(to)}`);
    this.bar.replaceChildren();
    if (texts.length === 0) return;
    if (texts.length === 1) {
      this.bar.append(`${texts[0]}: pull again for the other period. Escape forgets it.`);
      return;
    }
    const link = document.createElement("a");
    const asked = new URLSearchParams({ reference: texts[0], problem: texts[1] });
    link.href = `${this.root.dataset.compare}?${asked}`;
    link.textContent = `Compare ${texts[0]} with ${texts[1]}`;
    this.bar.append(link);
  }
}

document.querySelectorAll("[data-brush]").forEach((root) => new Brush(root));
