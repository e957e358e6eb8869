// Elements and requests. A text of a run becomes a text node, and nothing else.

const controls = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{110bd}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0001}-\u{e007f}]/gu;

// shown makes characters visible that control a terminal or the direction of text.
export function shown(text) {
  return String(text ?? '').replace(controls, (c) => (c === '\t' ? ' ' : '\\u' + c.codePointAt(0).toString(16).padStart(4, '0')));
}

// el makes an element. Children are elements or texts.
export function el(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
    else if (value === true) e.setAttribute(key, '');
    else if (value !== false && value != null) e.setAttribute(key, value);
  }
  e.append(...children.filter((c) => c != null).map((c) => (c instanceof Node ? c : shown(c))));
  return e;
}

// name is a text of somebody else, whose direction stays within it.
export const name = (text) => el('bdi', {}, text);

// update makes the children of an element those of another one. What is equal stays, with
// its focus and its place.
export function update(into, from) {
  const wanted = [...from.childNodes];
  wanted.forEach((node, i) => {
    const old = into.childNodes[i];
    if (!old) into.append(node);
    else if (!old.isEqualNode(node)) old.replaceWith(node);
  });
  while (into.childNodes.length > wanted.length) into.lastChild.remove();
}

export class Refused extends Error {}

// plainTime is how long an answer may take that is no stream.
const plainTime = 30000;

// request asks the server. Its failures have the texts of the server.
export async function request(path, options = {}) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(plainTime), ...options, credentials: 'same-origin', headers: { 'Bee-Key': localStorage.getItem('bee-key') ?? '' } });
  if (answer.status === 401 || answer.status === 403) throw new Refused((await answer.text()).trim());
  if (!answer.ok) {
    const failure = (await answer.json().catch(() => ({}))).error ?? { message: answer.statusText };
    throw Object.assign(new Error(failure.message), { told: true, remedy: failure.remedy });
  }
  return answer;
}

export const json = async (path, options) => (await request(path, options)).json();

// lines passes on the lines of an answer as they come. A server that is silent for long has gone.
export async function lines(path, signal, each) {
  const own = new AbortController();
  signal.addEventListener('abort', () => own.abort());
  const answer = await request(path, { signal: own.signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ''; ; ) {
    const silent = setTimeout(() => own.abort(), 30000);
    const { value, done } = await reader.read().finally(() => clearTimeout(silent));
    if (done) return;
    rest += value;
    const whole = rest.split('\n');
    rest = whole.pop();
    whole.filter((l) => l !== '').forEach(each);
  }
}

export function problem(error) {
  return el('p', { class: 'problem', role: 'alert' }, 'Not shown: ' + error.message + '. ', error.remedy ?? '');
}

export function duration(seconds) {
  if (seconds < 60) return Math.floor(seconds) + ' s';
  if (seconds < 3600) return Math.floor(seconds / 60) + ' min ' + Math.floor(seconds % 60) + ' s';
  if (seconds < 86400) return Math.floor(seconds / 3600) + ' h ' + Math.floor((seconds % 3600) / 60) + ' min';
  return Math.floor(seconds / 86400) + ' d ' + Math.floor((seconds % 86400) / 3600) + ' h';
}

export const moment = (text) => {
  const t = new Date(text);
  const two = (n) => String(n).padStart(2, '0');
  return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
};

export function bytes(n) {
  for (const unit of ['B', 'kB', 'MB', 'GB']) {
    if (n < 1000) return (unit === 'B' ? n : n.toFixed(1)) + ' ' + unit;
    n /= 1000;
  }
  return n.toFixed(1) + ' TB';
}

// marks are the signs of states, beside their words.
const marks = { queued: '…', running: '▶', suspended: '‖', 'set aside': '◇', succeeded: '✓', failed: '✗', stopped: '■' };

export const stateOf = (state) => el('span', { class: 'state-' + state.replace(' ', '-') }, el('span', { 'aria-hidden': 'true', class: 'mark' }, marks[state] ?? '?'), ' ' + state);

export const isOver = (state) => ['succeeded', 'failed', 'stopped'].includes(state);
