import type { ComponentChildren } from "preact";
import type { Phase } from "../wire";

export type Tone = "neutral" | "info" | "ok" | "wait" | "warn" | "bad";

export const PHASE_TONE: Record<Phase, Tone> = {
  submitted: "neutral",
  queued: "wait",
  placed: "info",
  running: "ok",
  stopping: "warn",
  succeeded: "neutral",
  failed: "bad",
  cancelled: "neutral",
  "timed-out": "bad",
};

/** A word in a tone; the word says it all, the colour only helps. Give either a phase or a tone and words. */
export function Badge(
  props: { phase: Phase; held?: boolean } | { tone: Tone; children: ComponentChildren; title?: string },
) {
  if ("phase" in props) {
    return (
      <span class={`badge tone-${PHASE_TONE[props.phase]}`} data-phase={props.phase}>
        <i aria-hidden="true" />
        {props.held && props.phase === "queued" ? "held" : props.phase}
      </span>
    );
  }
  return (
    <span class={`badge tone-${props.tone}`} title={props.title}>
      <i aria-hidden="true" />
      {props.children}
    </span>
  );
}
