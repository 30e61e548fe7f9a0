import { useState } from "preact/hooks";
import { api } from "../../api";
import { store } from "../../live/store";
import { Confirm, toast, toastProblem } from "../../ui";
import type { JobView } from "../../wire";
import { type Action, type ActionName, actionsFor } from "./access";

const PRIORITY_MAX = 1_000;
const REASON_CHARS_MAX = 200;

interface Asked {
  readonly verb: string;
  readonly title: string;
  readonly about: string;
  readonly isDangerous: boolean;
  readonly told: string;
}

const ASKED: Readonly<Record<ActionName, Asked>> = {
  cancel: {
    verb: "Cancel the job",
    title: "Cancel this job?",
    about: "The job ends permanently. If it runs, it is notified and has its grace period to write a last checkpoint.",
    isDangerous: true,
    told: "Cancellation requested.",
  },
  hold: {
    verb: "Hold it",
    title: "Hold this job?",
    about: "The job is not placed until it is released. It keeps its age, but loses capacity reserved for it.",
    isDangerous: false,
    told: "Hold requested.",
  },
  release: {
    verb: "Release it",
    title: "Release this job?",
    about: "The job waits again, at the place that its age determines.",
    isDangerous: false,
    told: "Release requested.",
  },
  priority: {
    verb: "Set the priority",
    title: "Change the priority",
    about:
      "One point is worth ten minutes of waiting. A waiting job changes its place at once. For a running job, the priority decides which jobs may preempt it.",
    isDangerous: false,
    told: "Priority change requested.",
  },
};

/** What may be done with the job; what may not is shown with the reason. */
export function Actions({ job }: { job: JobView }) {
  const [asked, setAsked] = useState<ActionName | "">("");
  return (
    <>
      {actionsFor(job, store.me.value).map((action) => (
        <ActionButton key={action.name} action={action} onAsk={() => setAsked(action.name)} />
      ))}
      {asked && <Ask job={job} name={asked} onClose={() => setAsked("")} />}
    </>
  );
}

/** Not `disabled`: one that cannot be reached by keyboard could not tell why. */
function ActionButton({ action, onAsk }: { action: Action; onAsk: () => void }) {
  const isOff = action.why !== "";
  return (
    <button
      type="button"
      class={`button job-action ${action.name === "cancel" ? "job-action-cancel" : ""}`}
      aria-disabled={isOff}
      title={action.why || undefined}
      aria-description={action.why || undefined}
      onClick={() => (isOff ? toast(action.why, { bad: true }) : onAsk())}
    >
      {action.title}
    </button>
  );
}

function Ask({ job, name, onClose }: { job: JobView; name: ActionName; onClose: () => void }) {
  const [reason, setReason] = useState("");
  const [priority, setPriority] = useState(String(job.priority));
  const [isBusy, setIsBusy] = useState(false);
  const { verb, title, about, isDangerous, told } = ASKED[name];
  const wrong = name === "priority" && !(/^\d+$/.test(priority) && Number(priority) <= PRIORITY_MAX);
  const ask = async () => {
    if (wrong) return;
    setIsBusy(true);
    try {
      await send(job.id, name, { reason: reason.trim(), priority: Number(priority) });
      toast(told);
      onClose();
    } catch (error) {
      toastProblem(error);
      setIsBusy(false);
    }
  };
  return (
    <Confirm
      title={title}
      verb={verb}
      danger={isDangerous}
      busy={isBusy}
      onConfirm={() => void ask()}
      onClose={onClose}
    >
      <div class="job-ask">
        <p>{about}</p>
        {name === "priority" && (
          <label>
            <span>
              Priority, 0 to {PRIORITY_MAX.toLocaleString("en-GB")}; now {job.priority}
            </span>
            <input
              type="number"
              min={0}
              max={PRIORITY_MAX}
              value={priority}
              aria-invalid={wrong || undefined}
              onInput={(event) => setPriority(event.currentTarget.value)}
            />
          </label>
        )}
        <label>
          <span>Reason, for the record (optional)</span>
          <input
            maxLength={REASON_CHARS_MAX}
            value={reason}
            onInput={(event) => setReason(event.currentTarget.value)}
          />
        </label>
      </div>
    </Confirm>
  );
}

function send(id: string, name: ActionName, said: { reason: string; priority: number }): Promise<unknown> {
  const why = said.reason && `?reason=${encodeURIComponent(said.reason)}`;
  switch (name) {
    case "cancel":
      return api.delete(`/v1/jobs/${id}${why}`);
    case "priority":
      return api.post(`/v1/jobs/${id}/priority`, { priority: said.priority, reason: said.reason });
    default:
      return api.post(`/v1/jobs/${id}/${name}${why}`);
  }
}
