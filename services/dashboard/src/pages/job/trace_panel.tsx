import { useMemo, useState } from "preact/hooks";
import type { ApiProblem } from "../../api";
import { Broken, Empty, Panel, useQueryParams, Waiting } from "../../ui";
import type { FactView, JobView } from "../../wire";
import { useIsNarrow } from "../jobs/clock";
import { brief, counted } from "../jobs/words";
import { plain, storyOf } from "./story";
import { buildTrace, type JobTrace, type Span, withoutRepeats } from "./trace";
import { isLopsided, type Scale, waterfall } from "./waterfall";

const ROWS_MAX = 400;
const DEPTH_MAX = 12; // a retried job's tree is as deep as its history, a screen is not so wide
const INDENT_PX = 12;
const INDENT_NARROW_PX = 5;
const TICK_APART_NARROW = 0.26;
const ROOM = { wide: 0.86, narrow: 0.6 }; // up to where a bar may reach for its time to stand behind it

interface TracePanelProps {
  job: JobView;
  facts: readonly FactView[] | undefined;
  problem: ApiProblem | undefined;
  again: () => void;
}

/** How the job came where it is: its facts as a waterfall of causes, or as a list in order of time. */
export function TracePanel({ facts, problem, again }: TracePanelProps) {
  const [{ facts: shown }, setParams] = useQueryParams({ facts: "waterfall" });
  const trace = useMemo(() => buildTrace(facts ?? []), [facts]);
  const note = trace.spans.length
    ? `${counted(trace.spans.length, "fact")}, ${brief(trace.totalS)} ${trace.finished ? "from submission to the end" : "so far"}`
    : undefined;
  return (
    <Panel
      title="History"
      note={note}
      flush
      actions={
        <div class="button-group">
          {(["waterfall", "list"] as const).map((one) => (
            <button
              key={one}
              type="button"
              class="button"
              aria-pressed={(shown === "list" ? "list" : "waterfall") === one}
              onClick={() => setParams({ facts: one })}
            >
              {one === "list" ? "In words" : "Waterfall"}
            </button>
          ))}
        </div>
      }
    >
      {problem && !facts ? (
        <Broken problem={problem} retry={again} />
      ) : facts === undefined ? (
        <Waiting what="Loading the facts" />
      ) : !trace.spans.length ? (
        <Empty title="The facts of this job are no longer stored">
          The log was trimmed past them. The summary above is still correct.
        </Empty>
      ) : shown === "list" ? (
        <FactList trace={trace} />
      ) : (
        <Waterfall trace={trace} />
      )}
    </Panel>
  );
}

function Waterfall({ trace }: { trace: JobTrace }) {
  const [isWhole, setIsWhole] = useState(false);
  const [chosen, setChosen] = useState("");
  const [most, setMost] = useState(ROWS_MAX);
  const shown = useMemo(
    () => (isWhole ? { spans: trace.spans, alike: new Map<string, number>() } : withoutRepeats(trace.spans)),
    [trace, isWhole],
  );
  const [scale, setScale] = useState<Scale>(() => (isLopsided(shown.spans) ? "even" : "true"));
  const isNarrow = useIsNarrow();
  const { bars, ticks } = useMemo(
    () => waterfall(shown.spans, scale, isNarrow ? TICK_APART_NARROW : undefined),
    [shown, scale, isNarrow],
  );
  const leftOut = trace.spans.length - shown.spans.length;
  return (
    <div class="fall">
      <div class="fall-tools">
        <ul class="fall-services">
          {trace.services.map((service) => (
            <li key={service}>
              <i style={{ background: serviceColour(service) }} /> {service}
            </li>
          ))}
        </ul>
        <label class="check" title="Draw gaps on a logarithmic scale, so that milliseconds are visible beside hours">
          <input
            type="checkbox"
            checked={scale === "even"}
            onChange={(event) => setScale(event.currentTarget.checked ? "even" : "true")}
          />
          Stretch short gaps
        </label>
        {(leftOut > 0 || isWhole) && (
          <label class="check">
            <input type="checkbox" checked={isWhole} onChange={(event) => setIsWhole(event.currentTarget.checked)} />
            All devices
          </label>
        )}
      </div>
      <div class="fall-axis" aria-hidden="true">
        <span>after submission</span>
        <div>
          {ticks.map((tick) => (
            <span key={tick.at} style={{ left: `${tick.at * 100}%` }} data-edge={tick.at > 0.93 ? "end" : undefined}>
              {tick.label}
            </span>
          ))}
        </div>
      </div>
      <ol class="fall-rows">
        {bars.slice(0, most).map(({ span, left, width }) => (
          <li key={span.id}>
            <button
              type="button"
              class="fall-row"
              aria-expanded={chosen === span.id}
              onClick={() => setChosen(chosen === span.id ? "" : span.id)}
            >
              <span
                class="fall-label"
                style={{
                  paddingLeft: `${Math.min(span.depth, DEPTH_MAX) * (isNarrow ? INDENT_NARROW_PX : INDENT_PX)}px`,
                }}
              >
                <i style={{ background: serviceColour(span.fact.writer) }} aria-hidden="true" />
                {labelOf(span, shown.alike.get(span.id) ?? 0)}
              </span>
              <span class="fall-track">
                <span
                  class="fall-bar"
                  data-caused={span.caused || undefined}
                  style={{
                    left: `${left * 100}%`,
                    width: `max(3px, ${width * 100}%)`,
                    background: serviceColour(span.fact.writer),
                  }}
                />
                <span class="fall-took" style={sideOf(left, left + width, isNarrow ? ROOM.narrow : ROOM.wide)}>
                  {span.parent ? `+${brief(span.afterParentS)}` : ""}
                </span>
              </span>
            </button>
            {chosen === span.id && <FactDetails span={span} />}
          </li>
        ))}
        <More count={bars.length} most={most} onMore={() => setMost(bars.length)} />
      </ol>
    </div>
  );
}

/** A job that ran a thousand times has thousands of facts; a page draws so many before it is asked for all. */
function More({ count, most, onMore }: { count: number; most: number; onMore: () => void }) {
  if (count <= most) return null;
  return (
    <li class="fall-more">
      <button type="button" class="button" onClick={onMore}>
        All {counted(count, "fact")}
      </button>
    </li>
  );
}

/** Right of the bar, or left of it where there is no room. */
function sideOf(left: number, end: number, room: number): Record<string, string> {
  if (end <= room) return { left: `calc(${end * 100}% + 6px)` };
  return { right: `calc(${(1 - (left > 1 - room ? left : end)) * 100}% + 6px)` };
}

function labelOf(span: Span, alike: number): string {
  const about = span.fact.kind === "job" ? "" : ` ${span.fact.kind} ${span.fact.subject_id}`;
  const more = alike ? ` (and ${alike} like it)` : "";
  return `${span.fact.name}${about}${more}`;
}

function FactList({ trace }: { trace: JobTrace }) {
  const { inTime, alike } = useMemo(() => {
    const shown = withoutRepeats(trace.spans);
    const sorted = [...shown.spans].sort((one, two) => one.fact.time - two.fact.time || one.fact.seq - two.fact.seq);
    return { inTime: sorted, alike: shown.alike };
  }, [trace]);
  const [chosen, setChosen] = useState("");
  const [most, setMost] = useState(ROWS_MAX);
  return (
    <ol class="story">
      <More count={inTime.length} most={most} onMore={() => setMost(inTime.length)} />
      {inTime.map((span) => (
        <li key={span.id}>
          <button
            type="button"
            class="story-row"
            aria-expanded={chosen === span.id}
            onClick={() => setChosen(chosen === span.id ? "" : span.id)}
          >
            <span class="story-at">{span.sinceStartS ? `+${brief(span.sinceStartS)}` : clockOf(span)}</span>
            <i style={{ background: serviceColour(span.fact.writer) }} aria-hidden="true" />
            <span class="story-words">
              {storyOf(span.fact)}
              {alike.has(span.id) && ` (and ${counted(alike.get(span.id) ?? 0, "device")} like it)`}
            </span>
            <span class="story-who">{span.fact.writer}</span>
          </button>
          {chosen === span.id && <FactDetails span={span} />}
        </li>
      ))}
    </ol>
  );
}

function clockOf(span: Span): string {
  return new Date(span.fact.time / 1e6).toLocaleTimeString("en-GB");
}

function FactDetails({ span }: { span: Span }) {
  const { fact } = span;
  return (
    <div class="fact-details">
      <p>{storyOf(fact)}</p>
      <dl>
        <dt>Fact</dt>
        <dd>
          {fact.writer} · {fact.kind} {fact.subject_id} · {plain(fact.name).toLowerCase()}
        </dd>
        <dt>When</dt>
        <dd>{new Date(fact.time / 1e6).toISOString().replace("T", " ").replace("Z", " UTC")}</dd>
        <dt>Stored</dt>
        <dd>
          {span.streams.join(", ")}, sequence {fact.seq.toLocaleString("en-GB")}
        </dd>
        {span.links.length > 0 && (
          <>
            <dt>Also caused by</dt>
            <dd class="mono">{span.links.join(", ")}</dd>
          </>
        )}
        {span.parent && !span.caused && (
          <>
            <dt>Cause</dt>
            <dd>none among the job's facts; it stands after the one that came before</dd>
          </>
        )}
      </dl>
      {fact.body && <pre class="mono">{pretty(fact.body)}</pre>}
    </div>
  );
}

function pretty(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body; // shown as it came
  }
}

const SERVICES = [
  "gateway",
  "federation",
  "scheduler",
  "agent",
  "health",
  "scaler",
  "composer",
  "provisioner",
  "operator",
];

/** The same colour for a service wherever it speaks; names stand beside it. */
export function serviceColour(service: string): string {
  const place = SERVICES.indexOf(service);
  return `var(--service-${place < 0 ? 0 : place + 1})`;
}
