import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type ConnectionState, store } from "../live/store";
import type { Tone } from "../ui";

/** Whether what is shown is true now, in words. */
export function Chip() {
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
  const { tone, word, words } = told(state, Math.max(now.value, performance.now()));
  return (
    <span
      class={`chip tone-${tone}`}
      role="status"
      aria-label={`Connection: ${word}. ${words}`}
      title={words}
      data-connection={state.kind}
    >
      <i aria-hidden="true" />
      {word}
    </span>
  );
}

interface Told {
  tone: Tone;
  word: string;
  words: string;
}

/** A connection's state in a word for the chip, and in a sentence. */
export function told(state: ConnectionState, nowMs: number): Told {
  switch (state.kind) {
    case "live":
      return { tone: "ok", word: "live", words: "What is shown follows the fleet as it happens." };
    case "joining":
      return { tone: "info", word: "joining", words: state.why || "A snapshot of the fleet is being taken." };
    case "stale": {
      const seconds = Math.round((nowMs - state.sinceMs) / 1000);
      return {
        tone: "warn",
        word: `stale ${seconds} s`,
        words: "The connection stands, but nothing came of the projector: what is shown may be old.",
      };
    }
    case "offline": {
      const seconds = Math.max(0, Math.ceil((state.retryAtMs - nowMs) / 1000));
      return {
        tone: "bad",
        word: "offline",
        words: `${state.why}. Trying again ${seconds > 0 ? `in ${seconds} s` : "now"}.`,
      };
    }
    case "out":
      return { tone: "neutral", word: "logged out", words: "" };
  }
}
