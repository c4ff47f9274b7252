"use strict";
// Describe any range of response times from the sums by bin in the report's JSON; sort tables by a column.
// Without this script the page describes only the ranges that it lists. Names are taken from the page's own
// cells, never made from text.
(() => {
  const report = JSON.parse(document.getElementById("flowdiff-report").textContent);
  const NBSP = "\u00a0";

  // Round as Python does: exactly half goes to the even digit.
  const isHalf = (rest) => /^50*$/.test(rest);
  const rounded = (value, digits) => {
    const [whole, power] = Math.abs(value).toExponential(60).split("e");
    const all = whole.replace(".", "");
    if (!isHalf(all.slice(digits)) || Number(all[digits - 1]) % 2) return Number(value.toPrecision(digits));
    return Math.sign(value) * Number(`${all.slice(0, digits)}e${Number(power) - digits + 1}`);
  };
  const fixed = (value, decimals) => {
    const text = value.toFixed(60), end = text.indexOf(".") + 1 + decimals;
    const kept = decimals ? text.slice(0, end) : text.slice(0, end - 1);
    return isHalf(text.slice(end)) && Number(kept.at(-1)) % 2 === 0 ? kept : value.toFixed(decimals);
  };
  const significant = (value, digits = 3) => {
    if (value === 0) return "0";
    const cut = rounded(value, digits);
    return Math.abs(cut) >= 10 ** digits ? fixed(value, 0) : String(cut);
  };
  const duration = (us) => {
    for (const [size, unit] of [[1e6, "s"], [1e3, "ms"], [1, "µs"], [1e-3, "ns"]])
      if (Math.abs(us) >= size * 0.9995) return significant(us / size) + NBSP + unit;
    return "0" + NBSP + "µs";
  };
  const change = (us) => (Math.abs(us) < 0.9995e-3 ? "±" : us > 0 ? "+" : "−") + duration(Math.abs(us));
  const percent = (share) => {
    if (share === 0) return "0" + NBSP + "%";
    const value = share * 100;
    return (value >= 9.95 ? fixed(value, 0) : value < 0.05 ? significant(value, 1) : fixed(value, 1)) + NBSP + "%";
  };
  const count = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
  const lift = (inside, outside) => (outside > 0 ? "×" + significant(inside / outside) : "only here");
  const c2 = (value) => (value === null ? "–" : significant(value, 2));
  const over = (part, whole) => (whole > 0 ? part / whole : 0);

  const sum = (values, first, past) => values.slice(first, past).reduce((a, b) => a + b, 0);
  // Sums of a row with its own list of bins: in the range, and in all bins.
  const split = (row, values, first, past) => {
    let inside = 0, all = 0;
    row.bins.forEach((bin, i) => {
      all += values[i];
      if (bin >= first && bin < past) inside += values[i];
    });
    return [inside, all - inside];
  };
  const filterDuration = (us) => {
    const ns = Math.round(us * 1000);
    for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]])
      if (ns && ns % size === 0) return ns / size + unit;
    return ns + "ns";
  };

  const cell = (value, text, far, strong) => {
    const made = document.createElement("td");
    made.className = far ? "n far" : "n";
    made.dataset.v = value;
    const into = strong ? made.appendChild(document.createElement("b")) : made;
    into.textContent = text;
    return made;
  };
  const named = (table, place, cells) => {
    const row = document.createElement("tr");
    row.append(table.tBodies[0].rows[place].cells[0].cloneNode(true), ...cells);
    return row;
  };
  // Rows with the headings of a table, which narrow screens show beside each number.
  const fill = (table, rows) => {
    const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent);
    rows.forEach((row) => [...row.cells].forEach((one, i) => { one.dataset.of = heads[i]; }));
    table.tBodies[0].replaceChildren(...rows);
  };

  const MOST = 8;
  const chooser = (section, end) => {
    const root = document.getElementById("times" + end);
    const panel = root && root.querySelector(".chooser");
    if (!panel) return;
    const from = panel.querySelector("input.from"), to = panel.querySelector("input.to");
    const names = {
      roots: document.getElementById("all-roots" + end),
      categories: document.getElementById("all-categories" + end),
      sites: document.getElementById("all-sites" + end),
    };
    for (const table of panel.querySelectorAll("table")) {
      const kind = table.className.slice("of-".length);
      const like = section.ranges.map((_, i) => document.getElementById(`range${i + 1}-${kind}${end}`)).find(Boolean);
      if (like) table.tHead.replaceWith(like.tHead.cloneNode(true));
    }
    const edges = section.edges_us, bins = section.n.length;
    const weight = sum(section.weight, 0, bins), time = sum(section.us, 0, bins);
    const figure = root.querySelector(".density-of"), svg = figure.querySelector("svg");
    const low = Math.max(edges[0], 1e-3), high = Math.max(edges[bins], 2e-3);
    const xOf = (us) => Math.min(Math.max(Math.log(Math.max(us, low) / low) / Math.log(high / low), 0), 1);
    const band = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    band.setAttribute("class", "selected");
    band.setAttribute("y", "26");
    band.setAttribute("height", String(svg.height.baseVal.value - 48));
    svg.append(band);

    const kindRows = (kind, first, past) => {
      const inside = sum(section.weight, first, past), outside = weight - inside;
      return section[kind].map((row, place) => {
        const [n] = split(row, row.n, first, past), [w, rest] = split(row, row.weight, first, past);
        const [failed] = split(row, row.failed, first, past);
        return { row, place, n, here: over(w, inside), there: over(rest, outside), failed: over(failed, w) };
      }).filter((one) => one.n > 0).sort((a, b) => b.n - a.n).slice(0, MOST).map((one) =>
        named(names[kind], one.place, [
          cell(one.n, count(one.n)), cell(one.here, percent(one.here), true), cell(one.there, percent(one.there), true),
          cell(one.there > 0 ? one.here / one.there : Infinity, lift(one.here, one.there)),
          cell(one.failed, percent(one.failed), true), cell(one.row.mean_us, duration(one.row.mean_us)),
          cell(one.row.c2 ?? -1, c2(one.row.c2), true),
        ]));
    };
    const siteRows = (first, past) => {
      const inside = sum(section.weight, first, past), outside = weight - inside;
      return section.sites.map((row, place) => {
        const [us, usRest] = split(row, row.us, first, past), [w, rest] = split(row, row.weight, first, past);
        const [failed] = split(row, row.failed, first, past);
        return {
          row, place, here: over(us, inside), there: over(usRest, outside),
          waits: over(w, inside), others: over(rest, outside), failed: over(failed, inside),
        };
      }).filter((one) => one.here !== one.there)
        .sort((a, b) => Math.abs(b.here - b.there) - Math.abs(a.here - a.there)).slice(0, MOST).map((one) =>
        named(names.sites, one.place, [
          cell(one.here, duration(one.here)), cell(one.there, duration(one.there), true),
          cell(one.here - one.there, change(one.here - one.there), false, true),
          cell(one.waits, percent(one.waits), true), cell(one.others, percent(one.others), true),
          cell(one.others > 0 ? one.waits / one.others : Infinity, lift(one.waits, one.others), true),
          cell(one.failed, percent(one.failed), true), cell(one.row.c2 ?? -1, c2(one.row.c2), true),
        ]));
    };

    const show = () => {
      const first = Number(from.value), past = Number(to.value);
      panel.querySelector("output.from").textContent = duration(edges[first]);
      panel.querySelector("output.to").textContent = duration(edges[past]);
      const n = sum(section.n, first, past), w = sum(section.weight, first, past);
      const us = sum(section.us, first, past), failed = sum(section.failed, first, past);
      panel.querySelector(".chosen").textContent = n === 0 ? "No request." :
        `${percent(w / weight)} of the requests (${count(n)}), ${duration(us / w)} on average` +
        (weight - w > 0 ? ` (elsewhere ${duration((time - us) / (weight - w))})` : "") +
        (failed > 0 ? `; ${percent(failed / w)} failed` : "");
      panel.querySelector(".filter code").textContent = [
        first > 0 ? `duration >= ${filterDuration(edges[first])}` : "",
        past < bins ? `duration < ${filterDuration(edges[past])}` : "",
      ].filter(Boolean).join(" and ") || "none: all requests";
      for (const kind of ["roots", "categories"]) {
        const table = panel.querySelector(`.of-${kind}`);
        if (table) fill(table, n ? kindRows(kind, first, past) : []);
      }
      const sites = panel.querySelector(".of-sites");
      if (sites.tHead.rows.length) fill(sites, n ? siteRows(first, past) : []);
      panel.querySelectorAll("th").forEach((head) => head.removeAttribute("aria-sort"));
      const left = xOf(edges[first]), right = xOf(edges[past]);
      band.setAttribute("x", 100 * left + "%");
      band.setAttribute("width", 100 * Math.max(right - left, 0) + "%");
    };
    const choose = (first, past) => {
      from.value = String(first);
      to.value = String(Math.max(past, first + 1));
      show();
    };
    from.addEventListener("input", () => choose(Number(from.value), Math.max(Number(to.value), Number(from.value) + 1)));
    to.addEventListener("input", () => choose(Math.min(Number(from.value), Number(to.value) - 1), Number(to.value)));
    panel.querySelectorAll(".presets button").forEach((button) =>
      button.addEventListener("click", () => choose(Number(button.dataset.first), Number(button.dataset.past))));

    // The bin under the pointer.
    const binAt = (event) => {
      const box = svg.getBoundingClientRect();
      const part = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
      const us = low * Math.exp(part * Math.log(high / low));
      const bin = edges.findIndex((edge, i) => i > 0 && us < edge) - 1;
      return bin < 0 ? bins - 1 : bin;
    };
    let begun = null;
    figure.classList.add("choosing");
    figure.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.target.closest("a")) return;
      begun = binAt(event);
      figure.setPointerCapture(event.pointerId);
    });
    figure.addEventListener("pointermove", (event) => {
      if (begun === null) return;
      const at = binAt(event);
      choose(Math.min(begun, at), Math.max(begun, at) + 1);
    });
    const ended = () => { begun = null; };
    figure.addEventListener("pointerup", ended);
    figure.addEventListener("pointercancel", ended);

    panel.hidden = false;
    root.querySelectorAll(".part > details[open]").forEach((one) => one.removeAttribute("open"));
    const tail = section.ranges[section.ranges.length - 1];
    choose(tail ? tail.first : 0, tail ? tail.past : bins);
  };

  // Value of a cell: its data attribute, or the number at its beginning, by its unit.
  const UNITS = { s: 1e6, ms: 1e3, "µs": 1, ns: 1e-3 };
  const valueOf = (td) => {
    if (td.dataset.v !== undefined) return Number(td.dataset.v);
    const text = td.textContent.replaceAll(",", "").replace("−", "-");
    const found = text.match(/^[+±×]?(-?[\d.]+)\u00a0?(\S*)/);
    if (found) return Number(found[1]) * (UNITS[found[2]] ?? 1);
    return text === "only here" ? Infinity : text === "–" ? -Infinity : text;
  };
  const sortable = (table) => {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        [...table.tHead.rows[0].cells].forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].map((row) => [valueOf(row.cells[column]), row]);
        const less = (a, b) => (typeof a === "string" || typeof b === "string")
          ? String(a).localeCompare(String(b)) : a - b;
        rows.sort((a, b) => (down ? less(b[0], a[0]) : less(a[0], b[0])));
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  };

  const seen = {};
  for (const section of report.sections) {
    seen[section.section] = (seen[section.section] ?? 0) + 1;
    const place = seen[section.section];
    if (section.section === "browse-ranges") chooser(section, place === 1 ? "" : "-" + place);
  }
  // Names of rows are looked up by index in these two tables: their order must not change.
  document.querySelectorAll("main table:not([id^=all-])").forEach((table) => table.tHead.rows.length && sortable(table));
})();
