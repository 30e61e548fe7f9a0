import "./fleet.css";
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { store } from "../../live/store";
import { ClusterChoice, Empty, format, Page, useHotkey, useQueryParams, Waiting } from "../../ui";
import { Details } from "./details";
import { JobPanel } from "./job_panel";
import { Legend } from "./legend";
import type { Selection } from "./map";
import { MapView } from "./map_view";
import { COLOUR_BYS, type ColourBy } from "./palette";
import { PoolStrip } from "./pool_strip";
import { Session } from "./session";
import { TableView } from "./table_view";

const DEFAULTS = { by: "job", q: "", cluster: "", view: "map", node: "", gpu: "", job: "", team: "", sort: "node" };
const BY_WORDS: Record<ColourBy, string> = {
  job: "Job",
  team: "Team",
  utilisation: "Utilization",
  temperature: "Temperature",
};

function selectionOf(node: string, gpu: string): Selection | undefined {
  return node ? { node, place: /^\d+$/.test(gpu) ? Number(gpu) : -1 } : undefined;
}

export default function Fleet() {
  const session = useMemo(() => new Session(store), []);
  useEffect(() => session.open(), [session]);
  const [params, setParams] = useQueryParams(DEFAULTS);
  const pointed = useSignal("");
  const by = COLOUR_BYS.find((one) => one === params.by) ?? "job";
  const selection = useMemo(() => selectionOf(params.node, params.gpu), [params.node, params.gpu]);
  session.show({
    by,
    q: params.q,
    cluster: params.cluster,
    job: params.job,
    team: pointed.value || params.team,
    selection,
  });
  const select = (next: Selection | undefined): void =>
    setParams({ node: next?.node ?? "", gpu: next && next.place >= 0 ? String(next.place) : "" });
  const isTable = params.view === "table";
  const search = useRef<HTMLInputElement>(null);
  COLOUR_BYS.forEach((one, at) => {
    useHotkey(String(at + 1), `Color the fleet by ${one}`, () => setParams({ by: one }));
  });
  useHotkey("f", "Filter the fleet", () => search.current?.focus());
  const isEmpty = useComputed(() => store.version.nodes.value >= 0 && store.nodes.size === 0);
  const actions = (
    <>
      <input
        ref={search}
        type="search"
        class="fleet-filter"
        aria-label="Filter: words, team:, job:, node:, state:"
        placeholder="Filter, like team:physics"
        value={params.q}
        onInput={(event) => setParams({ q: event.currentTarget.value })}
      />
      <ClusterChoice all="All clusters" clears={["node", "gpu"]} />
      <fieldset class="button-group fleet-set" aria-label="Colour by">
        {COLOUR_BYS.map((one) => (
          <button
            key={one}
            type="button"
            class="button"
            aria-pressed={one === by}
            onClick={() => setParams({ by: one })}
          >
            {BY_WORDS[one]}
          </button>
        ))}
      </fieldset>
      {!isTable && <Zoom session={session} />}
      <button
        type="button"
        class="button"
        aria-pressed={isTable}
        onClick={() => setParams({ view: isTable ? "map" : "table" })}
      >
        Table
      </button>
    </>
  );
  return (
    <Page title="Fleet" note={<Note session={session} />} actions={actions} fill>
      {isEmpty.value ? (
        <Nothing />
      ) : (
        <div class="fleet" ref={(element) => session.mountFlights(element)}>
          <div class="fleet-main panel">
            {isTable ? (
              <Rows
                session={session}
                sort={params.sort}
                selected={selection?.node ?? ""}
                setParams={setParams}
                select={select}
              />
            ) : (
              <MapView session={session} onOpen={select} onClose={() => setParams({ node: "", gpu: "", job: "" })} />
            )}
            <Counts
              session={session}
              by={by}
              team={params.team}
              onPoint={(team) => {
                pointed.value = team;
              }}
              onChoose={(team) => setParams({ team })}
            />
          </div>
          <aside class="fleet-side" aria-label="Pool and details">
            <Strip session={session} cluster={params.cluster} />
            {params.job && <OneJob session={session} id={params.job} setParams={setParams} select={select} />}
            {selection && (
              <Chosen session={session} selection={selection} job={params.job} setParams={setParams} select={select} />
            )}
            {!selection && !params.job && <Hints />}
          </aside>
          <canvas class="fleet-flights" />
        </div>
      )}
    </Page>
  );
}

type SetParams = (changes: Partial<Record<keyof typeof DEFAULTS, string>>) => void;

function Zoom({ session }: { session: Session }) {
  const isFit = session.isFit.value;
  return (
    <fieldset class="button-group fleet-zoom fleet-set" aria-label="Zoom">
      <button
        type="button"
        class="button"
        aria-label="Zoom out"
        title="Zoom out (−)"
        disabled={isFit}
        onClick={() => session.map?.zoomBy(-1)}
      >
        −
      </button>
      <button
        type="button"
        class="button"
        aria-label="Show all"
        title="Show all (0)"
        disabled={isFit}
        onClick={() => session.map?.zoomToFit()}
      >
        ⤢
      </button>
      <button
        type="button"
        class="button"
        aria-label="Zoom in"
        title="Zoom in (+)"
        onClick={() => session.map?.zoomBy(1)}
      >
        +
      </button>
    </fieldset>
  );
}

function Note({ session }: { session: Session }) {
  const { gpus, heldMilli, nodes, jobs } = session.tally.value;
  if (nodes === 0) {
    return null;
  }
  return (
    <>
      {format.many(gpus, "GPU")} on {format.many(nodes, "node")} · {format.percent(gpus ? heldMilli / 1000 / gpus : 0)}{" "}
      held · {format.many(jobs, "job")}
    </>
  );
}

function Nothing() {
  return store.filled.value ? (
    <Empty title="No nodes yet">
      Nodes appear here as they join. <code>muster up</code> starts a simulated fleet.
    </Empty>
  ) : (
    <Waiting what="Loading the fleet" />
  );
}

interface CountsProps {
  session: Session;
  by: ColourBy;
  team: string;
  onPoint: (team: string) => void;
  onChoose: (team: string) => void;
}

function Counts({ session, ...rest }: CountsProps) {
  return <Legend tally={session.tally.value} {...rest} />;
}

function Strip({ session, cluster }: { session: Session; cluster: string }) {
  session.poolVersion.value;
  return (
    <PoolStrip
      figures={session.pool.figures(cluster)}
      moving={session.underWay()}
      problem={session.poolProblem.value}
    />
  );
}

interface RowsProps {
  session: Session;
  sort: string;
  selected: string;
  setParams: SetParams;
  select: (selection: Selection) => void;
}

function Rows({ session, sort, selected, setParams, select }: RowsProps) {
  session.tick.value;
  return (
    <TableView
      cells={session.cells}
      sort={sort}
      selected={selected}
      onSort={(wanted) => setParams({ sort: wanted })}
      onOpen={(node) => select({ node, place: -1 })}
    />
  );
}

interface ChosenProps {
  session: Session;
  selection: Selection;
  job: string;
  setParams: SetParams;
  select: (selection: Selection | undefined) => void;
}

function Chosen({ session, selection, job, setParams, select }: ChosenProps) {
  session.tick.value;
  return (
    <Details
      cells={session.cells}
      selection={selection}
      history={session.history()}
      job={job}
      onJob={(id) => setParams({ job: id })}
      onPlace={(place) => select({ node: selection.node, place })}
      onClose={() => setParams({ node: "", gpu: "" })}
    />
  );
}

interface OneJobProps {
  session: Session;
  id: string;
  setParams: SetParams;
  select: (selection: Selection) => void;
}

function OneJob({ session, id, setParams, select }: OneJobProps) {
  session.tick.value;
  return (
    <JobPanel
      cells={session.cells}
      id={id}
      job={store.jobs.get(id)}
      onNode={(node) => select({ node, place: -1 })}
      onClose={() => setParams({ job: "" })}
    />
  );
}

function Hints() {
  return (
    <section class="panel fleet-hints" aria-label="How to use the map">
      <div class="panel-body">
        <p>Click a GPU or a node to see its details. In the map:</p>
        <dl>
          <dt>
            <kbd>←</kbd> <kbd>↑</kbd> <kbd>→</kbd> <kbd>↓</kbd>
          </dt>
          <dd>move over GPUs</dd>
          <dt>
            <kbd>Enter</kbd> <kbd>Space</kbd>
          </dt>
          <dd>open the GPU, its node</dd>
          <dt>
            <kbd>+</kbd> <kbd>−</kbd> <kbd>0</kbd>
          </dt>
          <dd>zoom, fit all</dd>
          <dt>
            <kbd>1</kbd> … <kbd>4</kbd>
          </dt>
          <dd>colour by</dd>
        </dl>
      </div>
    </section>
  );
}
