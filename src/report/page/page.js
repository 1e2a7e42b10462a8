// SPDX-License-Identifier: Apache-2.0
// page.js: the sections of a report, from its data.

(function () {
  const data = JSON.parse(document.getElementById('data').textContent);
  const page = document.getElementById('page'), sections = [];

  function section(id, title, ...content) {
    const node = el('section', {id}, content);
    sections.push({id, title, node});
    return node;
  }

  // Groups of things with one title, in the order of their first.
  function byTitle(list) {
    const groups = new Map();
    for (const one of list) {
      if (!groups.has(one.title)) groups.set(one.title, []);
      groups.get(one.title).push(one);
    }
    return [...groups];
  }

  // ---- Curves ----

  function curves() {
    const groups = [...curveGroups(data.series)];
    const redraw = () => curveCharts.forEach(c => c.draw());
    const smoothing = el('input', {type: 'range', min: 0, max: 0.99, step: 0.01, value: 0, 'aria-label': 'Smoothing', oninput: () => {
      curveSettings.smoothing = Number(smoothing.value);
      redraw();
    }});
    const byTime = el('select', {'aria-label': 'Horizontal axis', onchange: () => {
      curveSettings.byTime = byTime.value === 'time';
      curveCharts.forEach(c => c.reset());
      redraw();
    }}, el('option', {value: 'step'}, 'step'), el('option', {value: 'time'}, 'time'));
    section('curves', 'Curves', el('div', {class: 'bar'}, el('h2', {}, 'Curves'), el('span', {class: 'space'}),
      el('label', {class: 'field'}, 'Smoothing', smoothing), el('label', {class: 'field'}, 'Axis', byTime)),
    el('div', {class: groups.length % 3 === 0 ? 'grid' : 'grid two'}, groups.map(([title, series], i) => curveChart(title, series, groups.length === 1 || (i === 0 && groups.length % 2 === 1 && groups.length % 3 !== 0)))));
  }

  // ---- Samples, images, matrices, tables ----

  function samples() {
    section('samples', 'Samples', el('div', {class: 'bar'}, el('h2', {}, 'Samples')), el('div', {class: 'samples'}, byTitle(data.texts).map(([title, list]) =>
      el('div', {}, el('div', {class: 'bar'}, el('h3', {}, title)), el('div', {class: 'card scroll'}, list.slice().reverse().map(s =>
        el('div', {class: 'sample'}, el('div', {class: 'when'}, 'step ' + s.step), el('pre', {}, s.text))))))));
  }

  function picture(image) {
    const canvas = el('canvas', {width: image.w, height: image.h}), c = canvas.getContext('2d'), pixels = c.createImageData(image.w, image.h);
    const raw = atob(image.pixels);
    for (let i = 0; i < image.w * image.h; i++) {
      for (let k = 0; k < 3; k++) pixels.data[4 * i + k] = raw.charCodeAt(image.c === 3 ? 3 * i + k : i);
      pixels.data[4 * i + 3] = 255;
    }
    c.putImageData(pixels, 0, 0);
    const scale = Math.max(1, Math.floor(112 / Math.max(image.w, image.h)));
    canvas.style.width = Math.min(image.w * scale, 460) + 'px';
    return el('figure', {}, canvas, el('figcaption', {}, 'step ' + image.step));
  }

  function images() {
    section('images', 'Images', el('div', {class: 'bar'}, el('h2', {}, 'Images')), el('div', {class: 'grid'}, byTitle(data.images).map(([title, list]) =>
      el('div', {class: 'card block' + (list.length > 3 ? ' wide' : '')}, el('h3', {}, title), el('div', {class: 'images'}, list.map(picture))))));
  }

  function matrix(m) {
    const names = m.classes || Array.from({length: m.n}, (_, i) => String(i)), cells = [el('div', {class: 'label'}, 'true \u2193 predicted \u2192')];
    let right = 0, all = 0;
    names.forEach(name => cells.push(el('div', {class: 'label'}, cut(name, 12))));
    for (let i = 0; i < m.n; i++) {
      const row = m.counts.slice(i * m.n, (i + 1) * m.n), sum = row.reduce((a, b) => a + b, 0);
      cells.push(el('div', {class: 'label'}, cut(names[i], 16)));
      right += row[i];
      all += sum;
      row.forEach((count, k) => {
        const cell = el('div', {class: 'cell', tone: i === k ? 'var(--c2)' : 'var(--c1)'}, count ? String(count) : '');
        cell.style.setProperty('--depth', sum ? (0.06 + 0.62 * count / sum).toFixed(3) : '0.04');
        cell.addEventListener('pointermove', event => showTip(event, tipRows([[null, 'true class', names[i]], [null, 'predicted', names[k]],
          [null, 'examples', String(count)], [null, 'of the class', sum ? (100 * count / sum).toFixed(1) + ' %' : '']])));
        cell.addEventListener('pointerleave', hideTip);
        cells.push(cell);
      });
    }
    const grid = el('div', {class: 'matrix'}, cells);
    grid.style.gridTemplateColumns = 'repeat(' + (m.n + 1) + ', auto)';
    return el('div', {class: 'card block wide'}, el('div', {class: 'bar'}, el('h3', {}, m.title), el('span', {class: 'soft'},
      all ? (100 * right / all).toFixed(2) + ' % of ' + all + ' examples are right' : 'no examples')), el('div', {class: 'scroll'}, grid));
  }

  const isNumber = text => /^[-+]?[\d.,]+(e[-+]?\d+)?\s*[%\u00b5a-zA-Z/]{0,8}$/.test(text);

  function table(t) {
    const numeric = t.columns.map((_, k) => t.rows.length > 0 && t.rows.every(row => row[k] === '' || isNumber(row[k])));
    return el('div', {class: 'card wide'}, el('div', {class: 'block'}, el('h3', {}, t.title)), el('div', {class: 'scroll'}, el('table', {class: 'data'},
      el('thead', {}, el('tr', {}, t.columns.map((c, k) => el('th', {class: numeric[k] ? 'number' : ''}, c)))),
      el('tbody', {}, t.rows.map(row => el('tr', {}, row.map((cell, k) => el('td', {class: numeric[k] ? 'number' : ''}, cell))))))));
  }

  // ---- Programs: memory, timeline, profile ----

  function memory(entry, viewer) {
    const m = entry.memory, kinds = new Map();
    const rects = m.slots.map(([offset, size, from, to, node, name, type]) => {
      if (!kinds.has(name)) kinds.set(name, kinds.size);
      const view = entry.views.find(v => v.kind === 'compiled');
      const phase = view.nodes[node] && view.nodes[node].p || 0;
      return {x0: from, x1: to + 1, y0: offset, y1: offset + size, faint: name === 'scratch',
        color: name === 'scratch' ? '--c7' : '--' + PHASES[phase],
        tip: () => [el('div', {}, el('b', {}, name), ' ', el('span', {class: 'soft'}, type)), tipRows([[null, 'size', bytes(size)], [null, 'at', bytes(offset)],
          [null, 'lives', from === to ? 'in step ' + from : 'from step ' + from + ' to ' + to], [null, 'first step', entry.steps[m.steps[from]].n]])]};
    });
    const live = new Array(m.steps.length).fill(0);
    m.slots.forEach(([, size, from, to]) => {
      for (let i = from; i <= to && i < live.length; i++) live[i] += size;
    });
    const points = live.flatMap((v, i) => [[i, v], [i + 1, v]]);
    return rectangleMap({label: 'Memory over steps', height: 330, rects, xMax: Math.max(1, m.steps.length), yMax: Math.max(1, m.bytes), up: true,
      xLabel: t => Number.isInteger(t) ? 'step ' + t : '', yLabel: t => bytes(t), lines: [{color: '--ink', points}]});
  }

  function timeline(entry) {
    const count = entry.events.length / 4, rects = [], rowOf = new Map();
    let end = 1, rowCount = 0;
    const row = (thread, depth) => {
      const key = thread + ' ' + depth;
      if (!rowOf.has(key)) rowOf.set(key, rowCount++);
      return rowOf.get(key);
    };
    const order = [...Array(count).keys()].sort((a, b) => entry.events[4 * a + 3] - entry.events[4 * b + 3] ||
      entry.steps[entry.events[4 * a + 2]].d - entry.steps[entry.events[4 * b + 2]].d);
    for (const i of order) {
      const [start, took, number, thread] = entry.events.slice(4 * i, 4 * i + 4), step = entry.steps[number], y = row(thread, step.d);
      end = Math.max(end, start + took);
      const kinds = {kernel: '--c0', route: '--c2', evaluate: '--c5', copy: '--c7'};
      rects.push({x0: start, x1: start + took, y0: y + 0.06, y1: y + 0.94, color: kinds[step.k] || '--c3', text: step.n,
        tip: () => [el('div', {}, el('b', {}, step.n), ' ', el('span', {class: 'soft'}, step.k)), tipRows([[null, 'time', duration(took)], [null, 'begins at', duration(start)],
          [null, 'bytes', bytes(step.b)]].concat(step.f ? [[null, 'operations', scaled(step.f, 'FLOP')]] : []))]});
    }
    const names = [...rowOf.keys()];
    return rectangleMap({label: 'Timeline', height: 34 + 30 * Math.max(1, rowCount), rects, xMax: end, yMax: Math.max(1, rowCount), up: false,
      xLabel: t => duration(t), yTicks: () => names.map((_, i) => i), yLabel: i => {
        const [thread, depth] = names[i].split(' ');
        return thread !== '0' ? 'thread ' + thread : depth === '0' ? 'steps' : 'inside ' + depth;
      }});
  }

  function profile(entry) {
    const total = entry.steps.reduce((sum, s) => sum + (s.d === 0 ? s.t : 0), 0) || 1;
    const list = entry.steps.map((s, i) => ({s, i})).filter(({s}) => s.t !== undefined).sort((a, b) => b.s.t - a.s.t).slice(0, 200);
    const cell = (text, css = 'number') => el('td', {class: css}, text);
    return el('div', {class: 'card'}, el('div', {class: 'scroll'}, el('table', {class: 'data'}, el('thead', {}, el('tr', {},
      ['step', 'kind', 'runs', 'time', 'share', 'bytes', 'bandwidth', 'speed'].map((name, k) => el('th', {class: k > 1 ? 'number' : ''}, name)))),
    el('tbody', {}, list.map(({s}) => {
      const bar = el('span', {class: 'share'});
      bar.style.width = (90 * s.t / total).toFixed(1) + 'px';
      return el('tr', {class: s.d ? 'deeper' : ''}, cell(s.n, 'mono'), cell(s.k, 'word'), cell(String(s.r)), cell(duration(s.t)),
        el('td', {class: 'number'}, (100 * s.t / total).toFixed(1) + ' %', bar), cell(bytes(s.b)), cell(s.t ? scaled(s.b * s.r / s.t * 1e9, 'B/s') : ''),
        cell(s.t && s.f ? scaled(s.f * s.r / s.t * 1e9, 'FLOP/s') : ''));
    })))));
  }

  function programs(viewer) {
    const several = data.graphs.length > 1, named = (title, entry) => el('h2', {}, several ? title + ', ' + entry.title : title);
    data.graphs.forEach((entry, i) => {
      const more = several ? '-' + i : '';
      if (entry.memory && entry.memory.slots.length) {
        section('memory' + more, several ? 'Memory, ' + entry.title : 'Memory', el('div', {class: 'bar'}, named('Memory', entry),
          el('span', {class: 'soft'}, bytes(entry.memory.bytes) + ' are planned, ' + bytes(entry.memory.live) + ' are in use at most. Each box is a value: how large it is, and in which steps it lives.')),
        memory(entry, viewer));
      }
      if (entry.events && entry.events.length) {
        section('timeline' + more, several ? 'Timeline, ' + entry.title : 'Timeline', el('div', {class: 'bar'}, named('Timeline', entry),
          el('span', {class: 'soft'}, 'One run, step by step. Drag to zoom, double-click to see all.' + (entry.left_out ? ' The last ' + entry.left_out + ' are not shown.' : ''))), timeline(entry));
      }
      if (entry.steps && entry.steps.some(s => s.t !== undefined)) {
        section('profile' + more, several ? 'Profile, ' + entry.title : 'Profile', el('div', {class: 'bar'}, named('Profile', entry)), profile(entry));
      }
    });
  }

  // ---- The page ----

  if (data.series.length) curves();
  if (data.texts.length) samples();
  if (data.images.length) images();
  if (data.matrices.length) {
    section('confusion', 'Confusion', el('div', {class: 'bar'}, el('h2', {}, data.matrices.length > 1 ? 'Confusion matrices' : 'Confusion matrix')), el('div', {class: 'grid'}, data.matrices.map(matrix)));
  }
  if (data.tables.length) section('tables', 'Tables', el('div', {class: 'bar'}, el('h2', {}, 'Tables')), el('div', {class: 'grid'}, data.tables.map(table)));
  const viewer = data.graphs.length ? graphViewer(data.graphs) : null;
  if (viewer) section('graph', 'Graph', viewer.bar, viewer.viewer);
  programs(viewer);

  const links = sections.map(s => el('a', {href: '#' + s.id}, s.title));
  page.append(...[data.about && el('p', {class: 'about'}, data.about),
    data.facts.length && el('dl', {class: 'facts'}, data.facts.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value)))),
    sections.length > 1 && el('nav', {'aria-label': 'Sections'}, links), ...sections.map(s => s.node),
    el('footer', {}, 'Made by Fluxion. This page is one file and loads nothing else.')].filter(Boolean));
  document.body.append(tip);
  if (viewer) viewer.start();

  const watcher = new IntersectionObserver(entries => {
    for (const entry of entries) links[sections.findIndex(s => s.node === entry.target)].classList.toggle('here', entry.isIntersecting);
  }, {rootMargin: '-30% 0px -60% 0px'});
  sections.forEach(s => watcher.observe(s.node));
})();
