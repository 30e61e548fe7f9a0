/** A small square that looks as a cell looks. */

import { shownTheme } from "../../theme";
import { PALETTES } from "./palette";

export type SwatchKind = "solid" | "hollow" | "hatched" | "lost" | "starting" | "stopping" | "none";

/** colour: index into the palette. mark: as cells of teams of the same hue have. */
export function Swatch({ colour, kind = "solid", mark = 0 }: { colour: number; kind?: SwatchKind; mark?: number }) {
  const shown = PALETTES[shownTheme.value].colours[colour] ?? "";
  const marked = mark > 0 ? ` swatch-mark-${mark}` : "";
  return <i aria-hidden="true" class={`swatch swatch-${kind}${marked}`} style={{ "--swatch": shown }} />;
}
