// SPDX-License-Identifier: Apache-2.0
// browser.mjs: opens reports in a headless Chromium and uses them: no errors, no request besides the file, search finds
// and shows nodes, groups open and close, the wheel zooms. Talks to the browser through a pipe (the DevTools protocol).
//   node tests/report/browser.mjs [--shots DIR] FILE.html...    the last line is `N passed, N failed`
// CHROMIUM names the browser (chromium).
import {spawn} from 'node:child_process';
import {mkdirSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {basename, join, resolve} from 'node:path';
import {pathToFileURL} from 'node:url';

const args = process.argv.slice(2);
let shots = null;
if (args[0] === '--shots') {
  shots = resolve(args[1]);
  mkdirSync(shots, {recursive: true});
  args.splice(0, 2);
}

let passed = 0, failed = 0;
function check(what, ok, found) {
  if (ok) passed++;
  else {
    failed++;
    console.log('FAILED: ' + what + (found === undefined ? '' : ': ' + JSON.stringify(found).slice(0, 300)));
  }
}

// ---- The browser ----

const profile = mkdtempSync(join(tmpdir(), 'flx_browser_'));
const browser = spawn(process.env.CHROMIUM || 'chromium', ['--headless=new', '--no-sandbox', '--disable-gpu', '--no-first-run',
  '--hide-scrollbars', '--user-data-dir=' + profile, '--remote-debugging-pipe'], {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']});
const waiting = new Map(), listeners = [];
let number = 0, rest = '';
browser.stdio[4].on('data', data => {
  const parts = (rest + data).split('\0');
  rest = parts.pop();
  for (const part of parts) {
    const message = JSON.parse(part), wait = waiting.get(message.id);
    waiting.delete(message.id);
    if (wait && message.error) wait.reject(new Error(message.error.message));
    else if (wait) wait.resolve(message.result);
    else listeners.forEach(listen => listen(message));
  }
});

function send(method, params, sessionId) {
  const id = ++number;
  browser.stdio[3].write(JSON.stringify({id, method, params: params || {}, sessionId}) + '\0');
  return new Promise((resolve, reject) => waiting.set(id, {resolve, reject}));
}

const pause = ms => new Promise(resolve => setTimeout(resolve, ms));

// A page with what went wrong in it.
async function open(file, width, height, dark) {
  const {targetId} = await send('Target.createTarget', {url: 'about:blank'});
  const {sessionId} = await send('Target.attachToTarget', {targetId, flatten: true});
  const call = (method, params) => send(method, params, sessionId), errors = [], requests = [], url = pathToFileURL(resolve(file)).href;
  const listen = message => {
    if (message.sessionId !== sessionId) return;
    const p = message.params;
    if (message.method === 'Runtime.exceptionThrown') errors.push(p.exceptionDetails.exception?.description || p.exceptionDetails.text);
    if (message.method === 'Runtime.consoleAPICalled' && (p.type === 'error' || p.type === 'warning')) errors.push(p.args.map(a => a.value).join(' '));
    if (message.method === 'Log.entryAdded' && p.entry.level === 'error') errors.push(p.entry.text);
    if (message.method === 'Network.requestWillBeSent' && p.request.url !== url) requests.push(p.request.url);
  };
  listeners.push(listen);
  for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await call(domain + '.enable');
  await call('Emulation.setDeviceMetricsOverride', {width, height, deviceScaleFactor: 1, mobile: width < 600});
  await call('Emulation.setEmulatedMedia', {features: [{name: 'prefers-color-scheme', value: dark ? 'dark' : 'light'}]});
  const loaded = new Promise(resolve => listeners.push(m => m.sessionId === sessionId && m.method === 'Page.loadEventFired' && resolve()));
  await call('Page.navigate', {url});
  await loaded;
  await pause(500);
  const evaluate = async expression => {
    const r = await call('Runtime.evaluate', {expression, returnByValue: true, awaitPromise: true});
    if (r.exceptionDetails) errors.push(r.exceptionDetails.exception?.description || r.exceptionDetails.text);
    return r.result.value;
  };
  return {call, errors, requests, evaluate, close: async () => {
    listeners.splice(listeners.indexOf(listen), 1);
    await send('Target.closeTarget', {targetId});
  }};
}

async function shoot(page, name, wholePage) {
  if (!shots) return;
  const size = wholePage ? await page.evaluate('({width: innerWidth, height: Math.min(document.documentElement.scrollHeight, 9000)})') : null;
  const {data} = await page.call('Page.captureScreenshot', {format: 'png', captureBeyondViewport: !!size,
    clip: size ? {x: 0, y: 0, width: size.width, height: size.height, scale: 1} : undefined});
  writeFileSync(join(shots, name + '.png'), Buffer.from(data, 'base64'));
}

async function click(page, x, y) {
  for (const type of ['mousePressed', 'mouseReleased']) await page.call('Input.dispatchMouseEvent', {type, x, y, button: 'left', clickCount: 1});
  await pause(80);
}

// ---- What a graph must do ----

async function useGraph(page, name) {
  const camera = () => page.evaluate(`document.querySelector('.canvas svg > g').getAttribute('transform')`);
  const count = () => page.evaluate(`document.querySelectorAll('.item').length`);
  check(name + ': boxes are drawn', await count() > 0);
  check(name + ': no box has a position that is not a number', !(await page.evaluate(`document.querySelector('.canvas').innerHTML.includes('NaN')`)));
  const overlap = await page.evaluate(`(() => {
    const boxes = [...document.querySelectorAll('.item')].map(e => e.querySelector('.box').getBoundingClientRect());
    for (let i = 0; i < boxes.length; i++) for (let k = 0; k < i; k++) {
      const a = boxes[i], b = boxes[k];
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1) return [i, k];
    }
    return null;
  })()`);
  check(name + ': boxes do not overlap', overlap === null, overlap);

  await page.evaluate(`document.querySelector('.canvas').scrollIntoView({block: 'center', behavior: 'instant'}), 0`);
  await pause(500);
  const box = await page.evaluate(`(r => ({x: r.left + r.width / 2, y: r.top + r.height / 2, left: r.left, top: r.top}))(document.querySelector('.canvas').getBoundingClientRect())`);
  const before = await camera();
  await click(page, box.left + 8, box.top + 8);
  await page.call('Input.dispatchMouseEvent', {type: 'mouseWheel', x: box.x, y: box.y, deltaX: 0, deltaY: -240});
  await pause(120);
  const zoomed = await camera();
  check(name + ': the wheel zooms', zoomed !== before && Number(zoomed.match(/scale\((.*)\)/)[1]) > Number(before.match(/scale\((.*)\)/)[1]), [before, zoomed]);
  await page.call('Input.dispatchMouseEvent', {type: 'mousePressed', x: box.left + 8, y: box.top + 8, button: 'left', buttons: 1});
  await page.call('Input.dispatchMouseEvent', {type: 'mouseMoved', x: box.left + 90, y: box.top + 60, button: 'left', buttons: 1});
  await page.call('Input.dispatchMouseEvent', {type: 'mouseReleased', x: box.left + 90, y: box.top + 60, button: 'left'});
  await pause(80);
  check(name + ': dragging moves', await camera() !== zoomed);
  await page.evaluate(`[...document.querySelectorAll('.tools button')].find(b => b.title === 'Fit').click(), 0`);

  const groups = await page.evaluate(`document.querySelectorAll('.item.group').length`);
  if (groups) {
    const closed = await count();
    await page.evaluate(`document.querySelector('.item.group .box').dispatchEvent(new MouseEvent('click', {bubbles: true})), 0`);
    const opened = await count();
    check(name + ': a group opens', opened > closed, [closed, opened]);
    await page.evaluate(`document.querySelectorAll('.bar button').forEach(b => b.textContent === 'Close all' && b.click()), 0`);
    const least = await count();
    check(name + ': groups close', least < opened, [opened, least]);
  }
  await page.evaluate(`document.querySelectorAll('.bar button').forEach(b => b.textContent === 'Open all' && b.click()), 0`);
  const wanted = await page.evaluate(`[...document.querySelectorAll('.item:not(.group) .title')].map(e => e.textContent).sort((a, b) => b.length - a.length)[0]`);
  await page.evaluate(`(i => { i.focus(); i.value = ${JSON.stringify(wanted.replace(/\u2026$/, ''))}; i.dispatchEvent(new Event('input')); })(document.querySelector('.find input'))`);
  await pause(50);
  check(name + ': search offers results', await page.evaluate(`document.querySelectorAll('.found.shown button').length`) > 0, wanted);
  await page.evaluate(`document.querySelector('.find input').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true})), 0`);
  await pause(100);
  const chosen = await page.evaluate(`document.querySelector('.item.hot .title')?.textContent`);
  check(name + ': search shows the node', chosen === wanted, [wanted, chosen]);
  check(name + ': the node is in the window', await page.evaluate(`(r => { const e = document.querySelector('.item.hot');
    if (!e) return document.querySelector('.panel h3') !== null;
    const b = e.getBoundingClientRect(); return b.left >= r.left - 1 && b.right <= r.right + 1 && b.bottom > r.top && b.top < r.bottom; })(document.querySelector('.canvas').getBoundingClientRect())`));
  const all = await page.evaluate(`document.querySelector('.canvas').innerHTML.includes('NaN')`);
  check(name + ': nothing is NaN with all groups open', !all);
}

async function useCurves(page, name) {
  const box = await page.evaluate(`(e => { e.scrollIntoView({block: 'center', behavior: 'instant'}); const r = e.getBoundingClientRect(); return {x: r.left, y: r.top, w: r.width, h: r.height}; })(document.querySelector('.chart svg'))`);
  await pause(500);
  const now = await page.evaluate(`(r => ({x: r.left, y: r.top, w: r.width, h: r.height}))(document.querySelector('.chart svg').getBoundingClientRect())`);
  await page.call('Input.dispatchMouseEvent', {type: 'mouseMoved', x: now.x + now.w * 0.6, y: now.y + now.h / 2});
  await pause(150);
  const text = await page.evaluate(`document.querySelector('.tip.shown')?.textContent || ''`);
  check(name + ': hovering shows values', text.includes('step'), text);
  check(name + ': curves are drawn', await page.evaluate(`[...document.querySelectorAll('.chart .line')].every(p => p.getAttribute('d').startsWith('M'))`), box);
  await page.evaluate(`(s => { s.value = 0.9; s.dispatchEvent(new Event('input')); })(document.querySelector('input[type=range]'))`);
  check(name + ': smoothing keeps the raw curve', await page.evaluate(`document.querySelectorAll('.chart .raw').length`) > 0);
}

async function tryPage(file, width, height, dark, isFull) {
  const name = basename(file, '.html') + (dark ? ' dark' : '') + (width < 600 ? ' phone' : ''), page = await open(file, width, height, dark);
  await shoot(page, name.replace(/ /g, '_'), true);
  check(name + ': the page is made', await page.evaluate(`document.querySelectorAll('section').length`) > 0);
  check(name + ': numbers of the profile are readable', !(await page.evaluate(`[...document.querySelectorAll('table.data')].some(t => /e\\+|NaN|undefined/.test(t.textContent))`)));
  check(name + ': no sideways scrolling', await page.evaluate(`document.documentElement.scrollWidth <= innerWidth`), await page.evaluate(`document.documentElement.scrollWidth`));
  if (isFull && await page.evaluate(`!!document.querySelector('.chart')`)) await useCurves(page, name);
  if (isFull && await page.evaluate(`!!document.querySelector('.viewer')`)) {
    await useGraph(page, name);
    await shoot(page, name.replace(/ /g, '_') + '_found', false);
    const compiled = await page.evaluate(`[...document.querySelectorAll('select[aria-label=Graph] option')].findIndex(o => o.textContent.endsWith(', compiled'))`);
    if (compiled >= 0) {
      await page.evaluate(`(s => { s.value = ${compiled}; s.dispatchEvent(new Event('change')); })(document.querySelector('select[aria-label=Graph]'))`);
      await page.evaluate(`(s => { s.value = 'step'; s.dispatchEvent(new Event('change')); })(document.querySelector('select[aria-label=Colour]'))`);
      await shoot(page, name.replace(/ /g, '_') + '_compiled', false);
      await useGraph(page, name + ' compiled');
    }
  }
  check(name + ': no errors', page.errors.length === 0, page.errors);
  check(name + ': no requests', page.requests.length === 0, page.requests);
  await page.close();
}

try {
  for (const file of args) {
    await tryPage(file, 1360, 860, false, true);
    await tryPage(file, 1360, 860, true, false);
    await tryPage(file, 390, 780, false, false);
  }
} catch (error) {
  failed++;
  console.log(error.stack);
}
await Promise.race([send('Browser.close'), pause(2000)]);
browser.kill();
await pause(300);
rmSync(profile, {recursive: true, force: true, maxRetries: 5});
console.log(passed + ' passed, ' + failed + ' failed');
process.exit(failed ? 1 : 0);
