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
            <b>Health waits for a person</b>, {format.relative(brake.tripped_at)}: {tripped.nodes} of {tripped.fleet}{" "}
            nodes became suspect within {format.duration(tripped.window_s)}, and {tripped.most} may.
          </p>
          {tripped.because && <p>{tripped.because}</p>}
          <p>Until it is reset nothing is withheld, repaired or given back.</p>
        </div>
      ) : (
        <div class="health-brake">
          <Bar
            label="Nodes that became suspect"
            max={most + 1}
            parts={[{ value: nodes, label: `${nodes} within ${window}`, tone: nodes > most / 2 ? "warn" : "used" }]}
            marks={[{ at: most, label: `${most} may` }]}
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
      verb="Let health go on"
      danger
      onClose={onClose}
      ask={async (reason) => {
        const query = new URLSearchParams({ ...(skip && { skip: "true" }), ...(reason && { reason }) });
        await api.post(asked(`/v1/brake/reset${query.size ? `?${query}` : ""}`));
        toast("The brake was asked to be reset.");
        onDone();
      }}
    >
      <p>
        What waited for it is acted on now: nodes are withheld and repaired. If as much is broken still, the brake trips
        again.
      </p>
      <label class="check">
        <input type="checkbox" checked={skip} onChange={(event) => setSkip(event.currentTarget.checked)} />
        Drop what waited instead: it was no fault
      </label>
    </AskReason>
  );
}
