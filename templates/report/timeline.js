"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const [FOLDER, NAME, BEGAN, TOOK, LANE, PEAK, KIND, STAGE, FAILED] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  const COLOURS = ["--cxx", "--cuda", "--linked", "--other"];
  const MIB_A_GIB = 1024, SHORTEST = 40, STALE = 5000, GUTTER = 64, AXIS = 22, GAP = 26, CHART = 56;
  const box = document.getElementById("timeline"), canvas = document.getElementById("canvas");
  const tip = document.getElementById("tip"), pen = canvas.getContext("2d");
  const edges = data.edges, samples = data.samples;
  const ended = (edge) => edge[BEGAN] + edge[TOOK];
  const height = data.lanes <= 8 ? 24 : data.lanes <= 16 ? 18 : data.lanes <= 32 ? 11 : Math.max(3, Math.floor(420 / data.lanes));
  const bottom = AXIS + data.lanes * height;
  const remembers = samples.some((sample) => sample[3] >= 0);
  const tall = bottom + (remembers ? 2 : 1) * (GAP + CHART) + 6;

  // each lane in order of time: what is in view is found by halving
  const lanes = Array.from({ length: data.lanes }, () => []);
  edges.forEach((edge, place) => lanes[edge[LANE]].push(place));
  const first = Math.min(...data.stages.map((stage) => stage[1]));
  const last = Math.max(...data.stages.map((stage) => stage[2]), first + SHORTEST);
  const margin = (last - first) * 0.005;
  const all = { from: first - margin, to: last + margin };
  let view = { ...all }, wide = 0, scheduled = false, chosen = -1, pointed = -1, draws = 0, colours = {};

  // running jobs: where their number changes, and its integral, so that a pixel shows a mean
  const turns = edges.flatMap((edge) => [[edge[BEGAN], 1], [ended(edge), -1]]).sort((a, b) => a[0] - b[0]);
  const times = [], counts = [], sums = [];
  turns.reduce(([jobs, sum, before], [at, change]) => {
    sum += jobs * (at - before);
    times.push(at); counts.push(jobs + change); sums.push(sum);
    return [jobs + change, sum, at];
  }, [0, 0, turns[0][0]]);
  const after = (list, value, of) => {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (of(list[middle]) > value) high = middle; else low = middle + 1;
    }
    return low;
  };
  const same = (value) => value;
  const integral = (at) => {
    const place = after(times, at, same) - 1;
    return place < 0 ? 0 : sums[place] + counts[place] * (at - times[place]);
  };
  const sampleAt = (at) => samples[after(samples, at, (sample) => sample[0]) - 1];
  const most = samples.reduce((found, sample) => Math.max(found, sample[1] + Math.max(sample[2], 0)), data.lanes);
  const limit = samples.reduce((found, sample) => Math.max(found, sample[3], sample[4]), 1);

  const seconds = (milli) => {
    const value = milli / 1000, whole = Math.round(value);
    if (value < 10) return `${value.toFixed(1)} s`;
    if (whole < 60) return `${whole} s`;
    const two = (number) => String(number).padStart(2, "0");
    return whole < 3600 ? `${Math.floor(whole / 60)} min ${two(whole % 60)} s` : `${Math.floor(whole / 3600)} h ${two(Math.floor(whole % 3600 / 60))} min`;
  };
  const clock = (milli, step) => {
    if (step < 1000) return `${(milli / 1000).toFixed(step < 100 ? 2 : 1)} s`;
    const whole = Math.round(milli / 1000), two = (number) => String(number).padStart(2, "0");
    if (last < 60000) return `${whole} s`;
    return whole < 3600 ? `${Math.floor(whole / 60)}:${two(whole % 60)}` : `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  };
  const memory = (mib) => mib < MIB_A_GIB ? `${mib} MiB` : `${(mib / MIB_A_GIB).toFixed(mib < 10 * MIB_A_GIB ? 1 : 0)} GiB`;

  const x = (at) => GUTTER + (at - view.from) / (view.to - view.from) * (wide - GUTTER);
  const atX = (place) => view.from + (place - GUTTER) / (wide - GUTTER) * (view.to - view.from);

  function redraw() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => { scheduled = false; draw(); });
  }

  function prepare() {
    const style = getComputedStyle(document.documentElement);
    colours = Object.fromEntries(["ink", "quiet", "line", "paper", "sheet", "cxx", "cuda", "linked", "other", "failed", "jobs", "held", "memory", "on-dark", "on-light"].map((name) => [`--${name}`, style.getPropertyValue(`--${name}`).trim()]));
    wide = Math.max(200, box.clientWidth || wide);
    const scale = window.devicePixelRatio || 1;
    canvas.style.height = `${tall}px`;
    canvas.width = Math.round(wide * scale);
    canvas.height = Math.round(tall * scale);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
  }

  function draw() {
    pen.clearRect(0, 0, wide, tall);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    drawAxis();
    pen.save();
    pen.beginPath();
    pen.rect(GUTTER, 0, wide - GUTTER, tall);
    pen.clip();
    const drawn = drawEdges();
    drawJobs(bottom + GAP);
    if (remembers) drawMemory(bottom + 2 * GAP + CHART);
    pen.restore();
    drawLabels();
    canvas.dataset.drawn = drawn;
    canvas.dataset.draws = ++draws;
  }

  function drawAxis() {
    const span = view.to - view.from, room = Math.max(2, (wide - GUTTER) / 70);
    const steps = [10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 12e5, 18e5, 36e5, 72e5, 144e5];
    const step = steps.find((one) => span / one <= room) || 288e5;
    pen.textAlign = "left";
    for (let at = Math.max(0, Math.ceil(view.from / step)) * step; at <= view.to; at += step) {
      const place = Math.round(x(at)) + 0.5;
      if (place < GUTTER) continue;
      pen.fillStyle = colours["--line"];
      pen.fillRect(place - 0.5, AXIS - 6, 1, tall);
      const text = clock(at, step);
      pen.fillStyle = colours["--quiet"];
      if (place + 4 + pen.measureText(text).width < wide) pen.fillText(text, place + 4, 8);
    }
  }

  function drawEdges() {
    const scale = (wide - GUTTER) / (view.to - view.from), rows = [[], [], [], []], failed = [], named = [];
    const thick = height > 5 ? height - 2 : height - 0.5;
    let drawn = 0;
    lanes.forEach((lane, row) => {
      const top = AXIS + row * height, open = [null, null, null, null];
      for (let place = after(lane, view.from, (one) => ended(edges[one])); place < lane.length; place++) {
        const edge = edges[lane[place]];
        if (edge[BEGAN] > view.to) break;
        const left = GUTTER + (edge[BEGAN] - view.from) * scale, width = edge[TOOK] * scale, kind = edge[KIND];
        drawn++;
        if (edge[FAILED]) { failed.push([left, top, Math.max(width, 4), thick]); continue; }
        const before = open[kind];  // what is thinner than a pixel joins its neighbour
        if (width < 1.5 && before && left - before[0] - before[2] < 0.75) { before[2] = Math.max(before[2], left + width - before[0]); continue; }
        open[kind] = [left, top, Math.max(width > 4 ? width - 1 : width, 0.6), thick];
        rows[kind].push(open[kind]);
        if (width > 46 && height >= 11) named.push([edge, left, top, width]);
      }
    });
    rows.forEach((list, kind) => fill(list, colours[COLOURS[kind]]));
    fill(failed, colours["--failed"]);
    failed.forEach(cross);
    failed.forEach(mark);
    named.forEach(label);
    [chosen, pointed].filter((place) => place >= 0).forEach(outline);
    return drawn;
  }

  function fill(list, colour) {
    pen.fillStyle = colour;
    for (const [left, top, width, thick] of list) pen.fillRect(left, top, width, thick);
  }

  function cross([left, top, width, thick]) {
    const size = Math.min(5, thick / 2 - 2), middle = [Math.max(left + width / 2, GUTTER + 6), top + thick / 2];
    if (width < 12 || size < 2) return;
    pen.strokeStyle = colours["--on-dark"];
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(middle[0] - size, middle[1] - size); pen.lineTo(middle[0] + size, middle[1] + size);
    pen.moveTo(middle[0] - size, middle[1] + size); pen.lineTo(middle[0] + size, middle[1] - size);
    pen.stroke();
  }

  function mark([left, , width]) {  // seen from far out, where the block itself is a hair
    const middle = left + width / 2;
    pen.fillStyle = colours["--failed"];
    pen.beginPath();
    pen.moveTo(middle - 5, AXIS - 9); pen.lineTo(middle + 5, AXIS - 9); pen.lineTo(middle, AXIS - 1);
    pen.fill();
  }

  function label([edge, left, top, width]) {
    const start = Math.max(left, GUTTER) + 4, room = Math.min(left + width, wide) - start - 4, fits = Math.floor(room / 6.4);
    if (fits < 4) return;
    const text = edge[NAME].replace(/\.(o|obj)$/, "");
    pen.fillStyle = colours[edge[KIND] === 1 || edge[KIND] === 3 ? "--on-light" : "--on-dark"];
    pen.fillText(text.length > fits ? `${text.slice(0, fits - 1)}…` : text, start, top + height / 2 - 0.5);
  }

  function outline(place) {
    const edge = edges[place], left = x(edge[BEGAN]);
    pen.strokeStyle = colours["--ink"];
    pen.lineWidth = 2;
    pen.strokeRect(left - 1, AXIS + edge[LANE] * height - 1, Math.max(x(ended(edge)) - left, 3) + 1, Math.max(height - 1, 4));
  }

  function drawJobs(top) {
    const scale = CHART / most, jobs = [], held = [];
    for (let place = GUTTER; place < wide; place++) {
      const from = atX(place), to = atX(place + 1), sample = sampleAt(from);
      const mean = (integral(to) - integral(from)) / (to - from);
      const withheld = sample && from - sample[0] < STALE ? Math.max(sample[2], 0) : 0;
      const upper = Math.min(mean + withheld, most);
      if (mean > 0) jobs.push([place, top + CHART - scale * mean, 1, scale * mean]);
      if (upper > mean) held.push([place, top + CHART - scale * upper, 1, scale * (upper - mean)]);
    }
    fill(jobs, colours["--jobs"]);
    fill(held, colours["--held"]);
  }

  function drawMemory(top) {
    const y = (mib) => top + CHART - CHART * mib / limit;
    const known = samples.filter((sample) => sample[3] >= 0);
    pen.beginPath();
    known.forEach((sample, place) => {
      if (!place) pen.moveTo(x(sample[0]), top + CHART);
      pen.lineTo(x(sample[0]), y(sample[3]));
    });
    pen.lineTo(x(known[known.length - 1][0]), top + CHART);
    pen.fillStyle = colours["--memory"];
    pen.fill();
    const bound = known[known.length - 1][4];
    if (bound < 0) return;
    pen.strokeStyle = colours["--quiet"];
    pen.lineWidth = 1;
    pen.setLineDash([4, 3]);
    pen.beginPath();
    pen.moveTo(GUTTER, y(bound) + 0.5); pen.lineTo(wide, y(bound) + 0.5);
    pen.stroke();
    pen.setLineDash([]);
  }

  function drawLabels() {
    pen.fillStyle = colours["--quiet"];
    pen.textAlign = "right";
    const every = height >= 11 ? 1 : Math.ceil(14 / height);
    for (let lane = 0; lane < data.lanes; lane += every) pen.fillText(lane ? lane + 1 : "slot 1", GUTTER - 8, AXIS + lane * height + Math.max(height / 2 - 0.5, 5));
    chart(bottom + GAP, "jobs", most);
    if (remembers) chart(bottom + 2 * GAP + CHART, "memory", memory(limit));
    pen.textAlign = "left";
  }

  function chart(top, title, upmost) {
    pen.fillText(title, GUTTER - 8, top + CHART / 2);
    pen.fillText(upmost, GUTTER - 8, top + 5);
    pen.fillText("0", GUTTER - 8, top + CHART - 4);
    pen.fillRect(GUTTER, top + CHART, wide - GUTTER, 0.5);
  }

  function show(from, to) {
    const span = Math.min(Math.max(to - from, SHORTEST), all.to - all.from);
    const start = Math.min(Math.max(from, all.from), all.to - span);
    view = { from: start, to: start + span };
    redraw();
  }
  const zoom = (factor, at) => show(at - (at - view.from) * factor, at + (view.to - at) * factor);
  const move = (share) => show(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));
  const middle = () => (view.from + view.to) / 2;

  function edgeAt(left, top) {
    const row = Math.floor((top - AXIS) / height), at = atX(left), near = 3 * (view.to - view.from) / wide;
    if (row < 0 || row >= data.lanes || left < GUTTER) return -1;
    const lane = lanes[row], place = after(lane, at - near, (one) => ended(edges[one]));
    const close = [lane[place], lane[place + 1]].filter((one) => one !== undefined && edges[one][BEGAN] <= at + near);
    return close.find((one) => edges[one][BEGAN] <= at && ended(edges[one]) >= at) ?? close[0] ?? -1;
  }

  function tell(left, top, lines) {
    tip.replaceChildren(lines[0], ...lines.slice(1).filter(Boolean).map((text) => Object.assign(document.createElement("span"), { textContent: text })));
    tip.hidden = false;
    const room = box.clientWidth - tip.offsetWidth - 4;
    tip.style.left = `${Math.max(0, Math.min(left + 12, room))}px`;
    tip.style.top = `${canvas.offsetTop + top + 18}px`;
  }

  function told(place) {
    const edge = edges[place];
    const facts = [seconds(edge[TOOK]), edge[PEAK] >= 0 ? memory(edge[PEAK]) : "", data.kinds[edge[KIND]], edge[FAILED] ? "failed" : ""];
    return [edge[NAME], data.folders[edge[FOLDER]], facts.filter(Boolean).join(", "), `${data.stages[edge[STAGE]][0]}, began at ${seconds(edge[BEGAN])}`];
  }

  function toldAt(at) {
    const sample = sampleAt(at), jobs = counts[after(times, at, same) - 1] ?? 0;
    const withheld = sample && sample[2] > 0 ? `${sample[2]} withheld` : "";
    const used = sample && sample[3] >= 0 ? memory(sample[3]) + (sample[4] >= 0 ? ` of ${memory(sample[4])}` : "") : "";
    return [`${jobs} jobs running at ${seconds(at)}`, withheld, used];
  }

  function point(event) {
    const bounds = canvas.getBoundingClientRect(), left = event.clientX - bounds.left, top = event.clientY - bounds.top;
    const found = edgeAt(left, top);
    if (found !== pointed) { pointed = found; redraw(); }
    if (found >= 0) tell(left, top, told(found));
    else if (top > bottom && left > GUTTER) tell(left, Math.min(top, tall - 90), toldAt(atX(left)));
    else tip.hidden = true;
  }

  const pressed = new Map();
  let moved = 0;
  canvas.addEventListener("pointerdown", (event) => {
    pressed.set(event.pointerId, event);
    canvas.setPointerCapture(event.pointerId);
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pressed.get(event.pointerId);
    if (!before) { point(event); return; }
    const others = [...pressed.values()].filter((one) => one.pointerId !== event.pointerId);
    pressed.set(event.pointerId, event);
    moved += Math.abs(event.clientX - before.clientX);
    if (moved > 3) tip.hidden = true;
    if (others.length) {
      const apart = (one) => Math.max(20, Math.abs(one.clientX - others[0].clientX));
      const centre = (event.clientX + others[0].clientX) / 2 - canvas.getBoundingClientRect().left;
      zoom(apart(before) / apart(event), atX(centre));
    } else if (moved > 3) move((before.clientX - event.clientX) / (wide - GUTTER));
  });
  const release = (event) => {
    if (event.type === "pointerup" && pressed.size === 1 && moved <= 3) point(event);
    pressed.delete(event.pointerId);
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "mouse") { pointed = -1; tip.hidden = true; redraw(); }
  });
  canvas.addEventListener("wheel", (event) => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    const wanted = event.ctrlKey || event.metaKey || document.activeElement === canvas;
    if (!wanted && !sideways) return;  // the page scrolls
    event.preventDefault();
    const turned = (event.deltaMode ? 16 : 1) * (sideways ? event.deltaX || event.deltaY : event.deltaY);
    if (sideways) move(turned / (wide - GUTTER));
    else zoom(Math.exp(turned * (event.ctrlKey ? 0.006 : 0.002)), atX(event.clientX - canvas.getBoundingClientRect().left));
  }, { passive: false });
  const keys = {
    "+": () => zoom(1 / 1.5, middle()), "=": () => zoom(1 / 1.5, middle()), "-": () => zoom(1.5, middle()),
    "0": () => show(all.from, all.to), Home: () => show(all.from, all.to),
    ArrowLeft: () => move(-0.15), ArrowRight: () => move(0.15),
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { chosen = -1; tip.hidden = true; redraw(); }
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    tip.hidden = true;
    keys[event.key]();
  });
  document.getElementById("in").onclick = keys["+"];
  document.getElementById("out").onclick = keys["-"];
  document.getElementById("whole").onclick = keys["0"];

  if (data.stages.length > 1) {
    for (const [stage, from, to] of data.stages) {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: stage });
      button.onclick = () => show(from - (to - from) * 0.02, to + (to - from) * 0.02);
      document.getElementById("parts").append(button);
    }
  }
  function legend(title, colour) {
    const item = document.createElement("li"), patch = document.createElement("i");
    patch.style.background = `var(${colour})`;
    item.append(patch, title);
    document.getElementById("legend").append(item);
  }
  data.kinds.forEach((title, kind) => { if (edges.some((edge) => edge[KIND] === kind)) legend(title, COLOURS[kind]); });
  if (edges.some((edge) => edge[FAILED])) legend("failed", "--failed");
  if (samples.some((sample) => sample[2] > 0)) legend("jobs withheld", "--held");
  if (remembers) legend("memory in use, and its limit", "--memory");

  const places = new Map(edges.map((edge, place) => [`${data.stages[edge[STAGE]][0]}\n${data.folders[edge[FOLDER]]}${edge[NAME]}`, place]));
  for (const cell of document.querySelectorAll(".path[data-stage]")) {
    const text = cell.firstChild, place = places.get(`${cell.dataset.stage}\n${text.textContent.trimEnd()}`);
    if (place === undefined) continue;
    const button = Object.assign(document.createElement("button"), { type: "button", className: "link", textContent: text.textContent.trimEnd() });
    button.onclick = () => {
      const edge = edges[place], around = Math.max(edge[TOOK] * 2, 1000);
      chosen = place;
      show(edge[BEGAN] - around, ended(edge) + around);
      canvas.scrollIntoView({ block: "center" });
      canvas.focus({ preventScroll: true });
      requestAnimationFrame(() => tell(x(edge[BEGAN]), AXIS + edge[LANE] * height, told(place)));
    };
    text.replaceWith(button);
  }

  box.hidden = false;
  prepare();
  draw();
  new ResizeObserver(() => { if (box.clientWidth && box.clientWidth !== wide) { prepare(); draw(); } }).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { prepare(); draw(); });
  let screen = null;
  addEventListener("beforeprint", () => {
    screen = view;
    view = { ...all };
    document.documentElement.dataset.print = "";
    document.querySelectorAll("details").forEach((one) => { one.open = true; });
    prepare(); draw();
  });
  addEventListener("afterprint", () => {
    view = screen || view;
    delete document.documentElement.dataset.print;
    prepare(); draw();
  });
})();
