'use strict';
// The data of the page: a report (docs/reference/json.md), and for each run what there is to draw.

const data = JSON.parse(document.getElementById('data').textContent);
const report = data.report;

function runModel(number) {
  const run = report.runs[number];
  const view = data.views[number];
  const calls = view.blocks.map(
    ([rank, column, start, end, state, colour, meeting, record, text, mark, waits]) =>
      ({kind: 'call', rank, column, start, end, state, colour, meeting, record, text: view.texts[text], mark, waits}));
  const gaps = view.gaps.map(gap =>
    ({kind: 'gap', state: 'gap', mark: '', waits: [], meeting: -1, start: gap.time, end: null, ...gap}));
  const events = view.events.map(event =>
    ({kind: 'event', state: 'event', mark: '', waits: [], meeting: -1, start: event.time, end: null, ...event}));
  const items = [...calls, ...gaps, ...events];
  const lanes = view.lanes.map(() => []);
  items.forEach((item, number) => { item.id = 'i' + number; lanes[item.rank].push(item); });
  for (const lane of lanes) lane.sort((a, b) => a.column - b.column || rankOf(a) - rankOf(b) || a.start - b.start);
  const meetings = new Map();
  for (const call of calls) {
    if (call.meeting < 0) continue;
    if (!meetings.has(call.meeting)) meetings.set(call.meeting, []);
    meetings.get(call.meeting).push(call);
  }
  for (const met of meetings.values()) met.sort((a, b) => a.rank - b.rank);
  const byRecord = new Map(calls.map(call => [call.record, call]));
  const groups = new Map();
  for (const record of run.records) if (record.record === 'GroupMade') groups.set(record.key, record);
  const byRank = [...calls].sort((a, b) => a.rank - b.rank);
  const fault = gaps[0] || byRank.find(call => call.mark === 'guilty') || events[0] ||
    calls.find(call => call.mark) || calls.find(call => call.state === 'open') || calls[calls.length - 1] || null;
  return {number, run, view, items, calls, gaps, lanes, meetings, byRecord, groups, fault};
}

// Events stand behind the call that they follow.
function rankOf(item) { return item.kind === 'event' ? 1 : 0; }

function recordOf(model, item) { return model.run.records[item.record]; }

function stackOf(model, item) {
  const record = recordOf(model, item);
  return (model.run.stacks[record.stack] || []).map(number => model.run.frames[number]);
}

function site(frame) { return frame ? shortPath(frame.file) + ':' + frame.line : 'an unknown line'; }

function shortPath(file) {
  const folder = data.folder.endsWith('/') ? data.folder : data.folder + '/';
  return file.startsWith(folder) ? file.slice(folder.length) : file;
}

function ranksText(ranks) {
  const sorted = [...ranks].sort((a, b) => a - b);
  const parts = [];
  for (let from = 0; from < sorted.length;) {
    let to = from;
    while (to + 1 < sorted.length && sorted[to + 1] === sorted[to] + 1) to++;
    if (to - from > 2) parts.push(sorted[from] + '-' + sorted[to]);
    else parts.push(...sorted.slice(from, to + 1));
    from = to + 1;
  }
  return parts.join(', ');
}

function ranksNamed(ranks) { return (ranks.length === 1 ? 'rank ' : 'ranks ') + ranksText(ranks); }

function milliseconds(value) {
  return value >= 1000 ? (value / 1000).toFixed(2) + ' s' : value.toFixed(value < 10 ? 2 : 1) + ' ms';
}

const opOf = item => item.kind === 'gap' ? item.op : item.text.split('(')[0];
const argumentsOf = item => item.text.slice(opOf(item).length).replace(/^\(|\)$/g, '');

function stateText(item) {
  if (item.kind === 'gap') return 'missing';
  if (item.kind === 'event') return item.text;
  if (item.state === 'open') return item.waits.length ? 'waits for ' + ranksNamed(item.waits) : 'waits';
  return {failed: 'failed', flying: 'never waited for', done: 'done'}[item.state];
}

function groupOf(model, item) {
  const record = recordOf(model, item);
  if (record.record !== 'Call') return '';
  const made = model.groups.get(record.group);
  if (!made) return '';
  const members = made.ranks.length > 8 ? ranksText(made.ranks) : made.ranks.join(', ');
  return (made.name || 'group') + ' [' + members + ']';
}

// "call 3 of dp-cp [0, 1]": how the verdict names it.
function numberText(model, item) {
  const record = recordOf(model, item);
  const group = groupOf(model, item);
  if (record.record === 'Creation') return 'group creation ' + (record.index + 1);
  if (!group || record.op === 'send' || record.op === 'recv') return group;
  return 'call ' + (record.index + 1) + ' of ' + group;
}

function spoken(model, item) {
  const where = site(stackOf(model, item)[0]);
  if (item.kind === 'event') return `rank ${item.rank}: ${item.text} at ${where}`;
  const parts = [`rank ${item.rank}`, item.text, numberText(model, item), 'at ' + where, stateText(item)];
  if (item.kind === 'gap') parts[3] = 'made by others at ' + where;
  if (item.mark === 'guilty') parts.push('at fault');
  return parts.filter(Boolean).join(', ');
}
