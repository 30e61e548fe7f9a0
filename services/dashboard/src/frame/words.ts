/** The connection's state in words: pure. */

import type { ConnectionState } from "../live/store";
import type { Tone } from "../ui/badge";

export interface Told {
  tone: Tone;
  word: string;
  words: string;
}

/** A connection's state in a word for the chip, and in a sentence. */
export function told(state: ConnectionState, nowMs: number): Told {
  switch (state.kind) {
    case "live":
      return { tone: "ok", word: "live", words: "This page shows the current state of the fleet." };
    case "joining":
      return { tone: "info", word: "joining", words: state.why || "Loading a snapshot of the fleet." };
    case "stale": {
      const seconds = Math.round((nowMs - state.sinceMs) / 1000);
      return {
        tone: "warn",
        word: `stale ${seconds} s`,
        words: `Connected, but no message arrived for ${seconds} s. The shown data may be outdated.`,
      };
    }
    case "offline": {
      const seconds = Math.max(0, Math.ceil((state.retryAtMs - nowMs) / 1000));
      return {
        tone: "bad",
        word: "offline",
        words: `${state.why}. The shown data is outdated. Next attempt ${seconds > 0 ? `in ${seconds} s` : "now"}.`,
      };
    }
    case "out":
      return { tone: "neutral", word: "logged out", words: "" };
  }
}
