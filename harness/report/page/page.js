// The page around the picture: verdict, divergence, legend, keys.

const byId = id => document.getElementById(id);
let model = null, pinned = false;
const chart = new Chart(hovered, picked);

function hovered(item) {
  if (pinned || !item || item === chart.active) return;
  chart.activate(item);
  showDetails(model, item, false);
}

function picked(item) {
  pinned = Boolean(item) && !(pinned && item === chart.active);
  chart.activate(item || chart.active);
  showDetails(model, chart.active, pinned);
}

function look(item, pin, share) {
  if (!item) return;
  pinned = pin;
  chart.activate(item);
  chart.reveal(item, share);
  showDetails(model, item, pinned);
}

function head() {
  byId('test').textContent = report.test || 'a run outside pytest';
  byId('runs').hidden = report.runs.length < 2;
  report.runs.forEach((run, n) => {
    const option = make('option', `${n + 1 + report.runs_before}: ${run.function || 'a function'}${run.findings.length ? ', ' + run.findings[0].kind : ''}`);
    option.value = n;
    byId('run').append(option);
  });
}

function facts(run, lanes) {
  const grid = Object.entries(run.layout).filter(([, size]) => size > 1).map(([axis, size]) => `${axis}=${size}`);
  const left = Object.values(run.left_out).reduce((sum, n) => sum + n, 0);
  return [
    run.function && run.function + '()',
    `${lanes.length} rank${lanes.length === 1 ? '' : 's'}` + (grid.length ? ` (${grid.join(', ')})` : ''),
    milliseconds((run.ended - run.began) * 1000),
    left && `${left} earlier records left out`,
    report.made,
  ].filter(Boolean).join(' · ');
}

function showRun(number) {
  model = runModel(number);
  const run = model.run, finding = run.findings[0], lanes = model.view.lanes;
  byId('run').value = number;
  byId('facts').textContent = facts(run, lanes);
  byId('verdict').classList.toggle('long', Boolean(finding) && finding.summary.length > 220);
  byId('badges').replaceChildren(...badges(finding));
  byId('verdict').textContent = finding ? finding.summary : failed();
  byId('others').hidden = run.findings.length < 2;
  byId('others').replaceChildren(...run.findings.slice(1).map(other => make('li', (other.level === 'warning' ? 'warning: ' : '') + other.summary)));
  byId('why').replaceChildren(...why(run.explanation));
  byId('but').hidden = !(finding && report.failure);
  byId('but').textContent = 'The test itself failed with: ' + failed();
  fold('text', data.texts[number], false);
  fold('failure', report.failure, !finding);
  byId('fault').hidden = !finding;
  legend();
  output(run);
  pinned = false;
  chart.show(model);
  showDetails(model, model.fault, false);
}

function fold(id, text, open) {
  byId(id).hidden = !text;
  byId(id).open = open;
  byId(id).querySelector('pre').textContent = text;
}

// The line of pytest's text that says what failed.
function failed() {
  const lines = report.failure.split('\n').filter(line => line.trim());
  const line = lines.find(text => /^E\s/.test(text)) || lines[0] || 'The run ended well.';
  return line.replace(/^E\s+/, '');
}

function badges(finding) {
  if (!finding) return [make('span', 'no finding in this run', 'chip')];
  const kind = finding.detail ? `${finding.kind}: ${finding.detail}` : finding.kind;
  const parts = [make('span', kind, 'chip' + (finding.level === 'error' ? ' bad' : ''))];
  if (finding.ranks.length) parts.push(make('span', `${finding.ranks.length > 1 && finding.ranks.length === model.view.lanes.length ? 'all ranks' : ranksNamed(finding.ranks)} at fault`, 'chip'));
  if (finding.group) parts.push(make('span', `${finding.group.name || 'group'} [${ranksText(finding.group.ranks)}]`, 'chip'));
  return parts;
}

function why(explanation) {
  if (!explanation) return [];
  const cards = [];
  if (explanation.divergence) cards.push(divergence(explanation.divergence, 'where the ranks took different ways'));
  else if (explanation.reason) cards.push(make('p', 'No line is named as the cause: ' + explanation.reason, 'note'));
  for (const other of explanation.differed || []) cards.push(divergence(other, 'they also differed here'));
  return cards;
}

function divergence(found, title) {
  const card = make('div', null, 'card');
  const line = make('div', null, 'code');
  line.append(make('span', `${shortPath(found.file)}:${found.line}`, 'place'), document.createTextNode(found.source));
  const table = make('table', null, 'ways');
  for (const way of found.ways) {
    const row = make('tr');
    const guilty = model.run.findings.length ? model.run.findings[0].ranks : [];
    if (guilty.length < model.view.lanes.length && way.ranks.every(rank => guilty.includes(rank))) row.className = 'bad';
    const values = (way.values || []).map(([name, value]) => `${name}${name.endsWith(':') ? '' : ' ='} ${value}`).join('    ');
    row.append(make('td', ranksNamed(way.ranks)), make('td', way.outcome, 'outcome'), make('td', values, 'code'));
    table.append(row);
  }
  card.append(make('h2', title), line, table);
  if (found.note) card.append(make('p', found.note, 'note'));
  return card;
}

function legend() {
  const entry = (label, title, style, className) => {
    const row = make('span');
    const mark = make('i', null, className);
    if (style) mark.style.background = style;
    row.append(mark, document.createTextNode(label));
    if (title) row.title = title;
    return row;
  };
  const groups = model.view.colours.map(colour => {
    const members = colour.groups.map(ranks => `[${ranksText(ranks)}]`);
    const label = members.length > 1 ? `${colour.label} (${members.length} groups)` : colour.label.startsWith('group ') || !members.length ? colour.label : `${colour.label} ${members[0]}`;
    return entry(label, members.sort().join('  '), `var(--c${colour.slot})`);
  });
  if (model.calls.some(call => call.state === 'open')) groups.push(entry('waits', 'The rank was in this call as the run ended', '', 'open'));
  if (model.gaps.length) groups.push(entry('missing', 'A call that the rank never made', '', 'missing'));
  if ([...model.meetings.values()].some(met => met.some(call => call.column !== met[0].column))) {
    groups.push(entry('met out of step', 'These calls met, though they stand at different places of the program or came in another order', '', 'slant'));
  }
  byId('legend').replaceChildren(...groups);
}

function output(run) {
  const parts = [];
  run.output.forEach((streams, rank) => {
    for (const [name, text] of Object.entries(streams)) {
      if (!text.trim()) continue;
      const stream = make('details');
      stream.append(make('summary', `${name} of rank ${rank}`), make('pre', text));
      parts.push(stream);
    }
  });
  byId('output').hidden = !parts.length;
  byId('output').replaceChildren(make('h2', 'What the ranks printed'), ...parts);
}

function mode(name) {
  chart.mode = name;
  byId('by-order').setAttribute('aria-pressed', String(name === 'order'));
  byId('by-time').setAttribute('aria-pressed', String(name === 'time'));
  byId('corner').textContent = name === 'order' ? 'position' : 'time';
  if (!model) return;
  chart.redraw();
  if (chart.active) chart.reveal(chart.active, 0.6);
}

const THEMES = ['auto', 'light', 'dark'];
byId('theme').addEventListener('click', () => {
  const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme || 'auto') + 1) % 3];
  document.documentElement.dataset.theme = next;
  byId('theme').textContent = 'theme: ' + next;
});
byId('by-order').addEventListener('click', () => mode('order'));
byId('by-time').addEventListener('click', () => mode('time'));
byId('in').addEventListener('click', () => chart.zoom(1.3));
byId('out').addEventListener('click', () => chart.zoom(1 / 1.3));
byId('fit').addEventListener('click', () => { chart.fit(); chart.box.scrollLeft = 0; });
byId('fault').addEventListener('click', () => look(model.fault, false, 0.6));
byId('run').addEventListener('change', event => showRun(Number(event.target.value)));
chart.svg.addEventListener('focus', () => look(chart.active || model.fault, pinned));

document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === 'SELECT') return;
  const inChart = document.activeElement === chart.svg;
  const keys = {'+': () => chart.zoom(1.3), '=': () => chart.zoom(1.3), '-': () => chart.zoom(1 / 1.3), '0': () => chart.fit(),
    f: () => look(model.fault, false, 0.6), Escape: () => look(chart.active, false)};
  if (inChart && ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End'].includes(event.key)) {
    look(chart.step(event.key), pinned);
  } else if (inChart && (event.key === 'Enter' || event.key === ' ')) {
    look(chart.active, !pinned);
  } else if (keys[event.key]) {
    keys[event.key]();
  } else {
    return;
  }
  event.preventDefault();
});

head();
mode('order');
showRun(report.runs.length - 1);
document.documentElement.dataset.drawn = performance.now().toFixed(0);
