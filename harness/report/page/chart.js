// The picture: lanes of ranks, only what is in view is in the document.

const SVG = 'http://www.w3.org/2000/svg';
const MARGIN = 14;
const AXIS = 27;
const NARROWEST = 2;
const CROWD = 1500;    // from so many calls in view on, they are drawn without words

function svg(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

class Chart {
  constructor(onHover, onPick) {
    this.box = document.getElementById('chart');
    this.svg = document.getElementById('lanes');
    this.axis = document.getElementById('axis');
    this.names = document.getElementById('names');
    this.mode = 'order';
    this.active = null;
    this.shown = new Map();
    this.pending = false;
    this.box.addEventListener('scroll', () => this.later());
    new ResizeObserver(() => this.resized()).observe(this.box);
    this.svg.addEventListener('mousemove', event => onHover(this.itemAt(event)));
    this.svg.addEventListener('mouseleave', () => onHover(null));
    this.svg.addEventListener('click', event => onPick(this.itemAt(event)));
  }

  show(model) {
    this.model = model;
    const ranks = model.view.lanes.length;
    this.height = ranks <= 8 ? 64 : ranks <= 16 ? 52 : ranks <= 32 ? 32 : 22;
    this.inset = ranks <= 8 ? 12 : ranks <= 16 ? 7 : ranks <= 32 ? 4 : 2;
    this.compact = ranks > 16;
    this.box.classList.toggle('compact', this.compact);
    this.active = null;
    // Right of the last call: how ranks ended, arrows of a cycle.
    this.margin = model.view.lanes.some(lane => lane.ended) ? 150 : model.view.cycle.length ? 110 : 24;
    this.everyone = model.view.lanes.every(lane => lane.guilty);
    this.drawNames();
    this.measure();
    this.defaultZoom();
    this.frame();
    this.active = model.fault;
    if (this.active) this.reveal(this.active, 0.6);
    this.activate(this.active);
  }

  resized() {
    if (!this.model) return;
    const before = this.seen;
    this.measure();
    if (before.width !== this.seen.width || before.names !== this.seen.names) this.redraw();
    else if (before.height !== this.seen.height) this.draw();
  }

  // -- where things are

  // Asked for once for each size of the window: to ask makes the browser lay everything out.
  measure() {
    this.seen = {width: this.box.clientWidth, height: this.box.clientHeight, names: this.names.offsetWidth};
  }

  room() { return Math.max(200, this.seen.width - this.seen.names - 2); }

  defaultZoom() {
    const [least, usual] = this.compact ? [80, 92] : [100, 132];
    const fits = (this.room() - MARGIN - this.margin) / Math.max(1, this.model.view.columns);
    this.column = fits < least ? usual : Math.min(190, fits);
    this.scale = this.fitScale();
  }

  fitScale() { return (this.room() - MARGIN - this.margin) / Math.max(0.001, this.model.view.span); }

  fit() {
    const fits = (this.room() - MARGIN - this.margin) / Math.max(1, this.model.view.columns);
    this.column = Math.min(240, Math.max(NARROWEST, fits));
    this.scale = this.fitScale();
    this.redraw();
  }

  // What is looked at, or else the middle, stays where it is.
  zoom(factor) {
    const room = this.room(), old = this.mode === 'order' ? this.column : this.scale;
    const anchor = this.active && this.inView(this.active) ? this.x(this.active) : this.box.scrollLeft + room / 2;
    const offset = anchor - this.box.scrollLeft;
    this.column = Math.min(420, Math.max(NARROWEST, this.column * factor));
    this.scale = Math.min(this.fitScale() * 4000, Math.max(this.fitScale() / 2, this.scale * factor));
    const ratio = (this.mode === 'order' ? this.column : this.scale) / old;
    this.redraw();
    this.box.scrollLeft = (anchor - MARGIN) * ratio + MARGIN - offset;
  }

  x(item) {
    if (this.mode === 'order') {
      const left = MARGIN + item.column * this.column;
      if (item.kind === 'event') return left + this.column - 2;
      return left + this.column / 2 - this.width(item) / 2;
    }
    const x = MARGIN + item.start * this.scale;
    return item.kind === 'gap' ? Math.min(x, this.totalWidth() - this.width(item) - 6) : x;
  }

  gutter() { return Math.min(12, this.column * 0.1); }

  width(item) {
    if (item.kind === 'event') return 10;
    if (this.mode === 'order') {
      const width = Math.max(1.5, this.column - 2 * this.gutter());
      return item.kind === 'gap' || item.mark === 'guilty' ? Math.max(9, width) : width;
    }
    if (item.kind === 'gap') return 132;
    const end = item.end === null ? this.model.view.span : item.end;
    return Math.max(4, (end - item.start) * this.scale);
  }

  y(rank) { return rank * this.height; }

  middle(rank) { return (rank + 0.5) * this.height; }

  totalWidth() {
    const inner = this.mode === 'order' ? this.model.view.columns * this.column : this.model.view.span * this.scale;
    return Math.max(this.room(), Math.ceil(MARGIN + inner + this.margin));
  }

  inView(item) {
    const x = this.x(item), y = this.y(item.rank);
    return x + this.width(item) > this.box.scrollLeft && x < this.box.scrollLeft + this.room() &&
      y + this.height > this.box.scrollTop && y < this.box.scrollTop + this.seen.height - AXIS;
  }

  reveal(item, share) {
    const x = this.x(item), width = Math.min(this.width(item), this.room() / 2);
    const left = this.box.scrollLeft, room = this.room();
    if (share) this.box.scrollLeft = x - room * share;
    else if (x < left + 8) this.box.scrollLeft = x - 40;
    else if (x + width > left + room - 8) this.box.scrollLeft = x + width - room + 60;
    const y = this.y(item.rank), top = this.box.scrollTop, height = this.seen.height - AXIS;
    if (y < top) this.box.scrollTop = y - this.height;
    else if (y + this.height > top + height - 16) this.box.scrollTop = y + 2 * this.height - height;
  }

  itemAt(event) {
    const corner = this.svg.getBoundingClientRect();
    const x = event.clientX - corner.left, y = event.clientY - corner.top;
    const lane = this.model.lanes[Math.floor(y / this.height)] || [];
    const hit = lane.filter(item => {
      const left = item.kind === 'event' ? this.x(item) - 8 : this.x(item);
      return x >= left - 1 && x <= left + Math.max(this.width(item), item.kind === 'event' ? 16 : 0) + 1;
    });
    return hit.find(item => item.kind !== 'call') || hit.pop() || null;
  }

  slot(item) { return this.model.view.colours[item.colour].slot; }

  // -- drawing

  later() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.draw(); });
  }

  drawNames() {
    this.names.replaceChildren(...this.model.view.lanes.map(lane => {
      const row = document.createElement('div');
      row.className = 'name' + (lane.guilty ? ' guilty' : '') + (this.everyone ? ' everyone' : '');
      row.style.height = this.height + 'px';
      const name = document.createElement('b');
      name.textContent = 'rank ' + lane.rank;
      const place = document.createElement('small');
      place.textContent = lane.place;
      const state = document.createElement('span');
      state.className = 'state';
      state.textContent = lane.state;
      if (lane.text) row.title = lane.text;
      row.append(name, place, state);
      return row;
    }));
  }

  redraw() {
    this.frame();
    this.draw();
  }

  frame() {
    this.shown.clear();
    const height = this.model.view.lanes.length * this.height;
    const width = this.totalWidth();
    for (const [element, tall] of [[this.svg, height], [this.axis, AXIS]]) {
      element.setAttribute('width', width);
      element.setAttribute('height', tall);
    }
    this.below = svg('g', {'aria-hidden': 'true'});
    this.joins = svg('g', {'aria-hidden': 'true'});
    this.crowd = svg('g', {'aria-hidden': 'true'});
    this.boxes = svg('g', {role: 'presentation'});
    this.notes = svg('g', {role: 'presentation'});
    this.above = svg('g', {'aria-hidden': 'true'});
    this.svg.replaceChildren(this.defs(), this.below, this.joins, this.crowd, this.boxes, this.notes, this.above);
  }

  defs() {
    const defs = svg('defs');
    for (let n = 0; n < 8; n++) {
      defs.append(svg('pattern', {id: 'hatch' + n, width: 9, height: 9, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(25)'},
        svg('rect', {width: 9, height: 9, style: `fill: var(--c${n}); opacity: .10`}),
        svg('rect', {width: 3.5, height: 9, style: `fill: var(--c${n}); opacity: .22`})));
    }
    defs.append(svg('marker', {id: 'head', viewBox: '0 0 10 10', refX: 8, refY: 5, markerWidth: 11, markerHeight: 11,
      markerUnits: 'userSpaceOnUse', orient: 'auto'}, svg('path', {d: 'M0 0L10 5L0 10z', class: 'wait-head'})));
    return defs;
  }

  draw() {
    if (!this.model) return;
    const left = this.box.scrollLeft - 100, right = this.box.scrollLeft + this.seen.width + 100;
    const first = Math.max(0, Math.floor((this.box.scrollTop - 60) / this.height));
    const last = Math.min(this.model.lanes.length - 1,
      Math.ceil((this.box.scrollTop + this.seen.height + 60) / this.height));
    this.range = {left, right, first, last};
    const wanted = new Map();
    for (let rank = first; rank <= last; rank++) {
      for (const item of this.model.lanes[rank]) {
        const x = this.x(item);
        if (x < right && x + this.width(item) > left) wanted.set(item.id, item);
      }
    }
    if (this.active) wanted.set(this.active.id, this.active);
    this.crowd.replaceChildren(...(wanted.size > CROWD ? this.merged(wanted) : []));
    for (const [id, element] of this.shown) {
      if (!wanted.has(id)) { element.remove(); this.shown.delete(id); }
    }
    const fresh = document.createDocumentFragment(), onTop = document.createDocumentFragment();
    for (const [id, item] of wanted) {
      if (this.shown.has(id)) continue;
      const element = this.element(item);
      this.shown.set(id, element);
      (item.kind === 'call' ? fresh : onTop).append(element);
    }
    this.boxes.append(fresh);
    this.notes.append(onTop);
    this.drawBelow();
    this.drawJoins();
    this.drawAbove();
    this.drawAxis();
    this.mark();
  }

  // So many calls that each is a speck: plain ones of a colour are one shape, and leave ``wanted``.
  merged(wanted) {
    const shapes = new Map(), met = this.active ? this.active.meeting : -1;
    const height = this.height - 2 * this.inset;
    for (const [id, item] of wanted) {
      if (item.state !== 'done' || item.mark || item === this.active || (met >= 0 && item.meeting === met)) continue;
      wanted.delete(id);
      const slot = this.slot(item), width = this.width(item).toFixed(1);
      if (!shapes.has(slot)) shapes.set(slot, []);
      shapes.get(slot).push(`M${this.x(item).toFixed(1)} ${this.y(item.rank) + this.inset}h${width}v${height}h-${width}z`);
    }
    return [...shapes].map(([slot, parts]) => svg('path', {d: parts.join(''), style: `fill: var(--c${slot})`}));
  }

  element(item) {
    const x = this.x(item), width = this.width(item);
    const flag = item.kind === 'gap' && this.mode === 'time';  // over the lane: what came next may be close
    const y = this.y(item.rank) + (flag ? 1 : this.inset), height = flag ? 20 : this.height - 2 * this.inset;
    const group = svg('g', {
      id: item.id, role: 'option', 'aria-selected': 'false', 'aria-label': spoken(this.model, item),
      class: ['item', item.kind, item.state, item.mark].join(' '),
    });
    group.item = item;
    if (item.kind === 'event') {
      const middle = this.y(item.rank) + this.inset + 2;
      group.append(svg('path', {class: 'event', d: `M${x} ${middle - 6}l6 6l-6 6l-6-6z`}),
        svg('rect', {class: 'ring', x: x - 9, y: middle - 9, width: 18, height: 18, rx: 4}));
      return group;
    }
    const radius = Math.min(6, width / 3, height / 3);
    const box = svg('rect', {class: 'box', x, y, width, height, rx: radius});
    if (item.kind === 'call') {
      const slot = this.slot(item), colour = `var(--c${slot})`;
      box.style.stroke = item.mark === 'guilty' ? '' : colour;
      box.style.fill = item.state === 'open' ? `url(#hatch${slot})` : colour;
      if (item.state === 'open') box.style.fillOpacity = 1;
    }
    group.append(box);
    if (width > 9) group.append(svg('rect', {class: 'ring', x: x - 3, y: y - 3, width: width + 6, height: height + 6, rx: radius + 3}));
    this.label(group, item, x, y, width, height);
    return group;
  }

  label(group, item, x, y, width, height) {
    const two = height >= 32;
    const lines = [opOf(item), item.kind === 'gap' ? 'missing' : item.state === 'open' || item.state === 'flying' ? stateText(item) : argumentsOf(item)];
    if (item.state === 'open' && lines[1].length * 5.9 > width - 12) lines[1] = lines[1].replace('waits for ', 'for ');
    if (!two) {
      if (item.kind === 'gap') lines[0] = width > 100 ? lines.join(' ') : 'missing';
      lines.length = 1;
    }
    const left = this.mode === 'time' ? Math.max(x, Math.min(this.range ? this.range.left + 100 : x, x + width - 90)) : x;
    const room = width - (left - x) - 12;
    lines.forEach((line, number) => {
      const text = fitted(line, room, number || !two ? 5.9 : 6.7);
      if (!text) return;
      const base = two ? y + height / 2 + (number ? 13 : -3) : y + height / 2 + 4;
      group.append(svg('text', {x: left + 7, y: base, class: number ? 'small' : ''}, text));
    });
  }

  drawBelow() {
    const {first, last} = this.range, width = this.totalWidth(), parts = [];
    for (let rank = first; rank <= last; rank++) {
      const lane = this.model.view.lanes[rank];
      const guilty = lane.guilty && !this.everyone;
      if (guilty || rank % 2) {
        parts.push(svg('rect', {class: 'stripe' + (guilty ? ' guilty' : ''), x: 0, y: this.y(rank), width, height: this.height}));
      }
    }
    const fault = this.model.run.findings.length ? this.model.fault : null;
    if (fault && fault.kind !== 'event') {
      const x = this.mode === 'order' ? MARGIN + fault.column * this.column : this.x(fault) - 4;
      const wide = this.mode === 'order' ? this.column : this.width(fault) + 8;
      parts.push(svg('rect', {class: 'band', x, y: 0, width: wide, height: this.model.lanes.length * this.height}));
    }
    this.below.replaceChildren(...parts);
  }

  drawJoins() {
    const parts = [], met = this.active ? this.active.meeting : -1;
    const always = this.model.lanes.length <= 16 && this.column >= 24;
    const ids = new Set(met >= 0 ? [met] : []);
    if (always) for (const element of this.shown.values()) if (element.item.meeting >= 0) ids.add(element.item.meeting);
    for (const id of ids) {
      const items = this.model.meetings.get(id);
      for (let n = 1; n < items.length; n++) parts.push(this.join(items[n - 1], items[n], id === met));
    }
    this.joins.replaceChildren(...parts);
  }

  join(a, b, on) {
    // Lines that pass by other lanes do not cover each other.
    const met = this.model.meetings.get(a.meeting);
    const aside = met.length > met[met.length - 1].rank - met[0].rank ? 0 : (met[0].rank % 3 - 1) * Math.min(16, this.column / 8);
    const spot = item => this.x(item) + (this.mode === 'order' ? this.width(item) / 2 + aside : Math.min(this.width(item) / 2, 2));
    const slant = this.mode === 'order' && a.column !== b.column;
    const from = this.y(a.rank) + this.height - this.inset, to = this.y(b.rank) + this.inset;
    return svg('path', {class: 'join' + (slant ? ' slant' : '') + (on ? ' on' : ''),
      style: `stroke: var(--c${this.slot(a)})`, d: `M${spot(a)} ${from}L${spot(b)} ${to}`});
  }

  drawAbove() {
    const parts = [], {first, last, left, right} = this.range;
    for (let rank = first; rank <= last; rank++) {
      const lane = this.model.view.lanes[rank];
      if (!lane.ended) continue;
      const x = MARGIN + (this.mode === 'order' ? lane.column * this.column + 6 : lane.end * this.scale);
      if (x < left - 200 || x > right) continue;
      const half = Math.min(11, this.height / 2 - 3), y = this.middle(rank);
      parts.push(svg('g', {class: 'end' + (lane.guilty ? ' guilty' : '')},
        svg('line', {x1: x, x2: x, y1: y - half, y2: y + half}),
        svg('text', {x: x + 6, y: y + 4}, fitted(lane.text ? `${lane.state} ${lane.text}` : lane.state, 136, 5.8))));
    }
    for (const [record, rank] of this.model.view.cycle) {
      const to = this.model.lanes[rank].filter(item => item.state === 'open').pop();
      if (to) parts.push(this.wait(this.model.byRecord.get(record), to, 'wait'));
    }
    if (this.active && this.active.state === 'open' && !this.model.view.cycle.some(edge => edge[0] === this.active.record)) {
      for (const rank of this.active.waits.slice(0, 16)) {
        const lane = this.model.lanes[rank];
        const to = lane.find(item => item.kind === 'gap') || lane[lane.length - 1];
        if (to) parts.push(this.wait(this.active, to, 'wait soft'));
      }
    }
    this.above.replaceChildren(...parts);
  }

  // Down on the right side, up on the left: a cycle goes round.
  wait(from, to, kind) {
    const down = to.rank > from.rank, side = down ? 1 : -1;
    const edge = item => this.x(item) + (down ? this.width(item) + 2 : -2);
    const bulge = side * (26 + 10 * Math.min(8, Math.abs(to.rank - from.rank)));
    const y1 = this.middle(from.rank) + side * 4, y2 = this.middle(to.rank) - side * 4;
    const x1 = edge(from), x2 = edge(to);
    return svg('path', {class: kind, 'marker-end': 'url(#head)',
      d: `M${x1} ${y1}C${x1 + bulge} ${y1} ${x2 + bulge} ${y2} ${x2} ${y2}`});
  }

  drawAxis() {
    const parts = [], {left, right} = this.range;
    if (this.mode === 'order') {
      const every = Math.max(1, Math.ceil(30 / this.column));
      const fault = this.model.run.findings.length && this.model.fault ? this.model.fault.column : -1;
      const from = Math.max(0, Math.floor((left - MARGIN) / this.column / every) * every);
      for (let n = from; n < this.model.view.columns; n += every) {
        const x = MARGIN + (n + 0.5) * this.column;
        if (x > right) break;
        parts.push(svg('text', {x, y: 17, class: n === fault ? 'here' : ''}, String(n + 1)));
      }
    } else {
      const step = tickStep(90 / this.scale);
      for (let n = Math.max(0, Math.floor((left - MARGIN) / this.scale / step)); ; n++) {
        const x = MARGIN + n * step * this.scale;
        if (x > right || n * step > this.model.view.span) break;
        parts.push(svg('line', {class: 'grid', x1: x, x2: x, y1: 21, y2: AXIS}),
          svg('text', {x, y: 16, class: n ? '' : 'start'}, tickText(n * step, step)));
      }
    }
    this.axis.replaceChildren(...parts);
  }

  // -- which one is looked at

  activate(item) {
    this.active = item;
    if (item) this.svg.setAttribute('aria-activedescendant', item.id);
    else this.svg.removeAttribute('aria-activedescendant');
    this.draw();
  }

  mark() {
    const met = this.active ? this.active.meeting : -1;
    for (const element of this.shown.values()) {
      const on = element.item === this.active;
      element.classList.toggle('on', on);
      element.setAttribute('aria-selected', String(on));
      element.classList.toggle('same', !on && met >= 0 && element.item.meeting === met);
    }
  }

  step(key) {
    const from = this.active || this.model.fault;
    if (!from) return null;
    if (!this.active) return from;
    const lane = this.model.lanes[from.rank], at = lane.indexOf(from);
    if (key === 'ArrowRight') return lane[at + 1] || from;
    if (key === 'ArrowLeft') return lane[at - 1] || from;
    if (key === 'Home') return lane[0];
    if (key === 'End') return lane[lane.length - 1];
    const way = key === 'ArrowDown' ? 1 : -1;
    for (let rank = from.rank + way; rank >= 0 && rank < this.model.lanes.length; rank += way) {
      if (this.model.lanes[rank].length) return this.nearest(rank, from);
    }
    return from;
  }

  nearest(rank, from) {
    const x = this.x(from);
    let best = null, distance = Infinity;
    for (const item of this.model.lanes[rank]) {
      const here = item.meeting >= 0 && item.meeting === from.meeting && this.mode === 'time' ? 0 : Math.abs(this.x(item) - x);
      if (here < distance) { best = item; distance = here; }
    }
    return best;
  }
}

function fitted(text, room, each) {
  const most = Math.floor(room / each);
  if (text.length <= most) return text;
  return most < 4 ? '' : text.slice(0, most - 1) + '…';
}

function tickStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-6)));
  return [1, 2, 5, 10].map(n => n * power).find(step => step >= least);
}

function tickText(value, step) {
  if (step >= 1000) return value / 1000 + ' s';
  return Number(value.toFixed(Math.max(0, Math.ceil(-Math.log10(step))))) + ' ms';
}
