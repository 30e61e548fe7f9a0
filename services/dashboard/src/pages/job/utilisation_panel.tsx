import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { theme } from "../../theme";
import { Broken, Empty, Panel, useQueryParams, Waiting } from "../../ui";
import type { JobView } from "../../wire";
import { TERMINAL } from "../jobs/words";
import { useReadings } from "./data";
import { ceilingOf, course, deviceRow, MEASURES, type Measure, type Point, type Readings, verdict } from "./readings";

const POINTS = 180;
const ROWS_MAX = 176; // devices in the heat map; the line shows them all
const ROW_PX = 11;
const MAP_PX = 352; // with more devices than fit, rows grow thin and lose their names
const HEIGHT = 120;
const WIDTH = 600;

/** How hard the job's GPUs work: over all of them as a line, and each as a row of colours. */
export function UtilisationPanel({ job }: { job: JobView }) {
  const { readings, problem, isKnown } = useReadings(job);
  const [{ measure: name }, setParams] = useQueryParams({ measure: "utilisation" });
  const measure = MEASURES.find((one) => one.name === name) ?? MEASURES[0];
  const told = useMemo(() => (readings.columns.length > 1 ? verdict(readings) : null), [readings]);
  return (
    <Panel
      title="GPU utilization"
      note={told ? `${Math.round(told.meanPct)} % on average; ${told.words}` : undefined}
      actions={
        <label>
          <span class="sr-only">Measured value</span>
          <select value={measure.name} onChange={(event) => setParams({ measure: event.currentTarget.value })}>
            {MEASURES.map((one) => (
              <option key={one.name} value={one.name}>
                {one.title}
              </option>
            ))}
          </select>
        </label>
      }
    >
      {readings.columns.length > 1 ? (
        <>
          {told !== null && told.idle.length > 0 && job.phase === "running" && (
            <p class="note note-warn">{idleWords(told.idle.length, readings.devices.length)}</p>
          )}
          <Course readings={readings} measure={measure} />
          {readings.devices.length > 1 && <HeatMap readings={readings} measure={measure} />}
        </>
      ) : problem ? (
        <Broken problem={problem} />
      ) : !isKnown ? (
        <Waiting what="Loading GPU readings" />
      ) : (
        <Empty title={TERMINAL.has(job.phase) ? "The readings are no longer stored" : "No readings yet"}>
          {TERMINAL.has(job.phase)
            ? "GPU readings are kept for a few minutes only. Your metrics store has the full history."
            : "The agent reports each node's GPUs every few seconds; they appear here as they arrive."}
        </Empty>
      )}
    </Panel>
  );
}

function idleWords(idle: number, all: number): string {
  return idle === all
    ? "All GPUs of the job are idle: it may wait for data or hang. Check its output."
    : `${idle} of its ${all} GPUs stand idle: it asks for more than it uses, or some replicas wait for others.`;
}

function Course({ readings, measure }: { readings: Readings; measure: Measure }) {
  const points = useMemo(() => course(readings, measure, POINTS), [readings, measure]);
  const [at, setAt] = useState<number | null>(null);
  const most = ceilingOf(points, measure);
  const first = points[0];
  const last = points[points.length - 1];
  if (!first || !last) return null;
  const span = Math.max(1, last.at - first.at);
  const x = (point: Point) => ((point.at - first.at) / span) * WIDTH;
  const y = (value: number) => HEIGHT - (value / most) * HEIGHT;
  const line = points.map((point) => `${x(point).toFixed(1)},${y(point.mean).toFixed(1)}`).join(" ");
  const upper = points.map((point) => `${x(point).toFixed(1)},${y(point.most).toFixed(1)}`);
  const lower = points.map((point) => `${x(point).toFixed(1)},${y(point.least).toFixed(1)}`).reverse();
  const shown = at === null ? last : (points[at] ?? last);
  const point = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const wanted = first.at + ((event.clientX - box.left) / box.width) * span;
    const next = points.findIndex((one) => one.at >= wanted);
    setAt(next < 0 ? points.length - 1 : next);
  };
  return (
    <figure class="course">
      <figcaption>
        <b>
          {round(shown.mean)} {measure.unit}
        </b>{" "}
        mean of all GPUs, {round(shown.least)} to {round(shown.most)} {measure.unit},{" "}
        {new Date(shown.at / 1e6).toLocaleTimeString("en-GB")}
      </figcaption>
      <div class="course-box" onPointerMove={point} onPointerLeave={() => setAt(null)}>
        <svg
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`${measure.title} over time`}
        >
          {[0.25, 0.5, 0.75].map((part) => (
            <line key={part} class="course-grid" x1="0" x2={WIDTH} y1={HEIGHT * part} y2={HEIGHT * part} />
          ))}
          <polygon class="course-band" points={[...upper, ...lower].join(" ")} />
          <polyline class="course-line" points={line} />
          {at !== null && <line class="course-at" x1={x(shown)} x2={x(shown)} y1="0" y2={HEIGHT} />}
        </svg>
        <span class="course-most">
          {round(most)} {measure.unit}
        </span>
        <span class="course-none">0</span>
      </div>
      <div class="course-times" aria-hidden="true">
        <span>{new Date(first.at / 1e6).toLocaleTimeString("en-GB")}</span>
        <span>{new Date(last.at / 1e6).toLocaleTimeString("en-GB")}</span>
      </div>
    </figure>
  );
}

function round(value: number): string {
  return value >= 100 ? String(Math.round(value)) : String(Math.round(value * 10) / 10);
}

/** A row for each GPU, a column for each stretch of time: a straggler is a pale row, a stall a pale column. */
function HeatMap({ readings, measure }: { readings: Readings; measure: Measure }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const devices = readings.devices.slice(0, ROWS_MAX);
  const most = ceilingOf(course(readings, measure, POINTS), measure);
  const rowPx = Math.max(2, Math.min(ROW_PX, Math.floor(MAP_PX / devices.length)));
  const isNamed = rowPx === ROW_PX;
  const isDark = theme.value;
  useLayoutEffect(() => {
    const drawing = canvas.current?.getContext("2d");
    if (!canvas.current || !drawing) return;
    const rows = devices.map((_name, index) => deviceRow(readings, index, measure, POINTS));
    const columns = Math.max(1, rows[0]?.length ?? 1);
    canvas.current.width = columns;
    canvas.current.height = devices.length;
    drawing.clearRect(0, 0, columns, devices.length);
    drawing.fillStyle = getComputedStyle(canvas.current).color;
    rows.forEach((row, y) => {
      row.forEach((value, x) => {
        if (value === null) return;
        drawing.globalAlpha = 0.06 + 0.94 * Math.min(1, Math.max(0, value / most));
        drawing.fillRect(x, y, 1, 1);
      });
    });
  }, [readings, measure, isDark]);
  return (
    <figure class="heat">
      <figcaption>
        Each GPU{readings.devices.length > ROWS_MAX ? `, the first ${ROWS_MAX} of ${readings.devices.length}` : ""}
      </figcaption>
      <div class="heat-box" data-named={isNamed || undefined}>
        {isNamed && (
          <ul aria-hidden="true" style={{ gridAutoRows: `${ROW_PX}px` }}>
            {devices.map((name) => (
              <li key={name}>{name}</li>
            ))}
          </ul>
        )}
        <canvas
          ref={canvas}
          style={{ height: `${devices.length * rowPx}px` }}
          role="img"
          aria-label={`${measure.title} of each GPU over time`}
        />
      </div>
    </figure>
  );
}
