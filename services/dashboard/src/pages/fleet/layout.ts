/**
 * Where every cell is, in device pixels, for one size of cell. Pure: racks and sizes in, typed arrays out.
 *
 * Racks flow like words in lines; which racks share a line is decided once for the size at which all fit, so that
 * nothing jumps to another place when somebody zooms.
 */

import type { Rack } from "./racks";

export interface Shape {
  racks: readonly Rack[];
  /** Cells of each node, at least 1: a node without GPUs has one that stands for it. */
  places: Uint8Array;
  /** Characters of the longest node name. */
  nameLength: number;
}

/** pitch: from one cell to the next. cell: drawn size. ratio: device pixels per CSS pixel. */
export interface Metrics {
  pitch: number;
  cell: number;
  nodePitch: number;
  pad: number;
  rackGap: number;
  blockGap: number;
  lineGap: number;
  head: number;
  rackLabel: number;
  nodeLabel: number;
  nodeGap: number;
  fontPx: number;
  /** Of words on cells; 0 where there is no room for any. */
  wordPx: number;
}

export interface RackBox {
  x: number;
  y: number;
  width: number;
  height: number;
  /** Nodes stand in so many columns, each of `nodeWidth`. */
  columns: number;
  perColumn: number;
  nodeWidth: number;
  line: number;
}

/** One block's racks within one line. */
export interface BlockBox {
  label: string;
  x: number;
  y: number;
  width: number;
}

export interface Layout {
  metrics: Metrics;
  lines: number[][];
  lineTop: number[];
  racks: RackBox[];
  blocks: BlockBox[];
  rackOf: Uint32Array;
  nodeX: Int32Array;
  nodeY: Int32Array;
  /** First cell of each node; one more than there are nodes. */
  cellBase: Uint32Array;
  nodeOf: Uint32Array;
  cellX: Int32Array;
  cellY: Int32Array;
  width: number;
  height: number;
}

export const CELLS_PER_ROW = 16;
/** Narrow nodes share a row of their rack until it is about so many cells wide. */
const ROW_CELLS = 8;
const LABEL_FROM_PX = 13;
const RACK_LABEL_FROM_PX = 9;
const WORDS_FROM_PX = 18;

/** Sizes of cell that can be had, in CSS pixels. */
export const PITCHES: readonly number[] = [
  2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 22, 24, 28, 32, 40, 48,
];
export const FIT_PITCH_MAX = 28;
export const FIT_PITCH_MIN = 4;

/** isTight: nodes stand as close as cells do, to save height. */
export function metricsOf(pitchCss: number, ratio: number, nameLength: number, isTight = false): Metrics {
  const px = (css: number): number => Math.max(1, Math.round(css * ratio));
  const by = (large: number, middle: number, small: number): number =>
    px(pitchCss >= 10 ? large : pitchCss >= 5 ? middle : small);
  const pitch = px(pitchCss);
  const gap = pitchCss >= 3 ? px(pitchCss >= 16 ? 2 : 1) : 0;
  const fontPx = px(pitchCss >= 20 ? 12 : 10.5);
  const isLabelled = pitchCss >= LABEL_FROM_PX;
  return {
    pitch,
    cell: pitch - gap,
    nodePitch: pitch + (isTight ? 0 : by(2, 1, 1)),
    pad: by(6, 2, 1),
    rackGap: by(8, 4, 2),
    blockGap: by(18, 8, 4),
    lineGap: by(12, 4, 2),
    head: px(pitchCss >= 10 ? 18 : 13),
    rackLabel: pitchCss >= RACK_LABEL_FROM_PX ? px(15) : 0,
    nodeLabel: isLabelled ? Math.ceil((Math.min(nameLength, 18) + 1.5) * fontPx * 0.58) : 0,
    nodeGap: by(4, 3, 1),
    fontPx,
    wordPx: pitchCss >= WORDS_FROM_PX ? px(pitchCss >= 28 ? 11.5 : 10) : 0,
  };
}

interface RackSize {
  width: number;
  height: number;
  columns: number;
  perColumn: number;
  nodeWidth: number;
  rows: number;
}

function rackSize(rack: Rack, shape: Shape, m: Metrics): RackSize {
  let widest = 1;
  for (let node = rack.first; node < rack.first + rack.nodes; node++) {
    widest = Math.max(widest, shape.places[node] as number);
  }
  const inRow = Math.min(widest, CELLS_PER_ROW);
  const rows = Math.ceil(widest / CELLS_PER_ROW);
  const columns = Math.max(1, Math.min(rack.nodes, Math.floor(ROW_CELLS / inRow)));
  const perColumn = Math.ceil(rack.nodes / columns);
  const nodeWidth = m.nodeLabel + inRow * m.pitch - (m.pitch - m.cell);
  const nodeHeight = (rows - 1) * m.pitch + m.nodePitch;
  return {
    width: 2 * m.pad + columns * nodeWidth + (columns - 1) * m.nodeGap,
    height: 2 * m.pad + m.rackLabel + perColumn * nodeHeight - (m.nodePitch - m.cell),
    columns,
    perColumn,
    nodeWidth,
    rows,
  };
}

/** Which racks stand in which line if a line may be so wide. */
export function breakLines(shape: Shape, m: Metrics, widthMax: number): number[][] {
  const lines: number[][] = [];
  let line: number[] = [];
  let x = 0;
  shape.racks.forEach((rack, at) => {
    const before = shape.racks[at - 1];
    const { width } = rackSize(rack, shape, m);
    const gap = line.length === 0 ? 0 : isSameBlock(before, rack) ? m.rackGap : m.blockGap;
    const isNewCluster = before !== undefined && before.cluster !== rack.cluster;
    if (line.length > 0 && (x + gap + width > widthMax || isNewCluster)) {
      lines.push(line);
      line = [];
      x = width;
    } else {
      x += gap + width;
    }
    line.push(at);
  });
  if (line.length > 0) {
    lines.push(line);
  }
  return lines;
}

/** Names the cluster too where there are several: blocks of two may have one name. */
function blockLabel({ cluster, block }: Rack, { racks }: Shape): string {
  const isOneOfSeveral = racks[0]?.cluster !== racks.at(-1)?.cluster;
  return isOneOfSeveral ? [cluster, block].filter(Boolean).join(" · ") : block;
}

const isSameBlock = (a: Rack | undefined, b: Rack): boolean =>
  a !== undefined && a.block === b.block && a.cluster === b.cluster;

/** Positions for given lines. */
export function layOut(shape: Shape, m: Metrics, lines: number[][]): Layout {
  const nodes = shape.places.length;
  const cellBase = new Uint32Array(nodes + 1);
  for (let node = 0; node < nodes; node++) {
    cellBase[node + 1] = (cellBase[node] as number) + (shape.places[node] as number);
  }
  const cells = cellBase[nodes] as number;
  const layout: Layout = {
    metrics: m,
    lines,
    lineTop: [],
    racks: new Array<RackBox>(shape.racks.length),
    blocks: [],
    rackOf: new Uint32Array(nodes),
    nodeX: new Int32Array(nodes),
    nodeY: new Int32Array(nodes),
    cellBase,
    nodeOf: new Uint32Array(cells),
    cellX: new Int32Array(cells),
    cellY: new Int32Array(cells),
    width: 0,
    height: 0,
  };
  let top = 0;
  lines.forEach((line, index) => {
    layout.lineTop.push(top);
    const height = placeLine(layout, shape, line, index, top);
    top += m.head + height + m.lineGap;
  });
  layout.height = Math.max(0, top - m.lineGap);
  return layout;
}

function placeLine(layout: Layout, shape: Shape, line: number[], index: number, top: number): number {
  const m = layout.metrics;
  let x = 0;
  let tallest = 0;
  let block: BlockBox | undefined;
  line.forEach((at, nth) => {
    const rack = shape.racks[at] as Rack;
    const size = rackSize(rack, shape, m);
    const isSame = nth > 0 && isSameBlock(shape.racks[at - 1], rack);
    x += nth === 0 ? 0 : isSame ? m.rackGap : m.blockGap;
    const y = top + m.head;
    layout.racks[at] = { x, y, line: index, ...size };
    placeNodes(layout, shape, rack, at);
    if (!block || !isSame) {
      block = { label: blockLabel(rack, shape), x, y: top, width: 0 };
      layout.blocks.push(block);
    }
    x += size.width;
    block.width = x - block.x;
    tallest = Math.max(tallest, size.height);
  });
  layout.width = Math.max(layout.width, x);
  return tallest;
}

function placeNodes(layout: Layout, shape: Shape, rack: Rack, at: number): void {
  const m = layout.metrics;
  const box = layout.racks[at] as RackBox & RackSize;
  const nodeHeight = (box.rows - 1) * m.pitch + m.nodePitch;
  for (let nth = 0; nth < rack.nodes; nth++) {
    const node = rack.first + nth;
    const column = Math.floor(nth / box.perColumn);
    const x = box.x + m.pad + column * (box.nodeWidth + m.nodeGap);
    const y = box.y + m.pad + m.rackLabel + (nth % box.perColumn) * nodeHeight;
    layout.nodeX[node] = x;
    layout.nodeY[node] = y;
    layout.rackOf[node] = at;
    const first = layout.cellBase[node] as number;
    const places = shape.places[node] as number;
    for (let place = 0; place < places; place++) {
      layout.nodeOf[first + place] = node;
      layout.cellX[first + place] = x + m.nodeLabel + (place % CELLS_PER_ROW) * m.pitch;
      layout.cellY[first + place] = y + Math.floor(place / CELLS_PER_ROW) * m.pitch;
    }
  }
}

export interface Fit {
  pitchCss: number;
  isTight: boolean;
  lines: number[][];
}

/** The largest cells with which all racks are seen at once; the smallest that can be told apart if none are. */
export function fitAll(shape: Shape, width: number, height: number, ratio: number, pitchMin = FIT_PITCH_MIN): Fit {
  const sizes = PITCHES.filter((pitch) => pitch >= pitchMin && pitch <= FIT_PITCH_MAX).reverse();
  for (const pitchCss of sizes) {
    for (const isTight of [false, true]) {
      const m = metricsOf(pitchCss, ratio, shape.nameLength, isTight);
      const lines = breakLines(shape, m, width);
      if (heightOf(shape, m, lines) <= height && widthOf(shape, m, lines) <= width) {
        return { pitchCss, isTight, lines };
      }
    }
  }
  const m = metricsOf(pitchMin, ratio, shape.nameLength, true);
  return { pitchCss: pitchMin, isTight: true, lines: breakLines(shape, m, width) };
}

/** The same with so much more room between lines as there is, within reason. */
export function spread(shape: Shape, m: Metrics, lines: number[][], height: number): Metrics {
  const free = Math.floor((height - heightOf(shape, m, lines)) / Math.max(1, lines.length - 1));
  return { ...m, lineGap: m.lineGap + Math.max(0, Math.min(free, m.head)) };
}

function heightOf(shape: Shape, m: Metrics, lines: number[][]): number {
  let height = -m.lineGap;
  for (const line of lines) {
    const tallest = Math.max(...line.map((at) => rackSize(shape.racks[at] as Rack, shape, m).height));
    height += m.head + tallest + m.lineGap;
  }
  return height;
}

function widthOf(shape: Shape, m: Metrics, lines: number[][]): number {
  return Math.max(0, ...lines.map((line) => lineWidth(shape, m, line)));
}

function lineWidth(shape: Shape, m: Metrics, line: number[]): number {
  return line.reduce((x, at, nth) => {
    const rack = shape.racks[at] as Rack;
    const gap = nth === 0 ? 0 : isSameBlock(shape.racks[at - 1], rack) ? m.rackGap : m.blockGap;
    return x + gap + rackSize(rack, shape, m).width;
  }, 0);
}
