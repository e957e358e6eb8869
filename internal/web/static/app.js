// The pages: which one the address means, and whether what it shows is new.
import { Refused, el, lines, moment, problem, shown } from './dom.js';
import { array } from './array.js';
import { compare } from './compare.js';
import { runs } from './runs.js';
import { run } from './run.js';
import { sites } from './sites.js';

const main = document.getElementById('main');
const link = document.getElementById('link');
const wrong = document.getElementById('problem');
let page; // has refresh(), and end() where it has something to end
let fresh; // when the facts were read
let next = 0; // the timer of the next look
let busy = false;

function show(text, old) {
  if (link.textContent !== text) link.textContent = text;
  document.body.classList.toggle('old', old);
}

// look reads the facts of the page again, and plans the next look.
async function look() {
  clearTimeout(next);
  if (busy) return void (next = setTimeout(look, 200));
  busy = true;
  const of = page;
  let rest = 10000;
  try {
    rest = (await of.refresh()) ?? rest;
    fresh = new Date();
    show('', false);
    wrong.replaceChildren();
  } catch (error) {
    if (of === page) failed(error);
    rest = 3000;
  }
  busy = false;
  clearTimeout(next);
  next = setTimeout(look, of === page ? rest : 0);
}

// failed reports that the page is old, or what the server has reported.
function failed(error) {
  const since = fresh ? ' What is shown is old: it is of ' + moment(fresh) + '.' : '';
  if (error instanceof Refused) show('Refused. Run `bee web` again, or open the newest address that it has printed.' + since, true);
  else if (error.told) {
    fresh = new Date();
    show('', false);
    wrong.replaceChildren(problem(error));
  } else show('`bee web` does not answer.' + since + ' This page tries again.', true);
}

let soon = 0;
function changed() {
  if (soon) return;
  soon = setTimeout(() => {
    soon = 0;
    look();
  }, 300);
}

// seen waits until the tab is not hidden.
async function seen() {
  while (document.hidden) await new Promise((done) => document.addEventListener('visibilitychange', done, { once: true }));
}

let events = new AbortController();

// follow looks again as soon as something happens to a run. A hidden tab has no stream of
// events: browsers allow six connections to a host, over all tabs.
async function follow() {
  for (;;) {
    await seen();
    events = new AbortController();
    try {
      await lines('api/events', events.signal, (line) => {
        if (line.startsWith('data: ')) changed();
      });
    } catch (error) {
      if (page && !busy && !document.hidden) look(); // reports what is the matter
    }
    if (events.signal.aborted) continue;
    await new Promise((done) => setTimeout(done, 2000));
    changed();
  }
}

function route() {
  const [path, query] = location.hash.replace(/^#/, '').split('?');
  const parameters = new URLSearchParams(query);
  const parts = path.split('/').filter((p) => p !== '').map(decodeURIComponent);
  page?.end?.();
  main.replaceChildren();
  wrong.replaceChildren();
  fresh = undefined;
  const pages = {
    runs: () => run(main, parts[1], changed),
    arrays: () => array(main, parts[1], parameters),
    compare: () => compare(main, parts[1], parts[2]),
    sites: () => sites(main),
  };
  page = parts.length === 0 ? runs(main, parameters) : (pages[parts[0]] ?? (() => nothing()))();
  for (const a of document.querySelectorAll('nav a')) {
    if (a.getAttribute('href') === '#/' + (parts[0] === 'sites' ? 'sites' : '')) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  document.title = 'bee: ' + shown(page.title);
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
  look();
}

function nothing() {
  main.append(el('h1', {}, 'No such page'));
  return { title: 'no such page', refresh: async () => 60000 };
}

document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener('hashchange', route);
addEventListener('online', changed);
addEventListener('storage', changed); // the key of a new process
document.addEventListener('visibilitychange', () => (document.hidden ? events.abort() : changed()));
route();
follow();
