// SPDX-License-Identifier: Apache-2.0
// graph.js: the viewer of graphs. The order of boxes in their layers comes from the library (layered_layout.c); here it
// is turned into positions for the groups that are open, as graph_draw.c does for pictures. Items are nodes, by number,
// and after them groups; src/report/view_json.c explains the keys.

const BOX_HEIGHT = 40, BETWEEN = 34, PAD = 16, HEAD = 30, RESULT = 33554432, FAR = 700;
const PHASES = ['forward', 'backward', 'update'];

function cut(text, max) {
  return [...text].length > max ? [...text].slice(0, max - 1).join('') + '\u2026' : text;
}

// A graph with what is derived from it.
function graphModel(view, entry) {
  const count = view.nodes.length, items = view.nodes.concat(view.groups);
  const model = {view, entry, count, items, steps: entry.steps || [], children: view.groups.map(() => []),
    open: view.groups.map(g => !!g.open), readers: view.nodes.map(() => [])};
  items.forEach((item, i) => {
    item.number = i;
    item.isGroup = i >= count;
    if (item.g !== undefined) model.children[item.g].push(i);
  });
  view.nodes.forEach((node, i) => node.i.forEach(v => model.readers[v % RESULT].push(i)));
  view.groups.forEach(g => {
    g.ways = new Map(g.e.map(e => [e[0] + ' ' + e[1], {flags: e[2], way: e.slice(3)}]));
  });
  model.op = n => view.ops[n.o];
  model.type = n => n.t.map(t => view.types[t]).join(', ');
  model.title = item => item.isGroup ? item.n : item.m || item.n || model.op(item);
  model.detail = item => {
    if (item.isGroup) return (item.s === undefined ? '' : 'kernel, ') + item.c + (item.c === 1 ? ' op' : ' ops');
    return (item.n && !item.k ? model.op(item) + ' ' : '') + (item.t.length ? view.types[item.t[0]] : '');
  };
  model.parent = i => items[i].g === undefined ? -1 : count + items[i].g;
  model.isOpen = i => i >= count && model.open[i - count];
  model.isDrawn = i => items[i].g !== undefined;
  model.step = item => item.s >= 0 ? model.steps[item.s] : undefined;
  // The outermost closed group around an item, or the item.
  model.visible = i => {
    let seen = i;
    for (let at = i; model.parent(at) >= 0; at = model.parent(at)) if (!model.isOpen(model.parent(at))) seen = model.parent(at);
    return seen;
  };
  return model;
}

// ---- Positions ----

function shiftAt(model, places, group, layer, x) {
  let shift = 0;
  for (const i of model.children[group]) {
    const item = model.items[i];
    if (item.l === layer && item.x !== x) shift += (item.x < x ? 0.5 : -0.5) * (places[i].w - item.w);
  }
  return shift;
}

function measure(model, places, i) {
  const item = model.items[i], place = places[i] = {x: 0, y: 0, w: item.w || 100, h: BOX_HEIGHT};
  if (!model.isOpen(i)) return;
  const group = i - model.count, children = model.children[group], tops = new Array(item.L + 1).fill(0);
  let left = Infinity, right = -Infinity;
  for (const k of children) measure(model, places, k);
  for (const k of children) {
    const child = model.items[k], x = child.x + shiftAt(model, places, group, child.l, child.x);
    left = Math.min(left, x - places[k].w / 2);
    right = Math.max(right, x + places[k].w / 2);
    tops[child.l + 1] = Math.max(tops[child.l + 1], places[k].h);
  }
  for (const [key, {flags, way}] of item.ways) {
    const [from, to] = key.split(' ').map(Number), top = model.items[flags & 1 ? to : from].l;
    way.forEach((at, k) => {
      const x = at + shiftAt(model, places, group, top + 1 + k, at);
      left = Math.min(left, x);
      right = Math.max(right, x);
    });
  }
  if (left > right) left = right = 0;
  tops[0] = item.g === undefined ? 0 : HEAD;
  for (let k = 1; k <= item.L; k++) tops[k] += tops[k - 1] + BETWEEN;
  place.tops = tops;
  place.content = PAD - left;
  const wanted = right - left + 2 * PAD, least = item.w || 0;
  if (wanted < least) place.content += (least - wanted) / 2;
  place.w = Math.max(wanted, least);
  place.h = tops[item.L] - (item.L ? BETWEEN : 0) + PAD;
}

function spread(model, places, i) {
  const group = i - model.count, own = places[i];
  for (const k of model.children[group]) {
    const child = model.items[k], box = places[k], room = own.tops[child.l + 1] - own.tops[child.l] - BETWEEN;
    box.x = own.x + own.content + child.x + shiftAt(model, places, group, child.l, child.x) - box.w / 2;
    box.y = own.y + own.tops[child.l] + (room - box.h) / 2;
    if (model.isOpen(k)) spread(model, places, k);
  }
}

// ---- Edges ----

function depth(model, i) {
  let n = 0;
  for (; model.parent(i) >= 0; i = model.parent(i)) n++;
  return n;
}

// Edges between what is visible, each once: from, to, and the items of one group that contain them.
function visibleEdges(model) {
  const edges = new Map(), seen = model.view.nodes.map((_, i) => model.isDrawn(i) ? model.visible(i) : -1);
  model.view.nodes.forEach((node, to) => {
    if (seen[to] < 0) return;
    for (const v of node.i) {
      const a = seen[v % RESULT], b = seen[to], key = a * model.items.length + b;
      if (a < 0 || a === b || edges.has(key)) continue;
      let above = a, below = b, da = depth(model, a), db = depth(model, b);
      for (; da > db; da--) above = model.parent(above);
      for (; db > da; db--) below = model.parent(below);
      while (model.parent(above) !== model.parent(below)) {
        above = model.parent(above);
        below = model.parent(below);
      }
      edges.set(key, {from: a, to: b, above, below});
    }
  });
  return [...edges.values()];
}

function curve(x0, y0, x1, y1) {
  const middle = ((y0 + y1) / 2).toFixed(1);
  return 'C' + x0.toFixed(1) + ' ' + middle + ' ' + x1.toFixed(1) + ' ' + middle + ' ' + x1.toFixed(1) + ' ' + y1.toFixed(1);
}

function edgePath(model, places, e) {
  const around = model.parent(e.above), group = around - model.count, own = places[around];
  const known = model.items[around].ways.get(e.above + ' ' + e.below), from = places[e.from], to = places[e.to];
  let x = from.x + from.w / 2, y = from.y + from.h, d = 'M' + x.toFixed(1) + ' ' + y.toFixed(1);
  if (known && !(known.flags & 1)) {
    known.way.forEach((at, k) => {
      const layer = model.items[e.above].l + 1 + k;
      const px = own.x + own.content + at + shiftAt(model, places, group, layer, at);
      const top = own.y + own.tops[layer], end = own.y + own.tops[layer + 1] - BETWEEN;
      d += curve(x, y, px, top) + 'L' + px.toFixed(1) + ' ' + end.toFixed(1);
      x = px;
      y = end;
    });
  }
  const tx = to.x + to.w / 2, ty = to.y;
  const head = 'M' + (tx - 3.6).toFixed(1) + ' ' + (ty - 6.5).toFixed(1) + 'h7.2L' + tx.toFixed(1) + ' ' + ty.toFixed(1) + 'z';
  const isFar = (known && known.flags) || ty - from.y - from.h > FAR;
  return {d: d + curve(x, y, tx, ty - 6), head, isFar: !!isFar};
}

// ---- The viewer ----

function icon(d) {
  return svg('svg', {viewBox: '0 0 16 16', width: 15, height: 15}, svg('path', {d, fill: 'none', stroke: 'currentColor', 'stroke-width': 1.5}));
}

function graphViewer(entries) {
  const choices = [];
  entries.forEach(entry => entry.views.forEach((view, k) => {
    const isBody = entry.views.slice(0, k).some(v => v.kind === view.kind);
    const kind = entry.views.some(v => v.kind === 'compiled') && !isBody ? (view.kind === 'compiled' ? ', compiled' : ', as written') : '';
    const name = isBody ? entry.title + ' \u203a ' + view.name + (view.kind === 'compiled' ? ', compiled' : '') : entry.title;
    choices.push({label: name + kind, view, entry, model: null});
  }));

  let model, places, edges, chosen = -1, color = 'phase', camera = {k: 1, x: 0, y: 0}, hasMoved = false;
  const world = svg('g', {}), picture = svg('svg', {tabindex: 0, role: 'application', 'aria-label': 'Graph'}, world);
  const panel = el('div', {class: 'panel', 'aria-live': 'polite'}), key = el('div', {class: 'key'}), hint = el('div', {class: 'hint'});
  const button = (text, title, action) => el('button', {type: 'button', title, 'aria-label': title, onclick: action}, text);
  const tools = el('div', {class: 'tools'}, button('+', 'Zoom in', () => zoom(1.3)), button('\u2212', 'Zoom out', () => zoom(1 / 1.3)),
    button(icon('M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3'), 'Fit', () => fit()), button(icon('M2 5V2h3M2 2l4 4M11 2h3v3M14 2l-4 4M14 11v3h-3M14 14l-4-4M5 14H2v-3M2 14l4-4'), 'Full screen', () => document.fullscreenElement ? document.exitFullscreen() : viewer.requestFullscreen()));
  const viewer = el('div', {class: 'card viewer'}, el('div', {class: 'canvas'}, picture, key, hint, tools), panel);
  const select = el('select', {'aria-label': 'Graph', onchange: () => choose(Number(select.value))}, choices.map((c, i) => el('option', {value: i}, c.label)));
  const colors = el('select', {'aria-label': 'Colour', onchange: () => {
    color = colors.value;
    render();
  }});
  const colorField = el('label', {class: 'field'}, 'Colour', colors);
  const search = el('input', {type: 'search', placeholder: 'Search name, op, kernel', 'aria-label': 'Search', autocomplete: 'off', spellcheck: 'false'});
  const found = el('div', {class: 'found'});
  const bar = el('div', {class: 'bar'}, el('h2', {}, 'Graph'), choices.length > 1 ? select : el('span', {class: 'soft mono'}, choices[0].label),
    el('span', {class: 'space'}), button('Open all', 'Open every group', () => openAll(true)), button('Close all', 'Close every group', () => openAll(false)),
    colorField, el('div', {class: 'field find'}, search, found));

  // -- Colours --

  let longest = 0;

  function timeOf(item) {
    const own = item.isGroup ? groupSteps(item) : [item.s];
    return own.reduce((sum, s) => sum + (s >= 0 && model.steps[s] && model.steps[s].t || 0), 0);
  }

  function groupSteps(group) {
    const all = new Set(), walk = i => {
      const item = model.items[i];
      if (item.isGroup) model.children[i - model.count].forEach(walk);
      else if (item.s >= 0) all.add(item.s);
    };
    walk(group.number);
    return [...all];
  }

  const KINDS = {kernel: '--c0', route: '--c2', evaluate: '--c5', scan: '--c3', while: '--c3', branch: '--c3', call: '--c3', emitted: '--c6', dispatch: '--c4', copy: '--c7'};

  function toneOf(item) {
    if (!item.isGroup && item.k) return item.k === 2 ? 'var(--param)' : 'var(--input)';
    if (color === 'step') {
      const step = model.step(item);
      return step ? 'var(' + (KINDS[step.k] || '--c7') + ')' : 'var(--input)';
    }
    if (color === 'time') {
      const share = longest ? Math.sqrt(timeOf(item) / longest) : 0;
      return 'color-mix(in srgb, var(--backward) ' + Math.round(100 * Math.min(1, share)) + '%, var(--faint))';
    }
    return 'var(--' + PHASES[item.p || 0] + ')';
  }

  function showKey() {
    const list = color === 'step' ? [...new Set(model.view.nodes.map(n => model.step(n)).filter(Boolean).map(s => s.k))].map(k => ['var(' + (KINDS[k] || '--c7') + ')', k])
      : color === 'time' ? [['var(--faint)', 'no time'], ['var(--backward)', 'most time']]
        : PHASES.filter((_, p) => p === 0 || model.view.nodes.some(n => n.p === p && model.isDrawn(model.items.indexOf(n)))).map(p => ['var(--' + p + ')', model.view.phases ? p : 'op']);
    if (color !== 'time') {
      if (model.view.nodes.some(n => n.k === 2)) list.push(['var(--param)', 'parameter']);
      if (model.view.nodes.some(n => n.k === 1)) list.push(['var(--input)', 'input']);
    }
    key.replaceChildren(...list.map(([paint, name]) => el('span', {}, el('i', {paint}), name)));
  }

  // -- Drawing --

  function layout() {
    places = [];
    measure(model, places, model.count);
    spread(model, places, model.count);
    edges = visibleEdges(model).map(e => Object.assign(e, edgePath(model, places, e)));
  }

  function shown() {
    const list = [], walk = i => model.children[i - model.count].forEach(k => {
      list.push(k);
      if (model.isOpen(k)) walk(k);
    });
    walk(model.count);
    return list;
  }

  function boxOf(i, near) {
    const item = model.items[i], p = places[i], title = model.title(item), detail = model.detail(item);
    const classes = 'item' + (item.isGroup ? ' group' : '') + (item.k ? ' leaf' : '') + (item.r !== undefined ? ' out' : '') +
      (i === chosen ? ' hot' : near.has(i) ? ' near' : '');
    const g = svg('g', {class: classes, tone: toneOf(item), 'data-item': i, transform: 'translate(' + p.x.toFixed(1) + ' ' + p.y.toFixed(1) + ')'},
      item.isGroup && svg('rect', {class: 'under', x: 4, y: 4, width: p.w, height: p.h, rx: 9}),
      svg('rect', {class: 'box', width: p.w, height: p.h, rx: 9}), svg('rect', {class: 'wash', width: p.w, height: p.h, rx: 9}),
      item.r !== undefined && svg('rect', {class: 'mark', x: p.w / 2 - 14, y: p.h - 3, width: 28, height: 3, rx: 1.5}),
      svg('text', {class: 'title', x: p.w / 2, y: 17}, cut(title, 26)), svg('text', {class: 'detail', x: p.w / 2, y: 31.5}, cut(detail, 32)));
    return g;
  }

  function frameOf(i) {
    const item = model.items[i], p = places[i];
    return svg('g', {class: 'frame', tone: toneOf(item), 'data-item': i, transform: 'translate(' + p.x.toFixed(1) + ' ' + p.y.toFixed(1) + ')'},
      svg('rect', {width: p.w, height: p.h, rx: 12}), svg('rect', {class: 'head', width: p.w, height: 26, rx: 12}),
      svg('text', {x: 13, y: 18}, cut(item.n, Math.max(6, Math.floor((p.w - 20) / 7)))));
  }

  function render() {
    const list = shown(), near = new Set(), hot = [];
    longest = color === 'time' ? Math.max(...list.map(i => timeOf(model.items[i])), 1) : 0;
    for (const e of edges) {
      if (chosen < 0 || (e.from !== chosen && e.to !== chosen)) continue;
      near.add(e.from === chosen ? e.to : e.from);
      hot.push(e);
    }
    const plain = edges.filter(e => !e.isFar), far = edges.filter(e => e.isFar);
    world.replaceChildren(
      svg('g', {}, list.filter(i => model.isOpen(i)).map(frameOf)),
      svg('path', {class: 'edges far', d: far.map(e => e.d).join('')}), svg('path', {class: 'edges', d: plain.map(e => e.d).join('')}),
      svg('path', {class: 'heads', d: edges.map(e => e.head).join('')}),
      svg('path', {class: 'edges hot', d: hot.map(e => e.d).join('')}), svg('path', {class: 'heads hot', d: hot.map(e => e.head).join('')}),
      svg('g', {}, list.filter(i => !model.isOpen(i)).map(i => boxOf(i, near))));
    picture.classList.toggle('faded', chosen >= 0);
    showKey();
  }

  function look() {
    world.setAttribute('transform', 'translate(' + camera.x.toFixed(2) + ' ' + camera.y.toFixed(2) + ') scale(' + camera.k.toFixed(4) + ')');
  }

  function zoom(factor, px, py) {
    const box = picture.getBoundingClientRect();
    px = px === undefined ? box.width / 2 : px;
    py = py === undefined ? box.height / 2 : py;
    const k = Math.min(4, Math.max(0.02, camera.k * factor));
    camera.x = px - (px - camera.x) * k / camera.k;
    camera.y = py - (py - camera.y) * k / camera.k;
    camera.k = k;
    look();
  }

  // A tall graph is shown from its top, at a size that can be read.
  function fit() {
    const box = picture.getBoundingClientRect(), p = places[model.count];
    const whole = Math.min(box.width / (p.w + 40), (box.height - 30) / (p.h + 40));
    camera.k = Math.min(1.25, Math.max(whole, Math.min(0.72, box.width / (p.w + 40))));
    camera.x = (box.width - p.w * camera.k) / 2;
    camera.y = whole < camera.k ? 14 : (box.height - p.h * camera.k) / 2;
    hasMoved = false;
    look();
  }

  function centre(i) {
    const box = picture.getBoundingClientRect(), p = places[i];
    camera.k = Math.max(camera.k, 0.75);
    camera.x = box.width / 2 - (p.x + p.w / 2) * camera.k;
    camera.y = box.height / 2 - (p.y + Math.min(p.h, box.height / camera.k) / 2) * camera.k;
    look();
  }

  // -- Opening --

  function toggle(i) {
    const before = places[model.visible(i)];
    model.open[i - model.count] = !model.open[i - model.count];
    layout();
    const after = places[i];
    camera.x += (before.x + before.w / 2 - after.x - after.w / 2) * camera.k;
    camera.y += (before.y - after.y) * camera.k;
    chosen = model.open[i - model.count] ? -1 : i;
    render();
    look();
    describe(i);
  }

  function openAll(isOpen) {
    let room = 2500;
    model.open = model.open.map((_, k) => {
      if (k === 0) return true;
      room -= model.children[k].length;
      return isOpen && room > 0;
    });
    chosen = -1;
    layout();
    render();
    fit();
    describe(-1);
  }

  function pick(i, isMoving) {
    chosen = i;
    for (let at = model.parent(i); i >= 0 && at >= 0; at = model.parent(at)) model.open[at - model.count] = true;
    layout();
    render();
    if (isMoving && i >= 0) centre(i);
    describe(i);
  }

  // -- The panel --

  function link(i, name) {
    const item = model.items[i];
    return el('button', {type: 'button', onclick: () => model.isDrawn(i) && pick(i, true)},
      el('span', {}, name || item.n || model.title(item)), el('span', {}, (item.k === 3 && item.a ? item.a : model.type(item))));
  }

  function list(title, links) {
    if (!links.length) return [];
    const some = links.slice(0, 40);
    return [el('h4', {}, title), el('div', {class: 'links'}, some, links.length > 40 && el('span', {class: 'soft'}, (links.length - 40) + ' more'))];
  }

  function rows(pairs) {
    return el('dl', {}, pairs.filter(p => p[1] !== undefined && p[1] !== '').map(([a, b]) => [el('dt', {}, a), el('dd', {}, b)]));
  }

  function stepRows(step) {
    return [['computed by', step.k === 'kernel' ? 'a kernel' : step.k], ['kernel or route', step.n], ['reads and writes', bytes(step.b)],
      ['operations', step.f ? scaled(step.f, 'FLOP') : undefined], ['time', step.t === undefined ? undefined : duration(step.t)],
      ['runs', step.r > 1 ? String(step.r) : undefined],
      ['speed', step.t && step.f ? scaled(step.f * step.r / step.t * 1e9, 'FLOP/s') : undefined],
      ['bandwidth', step.t ? scaled(step.b * step.r / step.t * 1e9, 'B/s') : undefined]];
  }

  function describeNode(item) {
    const step = model.step(item), kind = ['', 'input', 'parameter', 'constant'][item.k || 0];
    const together = step ? model.view.nodes.filter(n => n.s === item.s && n !== item).map(n => link(n.number)) : [];
    return [el('h3', {}, item.n || item.v || model.op(item)), el('div', {class: 'type'}, kind || model.op(item), item.t.length ? ' : ' + model.type(item) : ''),
      rows([['output', item.r], ['attributes', item.a], ['phase', model.view.phases ? PHASES[item.p || 0] : undefined]]
        .concat(step ? stepRows(step) : item.s === -2 ? [['computed by', 'nothing: its elements are read where its operand is']] : [])),
      step && step.y && el('p', {class: 'why'}, step.y),
      item.b && list('Bodies', item.b.map(name => el('button', {type: 'button', onclick: () => openBody(name)}, el('span', {}, name), el('span', {}, 'open')))),
      list('Reads', item.i.map(v => link(v % RESULT))), list('Read by', [...new Set(model.readers[item.number])].map(i => link(i))),
      list('In the same kernel', together)];
  }

  function describeGroup(item) {
    const inside = groupSteps(item).map(s => model.steps[s]), step = item.s >= 0 ? model.steps[item.s] : undefined;
    const time = inside.reduce((sum, s) => sum + (s.t || 0), 0), counts = new Map();
    const walk = i => model.items[i].isGroup ? model.children[i - model.count].forEach(walk)
      : !model.items[i].k && counts.set(model.op(model.items[i]), (counts.get(model.op(model.items[i])) || 0) + 1);
    walk(item.number);
    const ops = [...counts].sort((a, b) => b[1] - a[1]);
    return [el('h3', {}, item.n), el('div', {class: 'type'}, step ? 'kernel' : 'group', ' of ' + item.c + (item.c === 1 ? ' op' : ' ops')),
      rows(step ? stepRows(step) : [['steps', inside.length ? String(inside.length) : undefined], ['time', time ? duration(time) : undefined],
        ['operations', inside.some(s => s.f) ? scaled(inside.reduce((sum, s) => sum + s.f, 0), 'FLOP') : undefined]]),
      step && step.y && el('p', {class: 'why'}, step.y),
      ops.length ? [el('h4', {}, 'Ops'), rows(ops.slice(0, 24).map(([op, n]) => [op, String(n)]))] : []];
  }

  function describeAll() {
    const params = model.view.nodes.filter(n => n.k === 2), ops = model.view.nodes.filter(n => !n.k).length, e = model.entry;
    const isCompiled = model.view.kind === 'compiled';
    return [el('h3', {}, model.view.name), el('div', {class: 'type'}, isCompiled ? 'after all passes' : 'as it was written'),
      rows([['ops', String(ops)], ['inputs', String(model.view.nodes.filter(n => n.k === 1).length)], ['parameters', String(params.length)],
        ['device', e.device], ['threads', e.device ? String(e.threads) : undefined], ['steps', e.steps ? String(e.steps.length) : undefined],
        ['working memory', e.memory ? bytes(e.memory.bytes) : undefined]]),
      list('Inputs', model.view.nodes.filter(n => n.k === 1).map(n => link(n.number))),
      list('Outputs', model.view.nodes.filter(n => n.r !== undefined).map(n => link(n.number, n.r))),
      el('p', {class: 'why'}, 'Click a group to open it, its head to close it. Drag to move; scroll to zoom once the graph is clicked. ',
        'Keys: / search, + and \u2212 zoom, 0 fit, Esc back.')];
  }

  function describe(i) {
    const parts = i < 0 ? describeAll() : model.items[i].isGroup ? describeGroup(model.items[i]) : describeNode(model.items[i]);
    panel.classList.toggle('empty', i < 0);
    panel.replaceChildren(...parts.flat(Infinity).filter(Boolean));
    panel.scrollTop = 0;
  }

  function openBody(name) {
    const i = choices.findIndex(c => c.entry === model.entry && c.view.kind === model.view.kind && c.view.name === name);
    if (i >= 0) choose(i);
  }

  // -- Search --

  function matches(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean), list = [];
    for (const item of model.items) {
      if (item.g === undefined) continue;
      const step = model.step(item);
      const where = [item.n || '', item.v || '', model.title(item), item.isGroup ? '' : model.op(item), item.isGroup ? '' : model.type(item), step ? step.n : '', item.r || ''].join(' ').toLowerCase();
      if (words.length && words.every(w => where.includes(w))) list.push(item.number);
      if (list.length === 60) break;
    }
    return list;
  }

  let at = 0;
  function offer() {
    const list = matches(search.value);
    at = Math.min(at, Math.max(0, list.length - 1));
    found.replaceChildren(...list.map((i, k) => el('button', {type: 'button', class: k === at ? 'at' : '', onmousedown: event => {
      event.preventDefault();
      accept(i);
    }}, el('span', {}, cut(model.items[i].n || model.title(model.items[i]), 34)), el('span', {}, cut(model.detail(model.items[i]), 30)))));
    found.classList.toggle('shown', list.length > 0);
    return list;
  }

  function accept(i) {
    found.classList.remove('shown');
    pick(i, true);
  }

  search.addEventListener('input', () => {
    at = 0;
    offer();
  });
  search.addEventListener('blur', () => found.classList.remove('shown'));
  search.addEventListener('keydown', event => {
    const list = matches(search.value);
    if (event.key === 'Enter' && list.length) accept(list[at]);
    else if (event.key === 'ArrowDown') at = Math.min(at + 1, list.length - 1);
    else if (event.key === 'ArrowUp') at = Math.max(at - 1, 0);
    else if (event.key === 'Escape') search.blur();
    else return;
    event.preventDefault();
    if (event.key.startsWith('Arrow')) offer();
  });

  // -- Pointer and keys --

  const pointers = new Map();
  let moved = 0, isActive = false;
  const local = event => {
    const box = picture.getBoundingClientRect();
    return {x: event.clientX - box.left, y: event.clientY - box.top};
  };
  picture.addEventListener('pointerdown', event => {
    pointers.set(event.pointerId, local(event));
    moved = pointers.size > 1 ? 100 : 0;
    isActive = true;
  });
  picture.addEventListener('pointermove', event => {
    const before = pointers.get(event.pointerId), now = local(event);
    if (!before) return;
    const other = [...pointers].find(([id]) => id !== event.pointerId);
    if (other) {
      const span = (a, b) => Math.hypot(a.x - b.x, a.y - b.y);
      zoom(span(now, other[1]) / Math.max(1, span(before, other[1])), (now.x + other[1].x) / 2, (now.y + other[1].y) / 2);
    }
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    camera.x += (now.x - before.x) / (other ? 2 : 1);
    camera.y += (now.y - before.y) / (other ? 2 : 1);
    if (moved > 5) {
      if (!picture.hasPointerCapture(event.pointerId)) picture.setPointerCapture(event.pointerId);
      picture.classList.add('dragging');
      hasMoved = true;
    }
    pointers.set(event.pointerId, now);
    look();
  });
  const release = event => {
    pointers.delete(event.pointerId);
    if (!pointers.size) picture.classList.remove('dragging');
    setTimeout(() => { moved = 0; }, 0); // a click that belongs to this comes first
  };
  picture.addEventListener('pointerup', release);
  picture.addEventListener('pointercancel', release);
  picture.addEventListener('click', event => {
    if (moved > 5) return;
    const target = event.target.closest('[data-item]'), isHead = event.target.classList.contains('head');
    const i = target && (!target.classList.contains('frame') || isHead) ? Number(target.dataset.item) : -1;
    if (i >= model.count) toggle(i);
    else {
      chosen = i;
      render();
      describe(i);
    }
  });
  picture.addEventListener('pointerleave', () => {
    if (!pointers.size) isActive = false;
  });
  picture.addEventListener('wheel', event => {
    if (!isActive && !event.ctrlKey && !event.metaKey) {
      hint.textContent = 'Click the graph, then scroll to zoom';
      hint.classList.add('shown');
      clearTimeout(hint.timer);
      hint.timer = setTimeout(() => hint.classList.remove('shown'), 1400);
      return;
    }
    event.preventDefault();
    const p = local(event);
    hasMoved = true;
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), p.x, p.y);
  }, {passive: false});
  picture.addEventListener('keydown', event => {
    const step = 60, keys = {'+': () => zoom(1.3), '=': () => zoom(1.3), '-': () => zoom(1 / 1.3), 0: () => fit(), '/': () => search.focus(),
      Escape: () => {
        chosen = -1;
        render();
        describe(-1);
      },
      ArrowLeft: () => { camera.x += step; look(); }, ArrowRight: () => { camera.x -= step; look(); },
      ArrowUp: () => { camera.y += step; look(); }, ArrowDown: () => { camera.y -= step; look(); }};
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  new ResizeObserver(() => {
    if (model && !hasMoved) fit();
  }).observe(picture);

  function choose(i) {
    const c = choices[i];
    c.model = c.model || graphModel(c.view, c.entry);
    model = c.model;
    select.value = i;
    search.value = '';
    chosen = -1;
    const hasSteps = model.view.nodes.some(n => n.s >= 0), hasTimes = hasSteps && model.steps.some(s => s.t);
    const ways = [['phase', 'phase']].concat(hasSteps ? [['step', 'kernel']] : [], hasTimes ? [['time', 'time']] : []);
    colors.replaceChildren(...ways.map(([value, name]) => el('option', {value}, name)));
    color = ways.some(w => w[0] === color) ? color : 'phase';
    colors.value = color;
    colorField.hidden = ways.length < 2;
    layout();
    render();
    fit();
    describe(-1);
  }

  const start = () => choose(Math.max(0, choices.findIndex(c => c.view.kind === 'written')));
  return {bar, viewer, start, findNode: (name, kind) => {
    const i = choices.findIndex(c => c.view.kind === kind);
    if (i >= 0) choose(i);
    pick(name, true);
    viewer.scrollIntoView({block: 'center'});
  }};
}
