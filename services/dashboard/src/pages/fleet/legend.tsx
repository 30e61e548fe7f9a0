/** What the colours and signs of the map mean, with counts; pointing at a team makes the others step back. */

import { shownTheme } from "../../theme";
import * as format from "../../ui/format";
import type { CellState } from "./filter";
import { AT, type ColourBy, HUES, markOfSlot, PALETTES, RAMP_STEPS, TEMPERATURE_C, UTILISATION_PCT } from "./palette";
import { Swatch, type SwatchKind } from "./swatch";
import type { Tally, TeamTally } from "./tally";
import { STATE_WORDS } from "./words";

const TEAMS_SHOWN_MAX = 24;

const STATES: [state: CellState, colour: number, kind: SwatchKind][] = [
  ["free", AT.free, "solid"],
  ["starting", AT.job, "starting"],
  ["stopping", AT.job, "stopping"],
  ["withheld", AT.free, "hatched"],
  ["lost", AT.lost, "lost"],
  ["absent", AT.hollow, "hollow"],
  ["none", AT.noGpu, "none"],
];

const SHORT: Partial<Record<CellState, string>> = { absent: "empty place", none: "no GPUs" };

interface LegendProps {
  by: ColourBy;
  tally: Tally;
  /** Team that was chosen to stand out. */
  team: string;
  onPoint: (team: string) => void;
  onChoose: (team: string) => void;
}

export function Legend(props: LegendProps) {
  const { by, tally } = props;
  return (
    <fieldset class="fleet-legend fleet-set" aria-label="Legend">
      {by === "team" && <Teams {...props} />}
      {by === "job" && <p class="fleet-legend-note">{format.many(tally.jobs, "job")}; cells that touch are one job</p>}
      {by === "utilisation" && (
        <Ramp from={AT.utilisation} range={UTILISATION_PCT} unit="%" ticks={[0, 25, 50, 75, 100]} label="Utilization">
          {`mean of held ${Math.round(tally.utilisationPct)} %, ${format.count(tally.idleHeld)} held below 5 %`}
        </Ramp>
      )}
      {by === "temperature" && (
        <Ramp from={AT.temperature} range={TEMPERATURE_C} unit="°C" ticks={[25, 45, 65, 85]} label="Temperature">
          {`hottest ${Math.round(tally.hottestC)} °C`}
        </Ramp>
      )}
      <ul class="fleet-states">
        {STATES.filter(([state]) => tally.states[state] > 0).map(([state, colour, kind]) => (
          <li key={state} title={STATE_WORDS[state]}>
            <Swatch colour={colour} kind={kind} />
            {SHORT[state] ?? STATE_WORDS[state]} <b>{format.count(tally.states[state])}</b>
          </li>
        ))}
      </ul>
    </fieldset>
  );
}

function Teams({ tally, team, onPoint, onChoose }: LegendProps) {
  const shown = tally.teams.slice(0, TEAMS_SHOWN_MAX);
  const rest = tally.teams.length - shown.length;
  return (
    <ul class="fleet-teams">
      {shown.map((one) => (
        <Team key={one.team} one={one} isChosen={one.team === team} onPoint={onPoint} onChoose={onChoose} />
      ))}
      {rest > 0 && <li class="muted">and {format.many(rest, "team")} more</li>}
    </ul>
  );
}

interface TeamProps extends Pick<LegendProps, "onPoint" | "onChoose"> {
  one: TeamTally;
  isChosen: boolean;
}

function Team({ one, isChosen, onPoint, onChoose }: TeamProps) {
  return (
    <li>
      <button
        type="button"
        class="fleet-team"
        aria-pressed={isChosen}
        title={`Show only team ${one.team}`}
        onMouseEnter={() => onPoint(one.team)}
        onMouseLeave={() => onPoint("")}
        onClick={() => onChoose(isChosen ? "" : one.team)}
      >
        <Swatch colour={AT.team + (one.slot % HUES)} mark={markOfSlot(one.slot)} />
        {one.team} <b>{format.gpus(Math.round(one.gpuMilli / 100) * 100)}</b>
      </button>
    </li>
  );
}

interface RampProps {
  from: number;
  range: readonly [number, number];
  unit: string;
  ticks: number[];
  label: string;
  children: string;
}

function Ramp({ from, range: [low, high], unit, ticks, label, children }: RampProps) {
  const colours = PALETTES[shownTheme.value].colours.slice(from, from + RAMP_STEPS);
  return (
    <div class="fleet-ramp" role="img" aria-label={`${label} from ${low} to ${high} ${unit}; ${children}`}>
      <span class="fleet-ramp-bar">
        {colours.map((colour) => (
          <i key={colour} style={{ background: colour }} />
        ))}
      </span>
      <span class="fleet-ramp-ticks">
        {ticks.map((tick) => (
          <span key={tick} style={{ left: `${((tick - low) / (high - low)) * 100}%` }}>
            {tick}
          </span>
        ))}
      </span>
      <span class="fleet-ramp-note">
        {unit} · {children}
      </span>
    </div>
  );
}
