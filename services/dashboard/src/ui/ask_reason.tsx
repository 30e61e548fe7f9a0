import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Confirm } from "./dialog";
import { toastProblem } from "./toast";

const REASON_CHARS_MAX = 200;

interface AskReasonProps {
  title: string;
  /** The verb on the button. */
  verb: string;
  danger?: boolean;
  /** Asks for it; a refusal is told, and the dialog stays. */
  ask: (reason: string) => Promise<void>;
  onClose: () => void;
  /** What will happen, and further choices. */
  children: ComponentChildren;
}

/** Asks whether something shall be done, and why, for the record. */
export function AskReason({ title, verb, danger = false, ask, onClose, children }: AskReasonProps) {
  const [reason, setReason] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  const confirm = async (): Promise<void> => {
    setIsBusy(true);
    try {
      await ask(reason.trim());
      onClose();
    } catch (error) {
      toastProblem(error);
      setIsBusy(false);
    }
  };
  return (
    <Confirm title={title} verb={verb} danger={danger} busy={isBusy} onConfirm={() => void confirm()} onClose={onClose}>
      <div class="ask">
        {children}
        <label class="ask-field">
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
