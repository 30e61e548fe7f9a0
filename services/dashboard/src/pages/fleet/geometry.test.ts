import { describe, expect, it } from "vitest";
import type { NodeView } from "../../wire";
import { FleetCells } from "./cells";
import { filterIn, nodeBits, parseFilter, WORDS_MAX } from "./filter";
import { hit, move } from "./hit";
import { fitAll, type Layout, layOut, metricsOf, type Shape, spread } from "./layout";
import { TeamSlots } from "./palette";
import { group } from "./racks";
import { SYNTHETIC, SyntheticFleet } from "./synthetic";
import { tally } from "./tally";
import { canMove, clamp, reveal } from "./view";
import { sentence, tellCell } from "./words";

function shapeOf(nodes: number, gpusPerNode = 8): Shape {
  const fleet = new SyntheticFleet({ ...SYNTHETIC, nodes, gpusPerNode, load: 0 });
  const grouped = group(fleet.nodes.values());
  return { racks: grouped.racks, places: new Uint8Array(nodes).fill(gpusPerNode), nameLength: 8 };
}

function layoutOf(shape: Shape, width: number, height: number, ratio = 1): Layout {
  const { pitchCss, isTight, lines } = fitAll(shape, width, height, ratio);
  const metrics = metricsOf(pitchCss, ratio, shape.nameLength, isTight);
  return layOut(shape, spread(shape, metrics, lines, height), lines);
}

describe("racks", () => {
  const node = (name: string, rack: string, block: string, of = "") => ({
    name,
    cluster: "atlas",
    group: of,
    gpus: 8,
    domains: [...(block ? [["block", block]] : []), ...(rack ? [["rack", rack]] : [])] as [string, string][],
  });

  it("are sorted as people count, and hold the nodes that say so", () => {
    const { racks, nodes } = group([node("n10", "r10", "b0"), node("n2", "r2", "b0"), node("n1", "r2", "b0")]);
    expect(racks.map((rack) => [rack.label, rack.nodes])).toEqual([
      ["r2", 2],
      ["r10", 1],
    ]);
    expect(nodes.map((one) => one.name)).toEqual(["n1", "n2", "n10"]);
  });

  it("are columns of eight where nodes tell of none", () => {
    const { racks } = group(Array.from({ length: 20 }, (_, at) => node(`n${at}`, "", "")));
    expect(racks.map((rack) => rack.nodes)).toEqual([8, 8, 4]);
  });

  it("put node groups first", () => {
    expect(group([node("gpu-1", "r0", "b0"), node("flex-1", "flex-r0", "", "flex")]).racks[0]?.block).toBe("flex");
  });
});

describe.each([
  [1750, 1100, 760, 1],
  [1750, 2200, 1520, 2],
  [64, 1100, 760, 1],
  [64, 370, 400, 1],
  [3, 1100, 760, 1],
])("a layout of %i nodes on %i by %i at ratio %i", (nodes, width, height, ratio) => {
  const layout = layoutOf(shapeOf(nodes), width, height, ratio);

  it("is seen as a whole", () => {
    expect(layout.width).toBeLessThanOrEqual(width);
    expect(layout.height).toBeLessThanOrEqual(height);
  });

  it("draws no cell over another", () => {
    const seen = new Set<number>();
    const { cell } = layout.metrics;
    for (let at = 0; at < layout.nodeOf.length; at++) {
      for (let y = 0; y < cell; y += cell - 1 || 1) {
        for (let x = 0; x < cell; x += cell - 1 || 1) {
          seen.add(((layout.cellX[at] as number) + x) * 100_000 + (layout.cellY[at] as number) + y);
        }
      }
    }
    expect(seen.size).toBe(4 * layout.nodeOf.length);
  });

  it("leaves a gap between racks", () => {
    for (const line of layout.lines) {
      const boxes = line.map((at) => layout.racks[at]).filter((box) => box !== undefined);
      boxes.slice(1).forEach((box, at) => {
        const before = boxes[at];
        expect(box.x).toBeGreaterThan((before?.x ?? 0) + (before?.width ?? 0));
      });
    }
  });

  it("finds every cell where it is", () => {
    for (let at = 0; at < layout.nodeOf.length; at++) {
      const found = hit(layout, (layout.cellX[at] as number) + 1, (layout.cellY[at] as number) + 1);
      expect(found?.cell).toBe(at);
    }
  });
});

describe("a layout", () => {
  it("keeps racks in their lines when it is zoomed", () => {
    const shape = shapeOf(300);
    const { lines } = fitAll(shape, 900, 600, 1);
    const large = layOut(shape, metricsOf(32, 1, shape.nameLength), lines);
    expect(large.racks.map((rack) => rack.line)).toEqual(lines.flatMap((line, at) => line.map(() => at)));
    expect(large.width).toBeGreaterThan(900);
  });

  it("has nothing outside its racks", () => {
    const layout = layoutOf(shapeOf(64), 1100, 760);
    expect(hit(layout, -5, 10)).toBeUndefined();
    expect(hit(layout, layout.width + 5, 10)).toBeUndefined();
  });
});

describe("moving by keyboard", () => {
  const layout = layoutOf(shapeOf(64), 1100, 760);
  const steps = (from: number, direction: "left" | "right" | "up" | "down", number: number): number =>
    Array.from({ length: number }).reduce<number>((at) => move(layout, at, direction), from);

  it("goes along the node, then on to the next rack", () => {
    expect(steps(0, "right", 7)).toBe(7);
    expect(layout.rackOf[layout.nodeOf[steps(0, "right", 8)] as number]).toBe(1);
  });

  it("goes down through the nodes of a rack in one column", () => {
    expect(steps(3, "down", 2)).toBe(3 + 16);
  });

  it("keeps to its row from rack to rack, and to its column from line to line", () => {
    const from = (layout.cellBase[3] as number) + 7;
    expect(layout.cellY[move(layout, from, "right")]).toBe(layout.cellY[from]);
    const below = move(layout, (layout.cellBase[7] as number) + 4, "down");
    expect(layout.rackOf[layout.nodeOf[below] as number]).toBe(layout.lines[1]?.[0]);
    expect(below - (layout.cellBase[layout.nodeOf[below] as number] as number)).toBe(4);
  });

  it("comes back where it came from", () => {
    for (const [there, back] of [
      ["right", "left"],
      ["down", "up"],
    ] as const) {
      expect(move(layout, move(layout, 83, there), back)).toBe(83);
    }
  });

  it("stays at the edges", () => {
    expect([move(layout, 0, "left"), move(layout, 0, "up")]).toEqual([0, 0]);
    expect(move(layout, layout.nodeOf.length - 1, "rack-after")).toBe(layout.nodeOf.length - 1);
  });

  it("reaches every cell", () => {
    const reached = new Set([0]);
    const open = [0];
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      for (const direction of ["left", "right", "up", "down"] as const) {
        const next = move(layout, at, direction);
        if (!reached.has(next)) {
          reached.add(next);
          open.push(next);
        }
      }
    }
    expect(reached.size).toBe(512);
  });
});

describe("a view", () => {
  const canvas = { width: 100, height: 100 };

  it("centres what fits and does not leave what is larger", () => {
    expect(clamp({ x: 7, y: 7 }, { width: 60, height: 60 }, canvas)).toEqual({ x: 20, y: 0 });
    expect(clamp({ x: 50, y: -900 }, { width: 300, height: 300 }, canvas)).toEqual({ x: 0, y: -200 });
    expect(canMove({ width: 60, height: 101 }, canvas)).toBe(true);
  });

  it("moves just so far that a box is seen", () => {
    const box = { x: 150, y: 20, width: 10, height: 10 };
    expect(reveal({ x: 0, y: 0 }, box, canvas, 5)).toEqual({ x: -65, y: 0 });
    expect(reveal({ x: -400, y: 0 }, box, canvas, 5)).toEqual({ x: -145, y: 0 });
  });
});

describe("a filter", () => {
  it("knows its keys and takes everything else for a name", () => {
    expect(parseFilter("team:Physics  http://x gpu").words).toEqual([
      { key: "team", value: "physics" },
      { key: "", value: "http://x" },
      { key: "", value: "gpu" },
    ]);
  });

  it("says which words it ignores", () => {
    expect(parseFilter("a ".repeat(WORDS_MAX + 2)).ignored).toEqual(["a", "a"]);
  });

  it("looks in one cluster, and not in another whose name begins so", () => {
    const fits = (filter: ReturnType<typeof parseFilter>, cluster: string): boolean =>
      nodeBits(filter, { name: "gpu-1", cluster, gpu_model: "", group: "", domains: [] } as unknown as NodeView) ===
      filter.all;
    const inEast = filterIn("east", "gpu");
    expect([fits(inEast, "east"), fits(inEast, "east-2"), fits(filterIn("", "gpu"), "east-2")]).toEqual([
      true,
      false,
      true,
    ]);
  });
});

describe("what is said of a fleet", () => {
  const fleet = new SyntheticFleet({ ...SYNTHETIC, nodes: 120 });
  const cells = new FleetCells(new TeamSlots());
  cells.reset(fleet);

  it("counts every GPU once", () => {
    const { states, gpus, teams, heldMilli } = tally(cells);
    expect(Object.values(states).reduce((sum, one) => sum + one)).toBe(960);
    expect(gpus).toBe(960);
    expect(teams.reduce((sum, team) => sum + team.gpuMilli, 0)).toBe(heldMilli);
  });

  it("names the GPU, its state, its job and what it reads", () => {
    const cell = cells.holders.whole.findIndex((job) => job >= 0);
    const job = cells.job(cells.holders.whole[cell] as number)?.row;
    expect(sentence(tellCell(cells, cell))).toMatch(
      new RegExp(`^gpu-\\d+ · GPU \\d: held; job ${job?.name} of team ${job?.team}, running; \\d+ % used, \\d+ °C, `),
    );
  });
});
