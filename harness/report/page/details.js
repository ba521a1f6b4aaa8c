// What is said of the call that is looked at. All text goes in as text: nothing is read as HTML.

function make(name, text, className) {
  const element = document.createElement(name);
  if (text !== undefined && text !== null) element.textContent = text;
  if (className) element.className = className;
  return element;
}

function showDetails(model, item, pinned) {
  const box = document.getElementById('details');
  box.classList.toggle('pinned', pinned);
  if (!item) {
    box.replaceChildren(make('p', 'Point at a call, or walk the calls with the arrow keys.', 'hint'));
    return;
  }
  const record = recordOf(model, item);
  const stack = stackOf(model, item);
  const lane = model.view.lanes[item.rank];
  const parts = [make('h2', item.text)];
  const rows = [['rank', 'rank ' + item.rank + (lane.place ? ` (${lane.place})` : '')]];
  if (item.kind === 'gap') {
    parts.push(make('p', `rank ${item.rank} never made this call`, 'bad'));
    rows.push(['missing', numberText(model, item)], ['then', lane.text ? `${lane.state} ${lane.text}` : lane.state],
      ['others', `at ${site(stack[0])}`]);
  } else if (item.kind === 'event') {
    rows.push(['at', site(stack[0])], ['time', milliseconds(item.start)]);
  } else {
    if (item.mark === 'guilty') parts.push(make('p', 'at fault', 'bad'));
    parts.push(make('p', stateText(item), item.state === 'open' || item.state === 'failed' ? 'bad' : ''));
    rows.push(['call', numberText(model, item)], ...argumentRows(record), ['at', site(stack[0])]);
    if (stack[0] && stack[0].loop) rows.push(['loop', loopText(stack)]);
    if (record.label) rows.push(['label', record.label]);
    if (record.async_op) rows.push(['async', 'yes']);
    if (record.from_python === false) rows.push(['made by', 'C++ (such as DDP in backward)']);
    if (record.during) rows.push(['during', record.during]);
    rows.push(['began', milliseconds(item.start)],
      ['took', item.end === null ? 'never ended' : milliseconds(item.end - item.start)]);
    if (item.meeting >= 0) rows.push(['met', metText(model, item)]);
  }
  const list = make('dl');
  for (const [name, value] of rows) if (value) list.append(make('dt', name), make('dd', value));
  parts.push(list);
  if (stack.length) {
    parts.push(make('h3', item.kind === 'gap' ? `stack of rank ${record.rank}, which made it` : 'call stack, the call first'));
    const frames = make('ol');
    for (const frame of stack) {
      const row = make('li', `${shortPath(frame.file)}:${frame.line} in ${frame.function}`);
      if (frame.source) row.append(make('code', frame.source.trim()));
      frames.append(row);
    }
    parts.push(frames);
  }
  box.replaceChildren(...parts);
}

function argumentRows(record) {
  const tensors = list => (list || []).map(t => `${t.dtype}[${t.shape.join(', ')}]${t.contiguous === false ? ' not contiguous' : ''}`).join('\n');
  const rows = [];
  if (record.reduce_op) rows.push(['reduce op', record.reduce_op]);
  if (record.root !== null && record.root !== undefined) rows.push(['root', 'rank ' + record.root]);
  if (record.op === 'send') rows.push(['to', 'rank ' + record.peer]);
  if (record.op === 'recv') rows.push(['from', record.peer === null ? 'any rank' : 'rank ' + record.peer]);
  if (record.tag) rows.push(['tag', String(record.tag)]);
  rows.push(['input', tensors(record.inputs)], ['output', tensors(record.outputs)]);
  if (record.input_splits) rows.push(['input splits', record.input_splits.join(', ')]);
  if (record.output_splits) rows.push(['output splits', record.output_splits.join(', ')]);
  return rows;
}

function loopText(stack) {
  return [...stack].reverse().flatMap(frame => frame.loop || []).map(([name, value]) => `${name}=${value}`).join(', ');
}

function metText(model, item) {
  const others = model.meetings.get(item.meeting).filter(other => other !== item);
  const where = other => `${other.text} at ${site(stackOf(model, other)[0])}`;
  const same = where(item), by = new Map();
  for (const other of others) {
    const key = where(other) === same ? 'the same call' : where(other);
    by.set(key, [...(by.get(key) || []), other.rank]);
  }
  return [...by].map(([key, ranks]) => `${ranksNamed(ranks)}: ${key}`).join('; ');
}
