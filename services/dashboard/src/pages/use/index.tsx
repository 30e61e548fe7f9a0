import {
  Answered,
  Bar,
  ClusterChoice,
  format,
  Page,
  Pairs,
  Panel,
  useCluster,
  useFetched,
  useQueryParams,
} from "../../ui";
import type { Idle, Top } from "../../wire";
import { EnergyPanel } from "./energy";
import { JobPanel } from "./job_panel";
import "./style.css";
import { Holders, IdleGpus, Teams } from "./tables";
import { BY, ORDERS, powerWords } from "./words";

const EVERY_MS = 5_000;
const ROWS = 100;

/** What GPUs do for jobs and teams: busy against truly active, power, and what is held and idle. */
export default function Use() {
  const cluster = useCluster();
  const [params, setParams] = useQueryParams({ by: "job", order: "gpus", team: "", job: "" });
  const asked = new URLSearchParams({ by: params.by, order: params.order, limit: String(ROWS) });
  if (params.team) {
    asked.set("team", params.team);
  }
  const teams = useFetched<Top>(cluster.asked(`/v1/usage/top?by=team&limit=${ROWS}`), { everyMs: EVERY_MS });
  const holders = useFetched<Top>(cluster.asked(`/v1/usage/top?${asked}`), { everyMs: EVERY_MS });
  const idle = useFetched<Idle>(cluster.asked(`/v1/usage/idle?limit=${ROWS}`), { everyMs: EVERY_MS });
  const isOpen = params.by === "job" && params.job !== "";
  return (
    <Page
      title="Use"
      note={teams.value && `as every node was read last, ${format.instant(teams.value.at)}`}
      actions={<ClusterChoice clears={["job"]} />}
    >
      <Answered of={teams} what="Loading GPU use">
        {(top) => (
          <div class="use">
            <Sums top={top} />
            <Panel title="Teams" note="who leaves most idle first" flush>
              <Teams rows={top.rows} idle={idle.value} />
            </Panel>
            <div class={isOpen ? "use-two" : ""}>
              <Panel title="Just now" note={holders.value && countWords(holders.value)} flush actions={<Choices />}>
                <Answered of={holders} what="Loading GPU holders">
                  {(found) => (
                    <Holders
                      by={params.by}
                      rows={found.rows}
                      chosen={params.job}
                      onChoose={(job) => setParams({ job: job === params.job ? "" : job })}
                    />
                  )}
                </Answered>
              </Panel>
              {isOpen && <JobPanel key={params.job} id={params.job} />}
            </div>
            <EnergyPanel />
            <Answered of={idle} what="Loading idle GPUs">
              {(found) => (
                <Panel
                  title="Idle GPUs of jobs"
                  note={`${format.many(found.total, "GPU")} for longer than ${format.duration(found.after_s)}`}
                  flush
                >
                  <IdleGpus idle={found} />
                </Panel>
              )}
            </Answered>
          </div>
        )}
      </Answered>
    </Page>
  );
}

const countWords = ({ rows, total }: Top): string =>
  rows.length < total ? `${rows.length} of ${format.count(total)}` : format.count(total);

/** What a row stands for, in which order, of which team; all of it in the address. */
function Choices() {
  const [{ by, order, team }, setParams] = useQueryParams({ by: "job", order: "gpus", team: "" });
  return (
    <>
      <select aria-label="A row for each" value={by} onChange={(event) => setParams({ by: event.currentTarget.value })}>
        {BY.map((one) => (
          <option key={one} value={one}>
            By {one}
          </option>
        ))}
      </select>
      <select aria-label="Order" value={order} onChange={(event) => setParams({ order: event.currentTarget.value })}>
        {Object.entries(ORDERS).map(([name, words]) => (
          <option key={name} value={name}>
            {words} first
          </option>
        ))}
      </select>
      <input
        type="search"
        class="use-team"
        aria-label="Only of team"
        placeholder="Every team"
        value={team}
        onChange={(event) => setParams({ team: event.currentTarget.value.trim() })}
      />
    </>
  );
}

function Sums({ top }: { top: Top }) {
  const { held, idle_held, gpus_expected, gpus_seen } = top;
  const wrong = top.exporters.filter((one) => one.state !== "ok");
  return (
    <Panel title="All GPUs">
      <div class="use-sums">
        <Bar
          label="GPUs"
          max={Math.max(gpus_expected, gpus_seen)}
          parts={[
            { value: held - idle_held, label: `${format.count(held - idle_held)} held and used`, tone: "used" },
            { value: idle_held, label: `${format.count(idle_held)} held and idle`, tone: "warn" },
            { value: gpus_seen - held, label: `${format.count(gpus_seen - held)} free`, tone: "free" },
          ]}
        />
        <Pairs
          pairs={[
            ["Held", `${format.count(held)} of ${format.count(gpus_expected)}`],
            ["Held and idle", format.count(idle_held)],
            ["Power", powerWords(top.power_w)],
            ["Reported by exporters", `${format.count(gpus_seen)} of ${format.count(gpus_expected)}`],
          ]}
        />
        {wrong.map(({ state, count, nodes }) => (
          <p key={state} class="note note-warn">
            {format.many(count, "exporter")} {state.replaceAll("-", " ")}
            {nodes.length > 0 && `: ${nodes.join(", ")}${nodes.length < count ? " …" : ""}`}
          </p>
        ))}
      </div>
    </Panel>
  );
}
