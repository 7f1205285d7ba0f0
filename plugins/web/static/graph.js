// The picture of the graph: d3-force finds where memories stand, and this file draws them on a canvas. How each kind of link looks
// is said by the legend's style, so that the picture and its legend are never two things. The list beside it needs no script.
"use strict";

(() => {
  const frame = document.getElementById("picture");
  if (!frame) return;
  const canvas = frame.querySelector("canvas");
  const paint = canvas.getContext("2d");
  const status = frame.querySelector('[role="status"]');
  const card = frame.querySelector(".chosen");
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  const WIDTHS = [0.7, 1.3, 2.1, 3.2];
  const LABELS = 20; // memories that may have one
  const MANY = 800; // links: so many are drawn plainly until they have settled, and as a picture of themselves while they are moved
  const began = performance.now();
  const view = { x: 0, y: 0, scale: 1, isFitted: true };
  const kept = { picture: document.createElement("canvas"), view: null };
  let memories = [], largest = [], links = [], batches = [], look = {}, simulation, chosen = null, drawing = 0, moved = -Infinity, shown = 0;

  const readLook = () => {
    const style = getComputedStyle(frame);
    look = { ink: style.color, ground: style.backgroundColor, font: style.fontFamily, accent: getComputedStyle(card.querySelector("a")).color, kinds: {} };
    for (const line of frame.querySelectorAll("line[data-kind]")) {
      const drawn = getComputedStyle(line);
      look.kinds[line.dataset.kind] = { colour: drawn.stroke, dash: (drawn.strokeDasharray.match(/[\d.]+/g) ?? []).map(Number) };
    }
  };

  // One path for each look of a line: thousands of strokes would be slow.
  const batch = () => {
    const found = new Map();
    for (const link of links) {
      const width = WIDTHS[Math.min(3, Math.floor(link.strength * 4))];
      const name = `${link.kind} ${width}`;
      if (!found.has(name)) found.set(name, { kind: link.kind, width, links: [] });
      found.get(name).links.push(link);
    }
    batches = [...found.values()].sort((a, b) => a.width - b.width);
  };

  const fit = () => {
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (const { x, y } of memories) {
      left = Math.min(left, x); right = Math.max(right, x); top = Math.min(top, y); bottom = Math.max(bottom, y);
    }
    const [wide, high] = [canvas.clientWidth, canvas.clientHeight];
    view.scale = Math.min(2.5, 0.92 * Math.min(wide / (right - left + 40), high / (bottom - top + 40)));
    view.x = wide / 2 - (view.scale * (left + right)) / 2;
    view.y = high / 2 - (view.scale * (top + bottom)) / 2;
  };

  const isMoving = () => performance.now() - moved < 200;
  const isSettled = () => simulation.alpha() <= simulation.alphaMin();

  // The last whole picture, moved and stretched.
  const drawKept = (ratio) => {
    const by = view.scale / kept.view.scale;
    paint.setTransform(1, 0, 0, 1, 0, 0);
    paint.clearRect(0, 0, canvas.width, canvas.height);
    paint.setTransform(by, 0, 0, by, (view.x - kept.view.x * by) * ratio, (view.y - kept.view.y * by) * ratio);
    paint.globalAlpha = 1;
    paint.drawImage(kept.picture, 0, 0);
  };

  // The most linked memories have their first words beside them, where these cover no others.
  const label = (x, y, scale) => {
    const boxes = [];
    paint.font = `12px ${look.font}`;
    paint.textBaseline = "middle";
    paint.lineWidth = 3;
    paint.strokeStyle = look.ground;
    paint.fillStyle = look.ink;
    for (const one of largest) {
      const words = one.text.length > 28 ? `${one.text.slice(0, 27).trimEnd()}…` : one.text;
      const [left, middle] = [one.x * scale + x + one.size + 4, one.y * scale + y];
      const right = left + paint.measureText(words).width;
      if (left < 0 || right > canvas.clientWidth || middle < 8 || middle > canvas.clientHeight - 8) continue;
      if (boxes.some(([l, m, r]) => left < r && l < right && Math.abs(m - middle) < 16)) continue;
      boxes.push([left, middle, right]);
      paint.strokeText(words, left, middle);
      paint.fillText(words, left, middle);
    }
    frame.dataset.labels = boxes.length;
  };

  const draw = () => {
    drawing = 0;
    if (view.isFitted) fit();
    const ratio = window.devicePixelRatio || 1;
    const { x, y, scale } = view;
    if (links.length > MANY && isSettled() && isMoving() && kept.view) {
      drawKept(ratio);
      return;
    }
    const plain = links.length > MANY && !isSettled();
    shown = performance.now();
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    const faint = Math.min(1, 0.4 + 150 / links.length); // the more lines, the fainter each one
    paint.globalAlpha = chosen ? 0.15 : 0.8 * faint;
    const strokes = (some, looks, width) => {
      paint.strokeStyle = looks.colour;
      paint.setLineDash(plain ? [] : looks.dash);
      paint.lineWidth = width;
      paint.beginPath();
      for (const { source, target } of some) {
        paint.moveTo(source.x * scale + x, source.y * scale + y);
        paint.lineTo(target.x * scale + x, target.y * scale + y);
      }
      paint.stroke();
    };
    for (const each of batches) strokes(each.links, look.kinds[each.kind], each.width);
    if (chosen) {
      paint.globalAlpha = 1;
      for (const each of batches) strokes(each.links.filter((l) => l.source === chosen || l.target === chosen), look.kinds[each.kind], each.width + 1);
    }
    paint.setLineDash([]);
    paint.globalAlpha = 1;
    const dots = (ended) => {
      paint.beginPath();
      for (const one of memories) {
        if (one.ended !== ended) continue;
        const size = Math.max(1.5, one.size * Math.min(1, scale));
        paint.moveTo(one.x * scale + x + size, one.y * scale + y);
        paint.arc(one.x * scale + x, one.y * scale + y, size, 0, 7);
      }
      paint.fillStyle = ended ? look.ground : look.ink;
      paint.fill();
      paint.lineWidth = ended ? 1.2 : 0.6;
      paint.strokeStyle = ended ? look.ink : look.ground;
      paint.stroke();
    };
    dots(false);
    dots(true);
    if (isSettled()) label(x, y, scale);
    for (const one of [memories.find((m) => m.id === frame.dataset.root), chosen]) {
      if (!one) continue;
      paint.beginPath();
      paint.arc(one.x * scale + x, one.y * scale + y, one.size * Math.min(1, scale) + 5, 0, 7);
      paint.lineWidth = one === chosen ? 3.5 : 2;
      paint.strokeStyle = look.accent;
      paint.stroke();
    }
    if (links.length <= MANY || !isSettled()) return;
    [kept.picture.width, kept.picture.height] = [canvas.width, canvas.height];
    kept.picture.getContext("2d").drawImage(canvas, 0, 0);
    kept.view = { x, y, scale };
  };
  const redraw = () => { drawing ||= requestAnimationFrame(draw); };

  // While it moves it is drawn plainly; a moment later once more, whole.
  let later = 0;
  const move = () => {
    moved = performance.now();
    redraw();
    clearTimeout(later);
    later = setTimeout(redraw, 250);
  };

  // A big graph is drawn less often while it settles, which is then sooner over.
  const settle = () => {
    const until = performance.now() + (still || links.length > MANY ? 40 : 10);
    while (!isSettled() && performance.now() < until) simulation.tick();
    if (isSettled() || (!still && performance.now() - shown > links.length / 20)) draw();
    if (isSettled()) frame.dataset.settled = Math.round(performance.now() - began);
    else requestAnimationFrame(settle);
  };

  const choose = (one, isCentred = false) => {
    chosen = one ?? null;
    card.hidden = !chosen;
    if (chosen) {
      card.querySelector(".badge").textContent = chosen.kind;
      const time = card.querySelector("time");
      time.dateTime = chosen.written;
      time.textContent = chosen.written.slice(0, 16).replace("T", " ");
      card.querySelector(".said").textContent = chosen.text;
      card.querySelector(".open").href = `/memories/${chosen.id}`;
      card.querySelector(".around").href = `/graph?memory=${chosen.id}`;
      if (isCentred && !view.isFitted) {
        view.x = canvas.clientWidth / 2 - chosen.x * view.scale;
        view.y = canvas.clientHeight / 2 - chosen.y * view.scale;
      }
    }
    redraw();
  };

  const zoom = (by, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) => {
    const scale = Math.min(12, Math.max(0.02, view.scale * by));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    view.isFitted = false;
    move();
  };
  const shift = (x, y) => { view.x += x; view.y += y; view.isFitted = false; move(); };
  const whole = () => { view.isFitted = true; move(); };

  const listen = () => {
    const fingers = new Map();
    let travelled = 0;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
      travelled = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId);
      if (!before) return;
      const now = [event.offsetX, event.offsetY];
      const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
      travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
      fingers.set(event.pointerId, now);
      if (other) zoom(Math.hypot(now[0] - other[0], now[1] - other[1]) / Math.max(1, Math.hypot(before[0] - other[0], before[1] - other[1])), other[0], other[1]);
      else if (travelled > 4) shift(now[0] - before[0], now[1] - before[1]);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (travelled <= 4) choose(simulation.find((event.offsetX - view.x) / view.scale, (event.offsetY - view.y) / view.scale, 14 / view.scale));
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));
    const keys = {
      ArrowLeft: () => shift(40, 0), ArrowRight: () => shift(-40, 0), ArrowUp: () => shift(0, 40), ArrowDown: () => shift(0, -40),
      "+": () => zoom(1.3), "-": () => zoom(1 / 1.3), 0: whole, Escape: () => choose(null),
    };
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    const buttons = { in: () => zoom(1.3), out: () => zoom(1 / 1.3), whole };
    for (const button of frame.querySelectorAll("[data-do]")) button.addEventListener("click", buttons[button.dataset.do]);
    const known = new Map(memories.map((one) => [one.id, one]));
    const fromList = (event) => {
      const one = known.get(event.target.dataset?.memory);
      if (one) choose(one, true);
    };
    for (const kind of ["focusin", "mouseover"]) document.querySelector(".links").addEventListener(kind, fromList);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readLook(); kept.view = null; redraw(); });
    new ResizeObserver(() => { size(); kept.view = null; redraw(); }).observe(canvas);
  };

  const size = () => {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
  };

  const start = (data) => {
    memories = data.memories;
    links = data.links.map((l) => ({ source: l.from, target: l.to, kind: l.kind, strength: l.strength }));
    for (const one of memories) one.size = 3;
    for (const l of links) for (const end of [l.source, l.target]) memories[end].size = Math.min(11, memories[end].size + 0.4);
    largest = [...memories].sort((a, b) => b.size - a.size).slice(0, LABELS);
    simulation = d3.forceSimulation(memories)
      .force("link", d3.forceLink(links).distance((l) => 28 + 50 * (1 - l.strength)))
      .force("apart", d3.forceManyBody().strength(-45).theta(1.2).distanceMax(400))
      .force("x", d3.forceX().strength(0.06))
      .force("y", d3.forceY().strength(0.06))
      .alphaDecay(0.055)
      .stop();
    batch();
    readLook();
    size();
    listen();
    // The rough shape is there at once; the rest is seen.
    const until = performance.now() + 200;
    while (!still && simulation.alpha() > 0.3 && performance.now() < until) simulation.tick();
    const counts = status.dataset.counts.replace("{memories}", memories.length).replace("{links}", links.length);
    status.textContent = data.cut ? `${counts} ${status.dataset.cut}` : counts;
    settle();
    frame.dataset.drawn = Math.round(performance.now() - began);
  };

  frame.hidden = false;
  status.textContent = status.dataset.loading;
  fetch(frame.dataset.load, { headers: { Accept: "application/json" } })
    .then((answer) => (answer.ok ? answer.json() : Promise.reject(answer.status)))
    .then(start)
    .catch((error) => { status.textContent = status.dataset.failed; console.error(error); });
})();
