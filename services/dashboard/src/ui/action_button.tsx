import { toast } from "./toast";

interface ActionButtonProps {
  title: string;
  /** What stands in the way, "" if nothing does. */
  why: string;
  danger?: boolean;
  onAsk: () => void;
}

/** A button that tells why it does nothing. Not `disabled`: one that cannot be reached by keyboard could not tell. */
export function ActionButton({ title, why, danger = false, onAsk }: ActionButtonProps) {
  return (
    <button
      type="button"
      class={danger ? "button action action-danger" : "button action"}
      aria-disabled={why !== ""}
      title={why || undefined}
      aria-description={why || undefined}
      onClick={() => (why ? toast(why, { bad: true }) : onAsk())}
    >
      {title}
    </button>
  );
}
