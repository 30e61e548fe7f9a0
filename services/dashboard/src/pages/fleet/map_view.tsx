/** The canvases of the map, the tip at the pointer, and the words for those who move by keyboard. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { diagnostics } from "../../diagnostics";
import { shownTheme } from "../../theme";
import { FleetMap, type Selection } from "./map";
import type { Session } from "./session";
import { sentence, type Told, tellCell, tellNode } from "./words";

const TIP_WIDTH = 260;
const TIP_AWAY = 14;

interface MapViewProps {
  session: Session;
  onOpen: (selection: Selection) => void;
  onClose: () => void;
}

interface Tip extends Told {
  x: number;
  y: number;
  below: boolean;
}

export function MapView({ session, onOpen, onClose }: MapViewProps) {
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const above = useRef<HTMLCanvasElement>(null);
  const tip = useSignal<Tip | null>(null);
  const spoken = useSignal("");
  const newest = useRef({ onOpen, onClose });
  newest.current = { onOpen, onClose };
  useEffect(() => {
    if (!host.current || !canvas.current || !above.current) {
      return;
    }
    const { cells } = session;
    const made = new FleetMap(
      { host: host.current, canvas: canvas.current, above: above.current },
      cells,
      {
        hovered: (found, x, y) => {
          const node = found && cells.nodes[found.node];
          const width = host.current?.clientWidth ?? 0;
          tip.value = node
            ? {
                ...(found.cell >= 0 ? tellCell(cells, found.cell) : tellNode(node)),
                x: Math.max(8, Math.min(x + TIP_AWAY, width - TIP_WIDTH - 8)),
                y,
                below: y < 130,
              }
            : null;
        },
        moved: (cell) => {
          spoken.value = sentence(tellCell(cells, cell));
        },
        opened: (selection) => newest.current.onOpen(selection),
        closed: () => newest.current.onClose(),
        zoomed: (fits) => {
          session.isFit.value = fits;
        },
      },
      { theme: shownTheme.peek(), frame: (draw) => diagnostics.frame(draw) },
    );
    const unmount = session.mountMap(made);
    return () => {
      unmount();
      made.close();
    };
  }, [session]);
  return (
    <div class="fleet-map">
      <div
        ref={host}
        class="fleet-canvas"
        role="application"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it is moved over by arrow keys
        tabIndex={0}
        aria-label="Map of the fleet: one cell per GPU, in nodes and racks"
        aria-describedby="fleet-map-help"
      >
        <canvas ref={canvas} />
        <canvas ref={above} class="fleet-above" />
        {tip.value && <TipBox tip={tip.value} />}
      </div>
      <p id="fleet-map-help" class="sr-only">
        Arrow keys move from GPU to GPU, Page Up and Page Down from rack to rack, Enter opens the GPU, Space its node.
        The button Table shows the same data as a table.
      </p>
      <p class="sr-only" aria-live="polite" data-testid="fleet-cursor">
        {spoken.value}
      </p>
    </div>
  );
}

function TipBox({ tip }: { tip: Tip }) {
  const y = tip.below ? tip.y + TIP_AWAY : tip.y - TIP_AWAY;
  const place = `translate(${Math.round(tip.x)}px, ${Math.round(y)}px)${tip.below ? "" : " translateY(-100%)"}`;
  return (
    <div class="fleet-tip" aria-hidden="true" style={{ transform: place }}>
      <p>
        <b>{tip.title}</b> {tip.state}
      </p>
      {tip.lines.map((line) => (
        <p key={line} class="muted">
          {line}
        </p>
      ))}
    </div>
  );
}
