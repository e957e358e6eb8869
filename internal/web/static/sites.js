// The sites, with what is on record of them. None is asked.
import { duration, el, json, moment, name, stateOf, update } from './dom.js';

export function sites(main) {
  const body = el('div', {});
  main.append(el('h1', {}, 'Sites'), el('p', {}, 'In order of priority, with what is on record of the newest 300 runs. No site is asked; ', el('code', {}, 'bee doctor'), ' and ', el('code', {}, 'bee plan'), ' ask them.'), body);
  return {
    title: 'sites',
    async refresh() {
      const all = await json('api/sites');
      update(body, el('div', {}, ...all.sites.map(site), el('h2', {}, 'Runs that no site has now'), listOf(all.waiting, 'None.'), all.file ? el('p', { class: 'note' }, 'Of the file ', name(all.file)) : ''));
      return 5000;
    },
  };
}

function site(s) {
  const rows = [
    ['provider', s.provider],
    ['runtime', s.runtime],
    ['slot', s.slot_seconds ? duration(s.slot_seconds) : ''],
    ['attempts', s.attempts],
    ['last attempt', s.last ? moment(s.last) : ''],
    ['its problem', s.problem],
    ['last wait', s.queue_seconds != null ? duration(s.queue_seconds) : ''],
  ].filter(([, value]) => value !== '' && value != null);
  return el('section', {}, el('h2', {}, name(s.name)),
    el('table', { class: 'rows' }, el('tbody', {}, ...rows.map(([key, value]) => el('tr', {}, el('th', { scope: 'row' }, key), el('td', {}, el('bdi', {}, value)))))),
    el('h3', {}, 'Runs there'), listOf(s.runs, 'None.'));
}

function listOf(runs, none) {
  if (!runs.length) return el('p', {}, none);
  return el('ul', {}, ...runs.map((r) => el('li', {}, el('a', { href: '#/runs/' + encodeURIComponent(r.id) }, name(r.name)), ' ', stateOf(r.state), r.why ? ': ' : '', r.why ? name(r.why) : '')));
}
