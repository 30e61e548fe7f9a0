import { useState } from "preact/hooks";
import { api } from "../../api";
import { store } from "../../live/store";
import { whyNotOperator } from "../../operators";
import { ActionButton, AskReason, Badge, Bar, format, Panel, toast, useCluster } from "../../ui";
import type { BrakeView } from "../../wire";

/** Whether health acts by itself, how near it is to stopping, and the button that lets it go on. */
export function Brake({ brake, onChange }: { brake: BrakeView; onChange: () => void }) {
  const [isAsked, setIsAsked] = useState(false);
  const { tripped, nodes, most, window_s } = brake;
  const window = format.duration(window_s);
  return (
    <Panel
      title="Brake"
      note={<Badge tone={tripped ? "bad" : "ok"}>{tripped ? "tripped" : "off"}</Badge>}
      actions={
        tripped && (
          <ActionButton
            title="Reset the brake"
            why={whyNotOperator(store.me.value, "reset the brake")}
            onAsk={() => setIsAsked(true)}
          />
        )
      }
    >
      {tripped ? (
        <div class="note note-bad">
          <p>
            <b>Health waits for an operator</b>, {format.relative(brake.tripped_at)}: {tripped.nodes} of {tripped.fleet}{" "}
            nodes became suspect within {format.duration(tripped.window_s)}; the limit is {tripped.most}.
          </p>
          {tripped.because && <p>{tripped.because}</p>}
          <p>Until the brake is reset, no hardware is drained, repaired or returned to service.</p>
        </div>
      ) : (
        <div class="health-brake">
          <Bar
            label="Nodes that became suspect"
            max={most + 1}
            parts={[{ value: nodes, label: `${nodes} within ${window}`, tone: nodes > most / 2 ? "warn" : "used" }]}
            marks={[{ at: most, label: `limit ${most}` }]}
          />
          <p class="muted">
            {format.many(nodes, "node")} became suspect within {window}; more than {most} stop it.
          </p>
        </div>
      )}
      {isAsked && <Reset onClose={() => setIsAsked(false)} onDone={onChange} />}
    </Panel>
  );
}

function Reset({ onClose, onDone }: { onClose: () => void; onDone: () => void }) {
  const [skip, setSkip] = useState(false);
  const { asked } = useCluster();
  return (
    <AskReason
      title="Reset the brake?"
      verb="Reset brake"
      danger
      onClose={onClose}
      ask={async (reason) => {
        const query = new URLSearchParams({ ...(skip && { skip: "true" }), ...(reason && { reason }) });
        await api.post(asked(`/v1/brake/reset${query.size ? `?${query}` : ""}`));
        toast("Reset of the brake requested.");
        onDone();
      }}
    >
      <p>
        The pending actions start now: nodes are drained and repaired. If as many nodes are still faulty, the brake
        trips again.
      </p>
      <label class="check">
        <input type="checkbox" checked={skip} onChange={(event) => setSkip(event.currentTarget.checked)} />
        Drop the pending actions instead: the faults were not real
      </label>
    </AskReason>
  );
}
