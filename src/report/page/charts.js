// SPDX-License-Identifier: Apache-2.0
// charts.js: small helpers, and curves. Text is only ever set as text, never as markup: names come from outside.
'use strict';

// ---- Elements ----

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === false || value === null) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'tone') node.style.setProperty('--tone', value);
    else if (key === 'paint') node.style.background = value;
    else node.setAttribute(key, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) node.append(child);
  }
  return node;
}

function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

// ---- Numbers ----

function trimmed(text) {
  return text.includes('.') && !text.includes('e') ? text.replace(/\.?0+$/, '') : text;
}

function number(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return 'not finite';
  if (x === 0) return '0';
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-4) return x.toExponential(3).replace(/\.?0+e/, 'e').replace('e+', 'e');
  return size >= 1e4 ? String(Math.round(x)) : trimmed(x.toPrecision(5));
}

// Three digits that are not a thousand: 999.9 is 1 of the next unit.
function digits(x) {
  return Number(x.toPrecision(3));
}

function scaled(x, unit) {
  const names = ['', 'k', 'M', 'G', 'T', 'P'];
  let i = 0;
  for (; Math.abs(digits(x)) >= 1000 && i + 1 < names.length; i++) x /= 1000;
  return (i === 0 ? Math.round(x) : digits(x)) + ' ' + names[i] + unit;
}

const bytes = x => scaled(x, 'B');

function duration(ns) {
  if (Math.round(ns) < 1e3) return Math.round(ns) + ' ns';
  if (digits(ns / 1e3) < 1e3) return digits(ns / 1e3) + ' \u00b5s';
  return digits(ns / 1e6) < 1e3 ? digits(ns / 1e6) + ' ms' : digits(ns / 1e9) + ' s';
}

function clock(seconds) {
  if (seconds < 100) return trimmed(seconds.toFixed(1)) + ' s';
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? minutes + ' min ' + Math.round(seconds % 60) + ' s'
    : Math.floor(minutes / 60) + ' h ' + minutes % 60 + ' min';
}

function tone(i) {
  return 'var(--c' + i % 8 + ')';
}

// ---- The tip that follows the pointer ----

const tip = el('div', {class: 'tip', role: 'status'});

function showTip(event, ...content) {
  tip.replaceChildren(...content.flat());
  tip.classList.add('shown');
  const box = tip.getBoundingClientRect();
  const right = event.clientX + 18 + box.width > innerWidth;
  tip.style.left = Math.max(4, right ? event.clientX - box.width - 14 : event.clientX + 16) + 'px';
  tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 6)) + 'px';
}

function hideTip() {
  tip.classList.remove('shown');
}

function tipRows(rows) {
  return el('table', {}, rows.map(([color, name, value]) =>
    el('tr', {}, el('td', {}, color && el('i', {paint: color}), name), el('td', {}, value))));
}

// ---- Scales ----

// About `count` round numbers between two others.
function ticks(from, to, count) {
  if (!(to > from)) return [from];
  const rough = (to - from) / count, power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = power * ([1, 2, 5, 10].find(m => m * power >= rough) || 10);
  const list = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i++) list.push(i * step);
  return list;
}

function logTicks(from, to, count) {
  const low = Math.ceil(from - 1e-9), high = Math.floor(to + 1e-9), list = [];
  if (high - low < 1) return ticks(Math.pow(10, from), Math.pow(10, to), count).filter(x => x > 0).map(Math.log10);
  const step = Math.max(1, Math.ceil((high - low + 1) / count));
  for (let i = low; i <= high; i += step) list.push(i);
  return list;
}

// Exponential moving average that begins without bias; gaps stay gaps.
function smoothed(values, weight) {
  let sum = 0, total = 0;
  return values.map(v => {
    if (v === null) return null;
    sum = sum * weight + v * (1 - weight);
    total = total * weight + (1 - weight);
    return sum / total;
  });
}

// ---- Curves ----

const curveSettings = {smoothing: 0, byTime: false};
const curveCharts = [];

function curveChart(title, series, isWide) {
  const state = {log: false, hidden: new Set(), range: null};
  const picture = svg('svg', {height: 250, role: 'img', 'aria-label': title});
  const legend = el('div', {class: 'legend'});
  const card = el('div', {class: 'card chart' + (isWide ? ' wide' : '')});
  const margin = {left: 52, right: 10, top: 8, bottom: 26};
  let scale = null;

  const positive = series.every(s => s.values.every(v => v === null || v > 0));
  const logButton = positive && el('button', {type: 'button', title: 'Logarithmic scale', onclick: () => {
    state.log = !state.log;
    logButton.classList.toggle('on', state.log);
    draw();
  }}, 'log');
  const reset = el('button', {type: 'button', hidden: true, onclick: () => {
    state.range = null;
    draw();
  }}, 'Show all');
  card.append(el('div', {class: 'bar'}, el('h3', {}, title), el('span', {class: 'space'}), reset, logButton), picture, legend);

  const xs = s => curveSettings.byTime ? s.times : s.steps;
  const lines = () => series.filter(s => !state.hidden.has(s));

  function limits() {
    let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
    for (const s of lines()) {
      const x = xs(s), shown = curveSettings.smoothing ? smoothed(s.values, curveSettings.smoothing) : s.values;
      x.forEach((at, i) => {
        if (state.range && (at < state.range[0] || at > state.range[1])) return;
        x0 = Math.min(x0, at);
        x1 = Math.max(x1, at);
        for (const v of [s.values[i], shown[i]]) {
          if (v === null) continue;
          const y = state.log ? Math.log10(v) : v;
          y0 = Math.min(y0, y);
          y1 = Math.max(y1, y);
        }
      });
    }
    if (state.range) [x0, x1] = state.range;
    if (!(x1 >= x0)) [x0, x1] = [0, 1];
    if (!(y1 >= y0)) [y0, y1] = [0, 1];
    if (x1 === x0) x1 = x0 + 1;
    const pad = y1 > y0 ? (y1 - y0) * 0.06 : Math.abs(y1) * 0.1 || 1;
    return {x0, x1, y0: y0 - pad, y1: y1 + pad};
  }

  function path(s, values) {
    const x = xs(s);
    let d = '', pen = false;
    values.forEach((v, i) => {
      if (v === null || (state.log && v <= 0)) {
        pen = false;
        return;
      }
      d += (pen ? 'L' : 'M') + scale.x(x[i]).toFixed(1) + ' ' + scale.y(state.log ? Math.log10(v) : v).toFixed(1);
      pen = true;
    });
    return d;
  }

  function draw() {
    const width = Math.max(240, picture.clientWidth || 400), height = 250, l = limits();
    const w = width - margin.left - margin.right, h = height - margin.top - margin.bottom;
    scale = {
      l, w, h,
      x: v => margin.left + (v - l.x0) / (l.x1 - l.x0) * w,
      y: v => margin.top + (1 - (v - l.y0) / (l.y1 - l.y0)) * h,
      back: px => l.x0 + (px - margin.left) / w * (l.x1 - l.x0),
    };
    picture.setAttribute('viewBox', '0 0 ' + width + ' ' + height);
    const id = 'clip' + curveCharts.indexOf(api);
    const parts = [svg('clipPath', {id}, svg('rect', {x: margin.left, y: 0, width: w, height: height}))];
    for (const t of (state.log ? logTicks : ticks)(l.y0, l.y1, 5)) {
      const y = scale.y(t), label = state.log ? Math.pow(10, t) : t;
      parts.push(svg('line', {class: t === 0 && !state.log ? 'zero rule' : 'rule', x1: margin.left, x2: width - margin.right, y1: y, y2: y}),
        svg('text', {x: margin.left - 8, y: y + 4, 'text-anchor': 'end'}, number(Number(label.toPrecision(12)))));
    }
    for (const t of ticks(l.x0, l.x1, Math.max(2, Math.floor(w / 90)))) {
      parts.push(svg('text', {x: scale.x(t), y: height - 7, 'text-anchor': 'middle'}, curveSettings.byTime ? clock(t) : String(Number(t.toPrecision(12)))));
    }
    const inside = svg('g', {'clip-path': 'url(#' + id + ')'});
    series.forEach((s, i) => {
      if (state.hidden.has(s)) return;
      if (curveSettings.smoothing) inside.append(svg('path', {class: 'raw', d: path(s, s.values), stroke: tone(i)}));
      const shown = curveSettings.smoothing ? smoothed(s.values, curveSettings.smoothing) : s.values;
      inside.append(svg('path', {class: 'line', d: path(s, shown), stroke: tone(i)}));
      if (s.values.length === 1) inside.append(svg('circle', {cx: scale.x(xs(s)[0]), cy: scale.y(s.values[0]), r: 3.5, fill: tone(i)}));
    });
    parts.push(inside, svg('g', {class: 'marks'}));
    picture.replaceChildren(...parts);
    reset.hidden = !state.range;
    legend.replaceChildren(...series.map((s, i) => el('button', {
      type: 'button', class: state.hidden.has(s) ? 'off' : '', title: 'Show or hide', onclick: () => {
        state.hidden.has(s) ? state.hidden.delete(s) : state.hidden.add(s);
        draw();
      },
    }, el('i', {paint: tone(i)}), el('span', {}, s.label), el('b', {}, number(last(s))))));
  }

  function last(s) {
    for (let i = s.values.length; i-- > 0;) if (s.values[i] !== null) return s.values[i];
    return null;
  }

  function nearest(list, x) {
    let low = 0, high = list.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (list[middle] < x) low = middle;
      else high = middle;
    }
    return Math.abs(list[low] - x) <= Math.abs(list[high] - x) ? low : high;
  }

  function position(event) {
    return event.clientX - picture.getBoundingClientRect().left;
  }

  let drag = null;
  picture.addEventListener('pointermove', event => {
    if (!scale || !lines().length) return;
    const x = scale.back(position(event)), marks = picture.querySelector('.marks'), rows = [];
    const first = lines()[0], at = xs(first)[nearest(xs(first), x)];
    marks.replaceChildren(svg('line', {class: 'cross', x1: scale.x(at), x2: scale.x(at), y1: margin.top, y2: margin.top + scale.h}));
    series.forEach((s, i) => {
      if (state.hidden.has(s)) return;
      const k = nearest(xs(s), at), v = s.values[k];
      rows.push([tone(i), s.label, number(v)]);
      if (v !== null) marks.append(svg('circle', {cx: scale.x(xs(s)[k]), cy: scale.y(state.log ? Math.log10(v) : v), r: 4, fill: tone(i)}));
    });
    if (drag !== null) {
      const now = position(event);
      marks.append(svg('rect', {class: 'range', x: Math.min(drag, now), width: Math.abs(now - drag), y: margin.top, height: scale.h}));
    }
    const k = nearest(xs(first), at);
    showTip(event, el('div', {class: 'soft'}, 'step ' + first.steps[k] + (first.times[k] ? ', ' + clock(first.times[k]) : '')), tipRows(rows));
  });
  picture.addEventListener('pointerdown', event => {
    if (event.pointerType === 'mouse') drag = position(event);
  });
  picture.addEventListener('pointerup', event => {
    const now = position(event);
    if (drag !== null && Math.abs(now - drag) > 8) state.range = [scale.back(Math.min(drag, now)), scale.back(Math.max(drag, now))];
    drag = null;
    draw();
  });
  picture.addEventListener('dblclick', () => {
    state.range = null;
    draw();
  });
  picture.addEventListener('pointerleave', () => {
    drag = null;
    hideTip();
    const marks = picture.querySelector('.marks');
    if (marks) marks.replaceChildren();
  });

  const api = {draw, card, reset: () => { state.range = null; }};
  curveCharts.push(api);
  new ResizeObserver(draw).observe(picture);
  return card;
}

// Series that share the text before a slash share a chart.
function curveGroups(series) {
  const groups = new Map();
  for (const s of series) {
    const slash = s.name.indexOf('/');
    const key = slash > 0 ? s.name.slice(0, slash) : s.name;
    s.label = slash > 0 ? s.name.slice(slash + 1) : s.name;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(s);
  }
  return groups;
}

// ---- Maps of rectangles ----

// rects: {x0, x1, y0, y1, color, tip()}; x and y are in units of the data, y grows upwards if `up`.
function rectangleMap(options) {
  const {height, rects, xMax, yMax, up, xLabel, yLabel, lines} = options;
  const canvas = el('canvas', {role: 'img', 'aria-label': options.label});
  const card = el('div', {class: 'card map'}, canvas);
  const margin = {left: 74, right: 8, top: 6, bottom: 24};
  let view = [0, xMax], hot = null, size = null;

  function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name.replace(/^var\(|\)$/g, '')).trim();
  }

  function draw() {
    const width = card.clientWidth - 36, ratio = devicePixelRatio || 1;
    if (width < 50) return;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.height = height + 'px';
    const c = canvas.getContext('2d'), w = width - margin.left - margin.right, h = height - margin.top - margin.bottom;
    size = {w, h, x: v => margin.left + (v - view[0]) / (view[1] - view[0]) * w,
      y: v => up ? margin.top + (1 - v / yMax) * h : margin.top + v / yMax * h};
    c.scale(ratio, ratio);
    c.clearRect(0, 0, width, height);
    c.font = '11px ui-sans-serif, system-ui, sans-serif';
    c.fillStyle = color('--faint');
    c.strokeStyle = color('--rule');
    c.textAlign = 'right';
    for (const t of options.yTicks ? options.yTicks() : ticks(0, yMax, 4)) {
      c.fillText(yLabel(t), margin.left - 9, size.y(t) + (options.yTicks ? 12 : 4));
      if (options.yTicks) continue;
      c.beginPath();
      c.moveTo(margin.left, size.y(t));
      c.lineTo(width - margin.right, size.y(t));
      c.stroke();
    }
    c.textAlign = 'center';
    for (const t of ticks(view[0], view[1], Math.max(2, Math.floor(w / 110)))) c.fillText(xLabel(t), Math.min(size.x(t), width - 22), height - 7);
    c.save();
    c.beginPath();
    c.rect(margin.left, 0, w, height);
    c.clip();
    const paints = new Map();
    for (const r of rects) {
      const a = size.x(r.x0), b = size.x(r.x1), p = size.y(up ? r.y1 : r.y0), q = size.y(up ? r.y0 : r.y1);
      if (b < margin.left || a > width) continue;
      if (!paints.has(r.color)) paints.set(r.color, color(r.color));
      c.fillStyle = paints.get(r.color);
      c.globalAlpha = r === hot ? 1 : r.faint ? 0.35 : 0.78;
      const gap = b - a > 4 ? 1 : 0, gapY = q - p > 3 ? 1 : 0;
      c.fillRect(a, p, Math.max(b - a - gap, 0.7), Math.max(q - p - gapY, 0.7));
      if (r.text && b - a > 46 && q - p >= 14) {
        c.globalAlpha = 1;
        c.fillStyle = color('--card');
        c.textAlign = 'left';
        c.save();
        c.beginPath();
        c.rect(a, p, b - a - 4, q - p);
        c.clip();
        c.fillText(r.text, a + 5, (p + q) / 2 + 4);
        c.restore();
      }
    }
    c.globalAlpha = 1;
    for (const line of lines || []) {
      c.strokeStyle = color(line.color);
      c.lineWidth = 1.6;
      c.beginPath();
      line.points.forEach(([x, y], i) => i ? c.lineTo(size.x(x), size.y(y)) : c.moveTo(size.x(x), size.y(y)));
      c.stroke();
    }
    c.restore();
  }

  function find(event) {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    for (let i = rects.length; i-- > 0;) {
      const r = rects[i];
      const p = size.y(up ? r.y1 : r.y0), q = size.y(up ? r.y0 : r.y1);
      if (px >= size.x(r.x0) - 1 && px <= size.x(r.x1) + 1 && py >= p && py <= q) return r;
    }
    return null;
  }

  canvas.addEventListener('pointermove', event => {
    if (!size) return;
    const r = find(event);
    if (r !== hot) {
      hot = r;
      draw();
    }
    if (r) showTip(event, r.tip());
    else hideTip();
  });
  canvas.addEventListener('pointerleave', () => {
    hot = null;
    hideTip();
    draw();
  });
  canvas.addEventListener('wheel', event => {
    if (!size || !(event.ctrlKey || event.metaKey || event.shiftKey)) return;
    event.preventDefault();
    const at = view[0] + (event.clientX - canvas.getBoundingClientRect().left - margin.left) / size.w * (view[1] - view[0]);
    const factor = Math.exp((event.deltaY || event.deltaX) * 0.003);
    view = [Math.max(0, at - (at - view[0]) * factor), Math.min(xMax, at + (view[1] - at) * factor)];
    draw();
  }, {passive: false});
  let drag = null;
  canvas.addEventListener('pointerdown', event => {
    drag = event.clientX - canvas.getBoundingClientRect().left;
  });
  canvas.addEventListener('pointerup', event => {
    const now = event.clientX - canvas.getBoundingClientRect().left;
    if (drag !== null && Math.abs(now - drag) > 8 && size) {
      const at = px => view[0] + (px - margin.left) / size.w * (view[1] - view[0]);
      view = [Math.max(0, at(Math.min(drag, now))), Math.min(xMax, at(Math.max(drag, now)))];
      draw();
    }
    drag = null;
  });
  canvas.addEventListener('dblclick', () => {
    view = [0, xMax];
    draw();
  });
  new ResizeObserver(draw).observe(card);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  return card;
}
