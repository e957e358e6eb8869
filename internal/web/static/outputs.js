// The outputs that were collected: to view, and to store.
import { bytes, el, json, moment, name, problem, request, update } from './dom.js';

const rowsShown = 200;
const textShown = 1 << 20;

export function outputs(path) {
  const list = el('div', {});
  const view = el('div', { class: 'view', tabindex: '-1' });
  const element = el('section', { 'aria-label': 'Outputs' }, el('h2', {}, 'Outputs'), list, view);
  let picture, known;

  const query = (place, file) => path + '/output?' + new URLSearchParams({ place: place.to, name: file.name });

  function clear() {
    view.replaceChildren();
    if (picture) URL.revokeObjectURL(picture);
    picture = undefined;
  }

  async function show(place, file) {
    clear();
    try {
      const blob = await (await request(query(place, file), { signal: AbortSignal.timeout(600000) })).blob();
      view.append(el('h3', {}, name(file.name)), await contents(file, blob));
    } catch (error) {
      view.append(problem(error));
    }
    view.focus();
  }

  async function contents(file, blob) {
    const head = new Uint8Array(await blob.slice(0, 8).arrayBuffer());
    if ([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a].every((b, i) => head[i] === b)) {
      picture = URL.createObjectURL(new Blob([blob], { type: 'image/png' }));
      return el('img', { src: picture, alt: 'picture ' + file.name });
    }
    const text = await blob.slice(0, textShown).text();
    const cut = file.size > textShown ? el('p', {}, 'The first ' + bytes(textShown) + ' of ' + bytes(file.size) + '.') : null;
    if (text.includes('\0')) return el('p', {}, 'This is no text and no picture of type PNG. Download it.');
    if (/\.csv$/i.test(file.name)) return el('div', {}, csv(text), cut);
    return el('div', {}, el('pre', { tabindex: '0', role: 'region', 'aria-label': file.name }, text), cut);
  }

  async function store(place, file) {
    try {
      const { link } = await json(query(place, file), { method: 'POST' });
      const a = el('a', { href: link, download: file.name.split('/').pop() });
      document.body.append(a);
      a.click();
      a.remove();
    } catch (error) {
      clear();
      view.append(problem(error));
    }
  }

  function listOf(places) {
    if (!places.length) return el('div', {}, el('p', {}, 'None are collected.'));
    return el('div', {}, ...places.flatMap((place) => [
      el('p', {}, 'In ', name(place.to), ':'),
      place.files.length ? el('table', { class: 'files' },
        el('thead', {}, el('tr', {}, ...['File', 'Size', 'Written', 'Actions'].map((t) => el('th', { scope: 'col' }, t)))),
        el('tbody', {}, ...place.files.map((file) => el('tr', {},
          el('th', { scope: 'row' }, name(file.name)), el('td', { class: 'n' }, bytes(file.size)), el('td', { class: 'n' }, moment(file.modified)),
          el('td', {}, el('button', { type: 'button', 'aria-label': 'View ' + file.name, onclick: () => show(place, file) }, 'View'), ' ',
            el('button', { type: 'button', 'aria-label': 'Download ' + file.name, onclick: () => store(place, file) }, 'Download')))))) : el('p', {}, 'No file that is there is as it was collected.'),
      place.more ? el('p', {}, 'There are more files.') : null,
    ].filter((c) => c)));
  }

  return {
    element,
    async refresh() {
      const places = await json(path + '/outputs');
      const text = JSON.stringify(places);
      if (text !== known) list.replaceChildren(listOf(places));
      known = text;
    },
  };
}

// csv shows the first rows as a table.
function csv(text) {
  const all = rows(text);
  const cells = (row, kind) => el('tr', {}, ...row.map((c) => el(kind, kind === 'th' ? { scope: 'col' } : {}, c)));
  const [head = [], ...body] = all.slice(0, rowsShown + 1);
  return el('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': 'table' },
    el('table', {}, el('thead', {}, cells(head, 'th')), el('tbody', {}, ...body.map((r) => cells(r, 'td')))),
    all.length > rowsShown + 1 ? el('p', {}, `The first ${rowsShown} rows.`) : null);
}

function rows(text) {
  const all = [];
  let row = [], cell = '', quoted = false;
  for (let i = text.charCodeAt(0) === 0xfeff ? 1 : 0; i < text.length && all.length <= rowsShown + 1; i++) {
    const c = text[i];
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[i + 1] === '"') cell += text[i++];
      else quoted = false;
    } else if (c === '"' && cell === '') quoted = true;
    else if (c === ',') row.push(cell), (cell = '');
    else if (c === '\n' || c === '\r') {
      if (c === '\r' && text[i + 1] === '\n') i++;
      row.push(cell);
      all.push(row);
      row = [];
      cell = '';
    } else cell += c;
  }
  if (cell !== '' || row.length) all.push([...row, cell]);
  return all;
}
