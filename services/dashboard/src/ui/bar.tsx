export interface BarPart {
  value: number;
  /** Names the part to those who hear the page, and in its tip. */
  label: string;
  tone?: "used" | "borrowed" | "ok" | "warn" | "bad" | "free";
}

export interface BarMark {
  at: number;
  label: string;
}

interface BarProps {
  /** What the whole width stands for; parts beyond it are cut. */
  max: number;
  parts: BarPart[];
  marks?: BarMark[];
  /** What the bar is of: "GPUs of queue physics". */
  label: string;
}

/** Parts of a whole, one after another, with marks over them. */
export function Bar({ max, parts, marks = [], label }: BarProps) {
  const told = [...parts.map((part) => part.label), ...marks.map((mark) => mark.label)].join(", ");
  return (
    <span class="bar" role="img" aria-label={`${label}: ${told}`} title={told}>
      {parts.map((part) => (
        <span
          key={part.label}
          class={`bar-part bar-${part.tone ?? "used"}`}
          style={{ width: share(part.value, max) }}
        />
      ))}
      {marks.map((mark) => (
        <span key={mark.label} class="bar-mark" style={{ left: share(mark.at, max) }} />
      ))}
    </span>
  );
}

function share(value: number, max: number): string {
  return max > 0 ? `${Math.min(100, Math.max(0, (value / max) * 100))}%` : "0%";
}
