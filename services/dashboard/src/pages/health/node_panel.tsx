import { useState } from "preact/hooks";
import { api } from "../../api";
import { store } from "../../live/store";
import { whyNotOperator } from "../../operators";
import {
  ActionButton,
  Answered,
  AskReason,
  Badge,
  Empty,
  format,
  Pairs,
  Panel,
  toast,
  useCluster,
  useFetched,
} from "../../ui";
import type { Condition, ConditionsAnswer, FaultMark, OpenFault } from "../../wire";
import { CLASS_TONE, keptOf, PHASE_TONE, triesOf } from "./words";

const EVERY_MS = 5_000;
const MARKS_SHOWN = 20;

/** One node: its faults, and what was seen of it lately. */
export function NodePanel({ node, onChange }: { node: string; onChange: () => void }) {
  const [isAsked, setIsAsked] = useState(false);
  const { asked } = useCluster();
  const fetched = useFetched<ConditionsAnswer>(asked(`/v1/conditions/${encodeURIComponent(node)}`), {
    everyMs: EVERY_MS,
  });
  return (
    <Panel
      title={node}
      note={<a href={`/fleet?node=${encodeURIComponent(node)}`}>in the fleet</a>}
      actions={
        <ActionButton
          title="Repair done"
          why={whyNotOperator(store.me.value, "have nodes checked")}
          onAsk={() => setIsAsked(true)}
        />
      }
    >
      <Answered of={fetched} what="Loading the health of the node">
        {(answer) => (
          <div class="health-node">
            {answer.opted_out && <p class="note note-warn">Opted out: faults are recorded, but no action is taken.</p>}
            {answer.conditions.map((one) => (
              <Told key={one.name} condition={one} />
            ))}
            {!answer.conditions.length && <Empty title="The node is healthy" />}
            <Marks marks={answer.marks.slice(0, MARKS_SHOWN)} />
          </div>
        )}
      </Answered>
      {isAsked && (
        <Verify
          node={node}
          onClose={() => setIsAsked(false)}
          onDone={() => {
            fetched.again();
            onChange();
          }}
        />
      )}
    </Panel>
  );
}

function Told({ condition }: { condition: Condition }) {
  return (
    <article>
      <p class="health-told">
        <b>{condition.kind === "node" ? "The node" : condition.name}</b>
        <Badge tone={PHASE_TONE[condition.phase]}>{condition.phase}</Badge>
        {condition.needs_person && <Badge tone="bad">needs a person</Badge>}
      </p>
      {condition.because && <p>{condition.because}</p>}
      <Pairs
        pairs={[
          ["In this state since", format.instant(condition.since)],
          ["Ill since", format.instant(condition.began_at)],
          ["Tries", triesOf(condition) || "none yet"],
          ["Kept from jobs", keptOf(condition)],
        ]}
      />
      <ul class="health-faults">
        {condition.faults.map((fault) => (
          <Fault key={`${fault.told.code} ${fault.told.device}`} fault={fault} />
        ))}
      </ul>
    </article>
  );
}

function Fault({ fault }: { fault: OpenFault }) {
  const { told, seen_at, count } = fault;
  return (
    <li>
      <p class="health-told">
        <Badge tone={CLASS_TONE[told.fault_class]}>{told.fault_class}</Badge>
        <span class="mono">{told.code}</span>
        <span class="muted">
          {count > 1 ? `${format.count(count)} times, last ` : ""}
          {format.instant(seen_at)}
        </span>
      </p>
      {told.because && <p>{told.because}</p>}
      {told.detail && <p class="muted">{told.detail}</p>}
    </li>
  );
}

function Marks({ marks }: { marks: FaultMark[] }) {
  return marks.length ? (
    <>
      <h3>Seen lately</h3>
      <ul class="health-marks">
        {marks.map((mark) => (
          <li key={`${mark.at} ${mark.code} ${mark.device}`}>
            <span class="muted">{format.instant(mark.at)}</span> <span class="mono">{mark.code}</span>
            {mark.count > 1 && ` ×${format.count(mark.count)}`}
          </li>
        ))}
      </ul>
    </>
  ) : null;
}

function Verify({ node, onClose, onDone }: { node: string; onClose: () => void; onDone: () => void }) {
  const [trust, setTrust] = useState(false);
  const { asked } = useCluster();
  return (
    <AskReason
      title={`Return ${node} to service?`}
      verb={trust ? "Return to service" : "Verify"}
      danger={trust}
      onClose={onClose}
      ask={async (reason) => {
        const query = new URLSearchParams({ ...(trust && { trust: "true" }), ...(reason && { reason }) });
        await api.post(asked(`/v1/conditions/${encodeURIComponent(node)}/verify${query.size ? `?${query}` : ""}`));
        toast(`Requested: ${trust ? "return to service of" : "verification of"} ${node}.`);
        onDone();
      }}
    >
      <p>Confirm that the node was repaired. It becomes schedulable when its checks have passed.</p>
      <label class="check">
        <input type="checkbox" checked={trust} onChange={(event) => setTrust(event.currentTarget.checked)} />
        Skip verification and mark the node healthy
      </label>
    </AskReason>
  );
}
