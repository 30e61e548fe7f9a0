import { signal } from "@preact/signals";
import { asProblem } from "../api";

interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

const SHOWN_MS = 6_000;
const TOASTS_MAX = 4;
const toasts = signal<Toast[]>([]);
let made = 0;

/** Say something for a few seconds. */
export function toast(text: string, { bad = false }: { bad?: boolean } = {}): void {
  made += 1;
  const id = made;
  toasts.value = [...toasts.peek(), { id, text, bad }].slice(-TOASTS_MAX);
  setTimeout(() => {
    toasts.value = toasts.peek().filter((other) => other.id !== id);
  }, SHOWN_MS);
}

/** Say what went wrong. */
export function toastProblem(error: unknown): void {
  const problem = asProblem(error);
  toast(problem.cure ? `${problem.message}. ${problem.cure}` : problem.message, { bad: true });
}

/** Where toasts appear; once, in the frame. */
export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, bad }) => (
        <p key={id} class={bad ? "toast toast-bad" : "toast"}>
          {text}
        </p>
      ))}
    </div>
  );
}
