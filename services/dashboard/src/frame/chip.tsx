import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type ConnectionState, store } from "../live/store";
import { type Told, told } from "./words";

/** Whether what is shown is true now: a word, and a sentence for who points at it. Heard is only what it changes to. */
export function Chip() {
  const { tone, word, words, kind } = useTold();
  return (
    <>
      <span class={`chip tone-${tone}`} title={words} data-connection={kind}>
        <i aria-hidden="true" />
        {word}
      </span>
      <span class="sr-only" role="status">
        Connection: {kind}
      </span>
    </>
  );
}

/** The sentence, where everybody sees it, while what is shown may be wrong. */
export function Banner() {
  const { tone, words, kind } = useTold();
  const isWrong = kind === "stale" || kind === "offline";
  return isWrong ? <p class={`banner tone-${tone}`}>{words}</p> : null;
}

function useTold(): Told & { kind: ConnectionState["kind"] } {
  const state = store.connection.value;
  const now = useSignal(performance.now());
  const counts = state.kind === "stale" || state.kind === "offline";
  useEffect(() => {
    if (!counts) {
      return;
    }
    const timer = setInterval(() => {
      now.value = performance.now();
    }, 1_000);
    return () => clearInterval(timer);
  }, [counts]);
  return { ...told(state, Math.max(now.value, performance.now())), kind: state.kind };
}
