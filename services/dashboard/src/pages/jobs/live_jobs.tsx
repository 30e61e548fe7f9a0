import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { store } from "../../live/store";
import { Empty, useHotkey, Waiting } from "../../ui";
import { JobBoard } from "./board";
import { useNowNs } from "./clock";
import { dependsOnTime, type JobQuery } from "./query";
import { JobTable, type Source } from "./table";
import { counted } from "./words";

const STILL_MS = 2_500; // so long after the pointer moved over the table its order is held
const REFILL_MS = 5_000; // how often filters by time are looked at anew

interface LiveJobsProps {
  query: JobQuery;
  onQuery: (query: JobQuery) => void;
  /** Told after each change: how many are shown, how many there are, and how many of each phase. */
  onCounts: (shown: number, known: number, phases: ReadonlyMap<string, number>) => void;
}

/** Jobs that have not ended, as they stand at any moment. */
export function LiveJobs({ query, onQuery, onCounts }: LiveJobsProps) {
  const nowNs = useNowNs();
  const [isPaused, setIsPaused] = useState(false);
  const { board, version, waiting, point } = useBoard(query, isPaused);
  const open = useMemo(() => new Set(query.open), [query.open]);
  const source: Source = useMemo(
    () => ({
      length: board.length(open),
      lines: (start, count) => board.lines(start, count, open),
      indexOf: (id) => board.indexOf(id, open),
    }),
    [version, open],
  );
  useEffect(() => onCounts(board.size, board.known, board.phases), [version]);
  useHotkey("p", "Pause or resume the table", () => setIsPaused(!isPaused));
  if (!store.filled.value) return <Waiting what="Loading the fleet" />;
  if (!board.size) return <Nothing known={board.known} />;
  return (
    <>
      <JobTable
        label="Live jobs"
        source={source}
        nowNs={nowNs}
        sort={query.sort}
        descending={query.descending}
        onSort={(name) =>
          onQuery({ ...query, sort: name, descending: query.sort === name ? !query.descending : false })
        }
        onToggle={(name) => onQuery({ ...query, open: toggled(query.open, name) })}
        onPointing={point}
      />
      <Stillness isPaused={isPaused} waiting={waiting} onPause={() => setIsPaused(!isPaused)} />
    </>
  );
}

function toggled(open: readonly string[], name: string): readonly string[] {
  return open.includes(name) ? open.filter((one) => one !== name) : [...open, name];
}

function Nothing({ known }: { known: number }) {
  if (known)
    return (
      <Empty title="No live job matches">{`${counted(known, "job")} are live. Relax or clear the filters.`}</Empty>
    );
  return (
    <Empty title="No live jobs">
      Submit one with <code>muster submit</code>; it appears here at once. Jobs that have ended are under Ended.
    </Empty>
  );
}

function Stillness({ isPaused, waiting, onPause }: { isPaused: boolean; waiting: number; onPause: () => void }) {
  return (
    <div class="jobs-still">
      <button type="button" class="button button-quiet" aria-pressed={isPaused} title="p" onClick={onPause}>
        {isPaused ? "Go on" : "Hold still"}
      </button>
      <span class="muted" role="status">
        {isPaused
          ? `Paused; ${counted(waiting, "job")} changed since`
          : waiting
            ? "Paused while the pointer is over it"
            : ""}
      </span>
    </div>
  );
}

/** The board, kept by the store's changes; while it is held still they are gathered. */
function useBoard(query: JobQuery, isPaused: boolean) {
  const board = useMemo(() => new JobBoard(query), []);
  const version = useRef(0);
  const [, draw] = useState(0);
  const [waiting, setWaiting] = useState(0);
  const gathered = useRef(new Set<string>());
  const isStale = useRef(false); // a snapshot was taken: all is to be read anew
  const stillUntilMs = useRef(0);
  const now = useRef({ query, isPaused });
  now.current = { query, isPaused };

  const fill = () => {
    gathered.current.clear();
    isStale.current = false;
    board.fill(now.current.query, store.jobs.values(), Date.now() * 1e6);
    version.current += 1;
  };
  const show = () => {
    setWaiting(now.current.isPaused ? gathered.current.size : 0);
    draw(version.current);
  };
  const flush = () => {
    if (isStale.current) {
      fill();
      show();
      return;
    }
    if (!gathered.current.size) return;
    const ids = gathered.current;
    gathered.current = new Set();
    if (board.apply(ids, store.jobs, Date.now() * 1e6)) version.current += 1;
    show();
  };

  useMemo(fill, [query.show, query.text, query.filters, query.group, query.sort, query.descending]);
  useEffect(
    () =>
      store.subscribe((changes) => {
        if (changes.reset) {
          isStale.current = true;
          if (!now.current.isPaused) flush();
          return;
        }
        for (const id of changes.jobs) gathered.current.add(id);
        for (const id of changes.goneJobs) {
          if (board.has(id)) gathered.current.add(id);
          else gathered.current.delete(id); // came and went while the table was held still
        }
        if (!now.current.isPaused && performance.now() >= stillUntilMs.current) flush();
        else setWaiting(gathered.current.size);
      }),
    [],
  );
  useEffect(() => {
    if (!isPaused) flush();
  }, [isPaused]);
  useEffect(() => {
    const timer = setInterval(
      () => {
        if (now.current.isPaused) return;
        if (dependsOnTime(now.current.query)) {
          fill();
          show();
        } else if (performance.now() >= stillUntilMs.current) flush();
      },
      dependsOnTime(query) ? REFILL_MS : STILL_MS,
    );
    return () => clearInterval(timer);
  }, [dependsOnTime(query)]);
  const point = (isPointing: boolean) => {
    stillUntilMs.current = isPointing ? performance.now() + STILL_MS : 0;
    if (!isPointing && !now.current.isPaused) flush();
  };
  return { board, version: version.current, waiting, point };
}
