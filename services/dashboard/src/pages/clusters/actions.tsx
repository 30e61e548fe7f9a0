import { useState } from "preact/hooks";
import { api } from "../../api";
import { store } from "../../live/store";
import { whyNotOperator } from "../../operators";
import { ActionButton, AskReason, toast } from "../../ui";
import type { MemberView } from "../../wire";

interface ActionsProps {
  member: MemberView;
  /** Names of the other clusters. */
  others: string[];
  onChange: () => void;
}

/** Drain a cluster that gets jobs, or resume one that does not; a lost one comes back by itself. */
export function Actions({ member, others, onChange }: ActionsProps) {
  const [isAsked, setIsAsked] = useState(false);
  if (member.state === "lost") {
    return null;
  }
  const isActive = member.state === "active";
  const why = whyNotOperator(store.me.value, "drain and resume clusters");
  const close = (): void => setIsAsked(false);
  return (
    <>
      <ActionButton title={isActive ? "Drain" : "Resume"} why={why} onAsk={() => setIsAsked(true)} />
      {isAsked && isActive && <Drain name={member.name} others={others} onClose={close} onDone={onChange} />}
      {isAsked && !isActive && <Resume name={member.name} onClose={close} onDone={onChange} />}
    </>
  );
}

interface DialogProps {
  name: string;
  onClose: () => void;
  onDone: () => void;
}

function Drain({ name, others, onClose, onDone }: DialogProps & { others: string[] }) {
  const [to, setTo] = useState("");
  return (
    <AskReason
      title={`Drain ${name}?`}
      verb="Drain it"
      danger
      onClose={onClose}
      ask={async (reason) => {
        await ask(name, "drain", { to, reason });
        onDone();
      }}
    >
      <p>
        The cluster gets no new jobs. Jobs that have not started move and keep their IDs and age. Running jobs finish
        there.
      </p>
      <label class="ask-field">
        <span>New target of its jobs</span>
        <select value={to} onChange={(event) => setTo(event.currentTarget.value)}>
          <option value="">where the rules say</option>
          {others.map((other) => (
            <option key={other} value={other}>
              {other}
            </option>
          ))}
        </select>
      </label>
    </AskReason>
  );
}

function Resume({ name, onClose, onDone }: DialogProps) {
  return (
    <AskReason
      title={`Resume ${name}?`}
      verb="Resume the cluster"
      onClose={onClose}
      ask={async (reason) => {
        await ask(name, "resume", { reason });
        onDone();
      }}
    >
      <p>The cluster gets jobs again. Jobs that were moved to other clusters stay there.</p>
    </AskReason>
  );
}

async function ask(name: string, what: string, said: Record<string, string>): Promise<void> {
  const query = new URLSearchParams(Object.entries(said).filter(([, value]) => value));
  await api.post(`/v1/clusters/${encodeURIComponent(name)}/${what}${query.size ? `?${query}` : ""}`);
  toast(`Requested: ${what} ${name}.`);
}
