import { barOf, type Part } from "./bars";
import type { Figures } from "./figures";
import { amount, resourceName } from "./tree";

interface QueueBarProps {
  name: string;
  figures: Figures;
  resource: string;
  /** The amount that fills the drawing. */
  scale: number;
}

/** One queue's bar: promised, held, borrowed, lent, with marks where its limit and its fair share are. */
export function QueueBar({ name, figures, resource, scale }: QueueBarProps) {
  const bar = barOf(figures, scale);
  const words = wordsOf(figures, resource);
  return (
    <span class="qbar" role="img" aria-label={`${name}: ${words}`} title={words}>
      <span class="qbar-reach" style={{ width: percent(bar.reach) }} />
      <span class="qbar-own" style={place(bar.own)} />
      <span class="qbar-borrowed" style={place(bar.borrowed)} />
      <span class="qbar-lent" style={place(bar.lent)} />
      {figures.nominal !== null && <span class="qbar-nominal" style={{ width: percent(bar.nominal) }} />}
      {bar.limit !== null && <span class="qbar-limit" style={{ left: percent(bar.limit) }} />}
      {bar.fair !== null && <span class="qbar-fair" style={{ left: percent(bar.fair) }} />}
    </span>
  );
}

/** What the bar shows, for those who hear the page and for its tip. */
export function wordsOf(figures: Figures, resource: string): string {
  const of = (value: number) => amount(resource, Math.round(value / 100) * 100); // a tenth is as fine as anybody reads
  const parts = [
    figures.nominal === null
      ? `holds ${of(figures.held)}, nothing is promised`
      : `holds ${of(figures.held)} of ${of(figures.nominal)} promised`,
    figures.borrowed ? `${of(figures.borrowed)} of it borrowed` : "",
    figures.lent >= 1 ? `about ${of(figures.lent)} lent` : "",
    figures.limit === null ? "" : `limit ${of(figures.limit)}`,
    `could reach ${of(figures.reach)}`,
    figures.fair === null ? "" : `fair share now ${of(figures.fair)}`,
  ];
  return `${resourceName(resource)}: ${parts.filter(Boolean).join(", ")}`;
}

export function Legend() {
  return (
    <ul class="qlegend">
      <li>
        <i class="qbar-own" /> held, its own
      </li>
      <li>
        <i class="qbar-borrowed" /> borrowed
      </li>
      <li>
        <i class="qbar-lent" /> lent to others
      </li>
      <li>
        <i class="qbar-nominal" /> nominal quota
      </li>
      <li>
        <i class="qbar-reach" /> could reach
      </li>
      <li>
        <i class="qlegend-limit" /> limit
      </li>
      <li>
        <i class="qlegend-fair" /> fair share now
      </li>
    </ul>
  );
}

function place({ left, width }: Part): Record<string, string> {
  return { left: percent(left), width: percent(width) };
}

function percent(share: number): string {
  return `${share * 100}%`;
}
