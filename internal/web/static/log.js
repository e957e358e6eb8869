// The log of a run. It reads parts of bounded size, and shows a bounded number of pieces and characters.
import { Refused, el, isOver, lines, moment } from './dom.js';

const most = 4000; // pieces that are shown
const mostText = 4 << 20; // characters of them

export function log(path, first) {
  const out = el('pre', { tabindex: '0', role: 'region', 'aria-label': 'What was printed', class: 'log' });
  const attempt = el('select', { name: 'attempt' });
  const follow = el('input', { type: 'checkbox', name: 'follow', checked: !isOver(first.state) });
  const find = el('input', { type: 'search', name: 'find', maxlength: '200' });
  const status = el('p', { role: 'status', class: 'note' });
  const earlier = el('button', { type: 'button', onclick: () => before() }, 'Earlier lines');
  const newest = el('button', { type: 'button', onclick: () => end() }, 'End of the log');
  const search = el('form', { class: 'filters', 'aria-label': 'Log', onsubmit: (e) => { e.preventDefault(); find.value ? found() : end(); } },
    el('label', {}, 'Attempt ', attempt), el('label', { class: 'check' }, follow, ' follow'), el('label', {}, 'Lines with ', find), el('button', {}, 'Find'), earlier, newest);
  const element = el('section', { 'aria-label': 'Log' }, el('h2', {}, 'Log'), search, status, out,
    el('p', { class: 'note' }, 'Standard error is in italics. ', el('code', {}, 'bee logs'), ' prints all of it.'));
  let reading = new AbortController();
  let from; // the offset of the first piece that is shown
  let size = 0; // characters that are shown

  // read asks for a part, and ends the one before.
  async function read(query, each) {
    reading.abort();
    const own = (reading = new AbortController());
    const q = new URLSearchParams({ attempt: attempt.value || '0', ...query });
    try {
      await lines(path + '/log?' + q, own.signal, (line) => {
        const piece = JSON.parse(line);
        if (piece.error) return void (status.textContent = piece.error.message);
        if (reading === own) each(piece);
      });
      return reading === own;
    } catch (error) {
      if (reading === own && !(error instanceof Refused)) status.textContent = 'The log is not followed now.';
      return false;
    }
  }

  function spanOf(p) {
    const e = Object.assign(el('span', { class: p.stream, title: moment(p.time) }, p.text), { at: p.at });
    size += e.textContent.length;
    return e;
  }

  function clear() {
    out.replaceChildren();
    size = 0;
    from = undefined;
  }

  // bound drops pieces at one end, where too much is shown.
  function bound(end) {
    while (out.childNodes.length > most || (size > mostText && out.childNodes.length > 1)) {
      size -= out[end].textContent.length;
      out[end].remove();
    }
    from = out.firstChild?.at;
  }

  function add(p) {
    const below = out.scrollHeight - out.scrollTop - out.clientHeight < 40;
    out.append(spanOf(p));
    bound('firstChild');
    if (below) out.scrollTop = out.scrollHeight;
  }

  async function end() {
    begun = true;
    clear();
    status.textContent = '';
    let next = -1;
    for (;;) {
      const live = follow.checked;
      const query = next < 0 ? {} : { from: next };
      const is = await read(live ? { ...query, follow: '1' } : query, (p) => {
        next = p.next;
        add(p);
      });
      if (!is && reading.signal.aborted) return;
      if (!live || over) break;
      const own = reading;
      await new Promise((done) => setTimeout(done, 1500));
      if (own !== reading || own.signal.aborted) return;
    }
    if (!out.childNodes.length) status.textContent = 'Nothing was printed.';
  }

  async function before() {
    if (!from) return void (status.textContent = 'This is the beginning of the log.');
    follow.checked = false;
    const pieces = [];
    const until = from;
    if (!(await read({ before: until }, (p) => pieces.push(p)))) return;
    const height = out.scrollHeight;
    out.prepend(...pieces.map(spanOf));
    const added = out.scrollHeight - height;
    bound('lastChild');
    if (!pieces.length) from = 0;
    out.scrollTop += added;
    status.textContent = from ? '' : 'This is the beginning of the log.';
  }

  async function found() {
    follow.checked = false;
    clear();
    let n = 0;
    status.textContent = 'Searching …';
    const done = await read({ find: find.value }, (p) => {
      n++;
      out.append(el('button', { type: 'button', class: 'found', title: 'Show this place', onclick: () => at(p.at) }, p.text));
    });
    if (done) status.textContent = n === 0 ? 'No line has this text.' : n >= 200 ? 'The first 200 lines with this text.' : n + (n === 1 ? ' line has this text.' : ' lines have this text.');
  }

  async function at(offset) {
    clear();
    status.textContent = '';
    await read({ from: offset }, add);
    out.scrollTop = 0;
  }

  let over = false;
  let begun = false;
  attempt.addEventListener('change', end);
  follow.addEventListener('change', end);
  return {
    element,
    end: () => reading.abort(),
    // facts are those of the run, which may have a further attempt.
    facts(run) {
      const before = attempt.options.length;
      over = isOver(run.state);
      for (const a of run.attempts.slice(before)) attempt.append(el('option', { value: a.number }, a.number + ' on ' + a.site));
      if (run.attempts.length > before) {
        attempt.value = run.attempts.length;
        end();
      } else if (before === 0 && run.pack) { // the log is a part of that of the pack
        if (!begun) end();
      } else if (before === 0) status.textContent = 'Nothing was printed.';
    },
  };
}
