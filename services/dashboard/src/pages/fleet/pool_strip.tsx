/** Fabrics beside the map: what lies in their pools, what is on its way, and whether their managers answer. */

import { Badge, format } from "../../ui";
import type { FabricView } from "../../wire";
import type { Moving, PoolFigures } from "./pool";

/** A larger pool is shown in proportion. */
const SLOTS_MAX = 64;
const MOVES_SHOWN_MAX = 6;

const BREAKER = { closed: "ok", open: "bad", "half-open": "warn" } as const;
const BREAKER_WORDS: Record<FabricView["breaker"], string> = {
  closed: "answers",
  open: "not called",
  "half-open": "being tried",
};

const LEG_WORDS: Record<Moving["leg"], string> = {
  pool: "reserved for",
  "to-node": "on its way to",
  arriving: "arrived at",
  node: "on",
  "to-pool": "leaving",
  returning: "back from",
  failed: "not attached to",
};

interface StripProps {
  figures: PoolFigures[];
  moving: Moving[];
  /** Says why nothing is known, "" if something is. */
  problem: string;
}

export function PoolStrip({ figures, moving, problem }: StripProps) {
  if (figures.length === 0 && !problem) {
    return null;
  }
  return (
    <section class="panel fleet-pool" aria-label="Pool and fabric">
      <header class="panel-head">
        <h2>Pool</h2>
        <span class="muted">GPUs that can be attached</span>
      </header>
      <div class="panel-body">
        {problem && <p class="note note-warn">{problem}</p>}
        {figures.map((one) => (
          <Fabric key={`${one.fabric.cluster}/${one.fabric.name}`} {...one} />
        ))}
        <Moves moving={moving} />
      </div>
    </section>
  );
}

function Fabric({ fabric, models }: PoolFigures) {
  return (
    <div class="fleet-fabric">
      <p class="fleet-fabric-head">
        <b>{fabric.name}</b>
        <Badge tone={BREAKER[fabric.breaker]} title={fabric.error || `Circuit breaker ${fabric.breaker}`}>
          {BREAKER_WORDS[fabric.breaker]}
        </Badge>
        <span class="muted">
          {fabric.in_flight > 0 && `${format.many(fabric.in_flight, "call")} of ${fabric.limit}`}
          {fabric.orphans > 0 && ` · ${format.many(fabric.orphans, "orphan")}`}
        </span>
      </p>
      {models.length === 0 && <p class="muted">The pool is not known yet.</p>}
      {models.map((one) => (
        <Model key={`${one.type}/${one.model}`} fabric={fabric.name} {...one} />
      ))}
    </div>
  );
}

type ModelProps = PoolFigures["models"][number] & { fabric: string };

function Model({ fabric, model, free, reserved, out }: ModelProps) {
  const total = free + reserved + out;
  const scale = total > SLOTS_MAX ? SLOTS_MAX / total : 1;
  const shown: [kind: string, number: number][] = [
    ["free", Math.round(free * scale)],
    ["reserved", reserved && Math.max(1, Math.round(reserved * scale))],
    ["out", Math.round(out * scale)],
  ];
  const words = `${free} free${reserved ? `, ${reserved} reserved` : ""}, ${out} attached`;
  return (
    <div class="fleet-model" data-pool={`${fabric}/${model}`}>
      <p>
        <span class="fleet-model-name" title={model}>
          {model}
        </span>
        <span class="muted">{words}</span>
      </p>
      <span class="fleet-slots" role="img" aria-label={`${model}: ${words}`}>
        {shown.flatMap(([kind, number]) =>
          Array.from({ length: number }, (_, nth) => <i key={`${kind}${nth}`} data-slot={kind} />),
        )}
      </span>
    </div>
  );
}

function Moves({ moving }: { moving: Moving[] }) {
  const shown = moving.slice(0, MOVES_SHOWN_MAX);
  return (
    <ul class="fleet-moves" aria-live="polite">
      {shown.map((one) => (
        <li key={one.id} data-leg={one.leg}>
          <i aria-hidden="true" class={`fleet-token fleet-token-${one.leg}`} />
          <span>
            {LEG_WORDS[one.leg]} <b>{one.node}</b>
            <small class="muted"> {one.phase}</small>
          </span>
        </li>
      ))}
      {moving.length > shown.length && <li class="muted">and {moving.length - shown.length} more</li>}
    </ul>
  );
}
