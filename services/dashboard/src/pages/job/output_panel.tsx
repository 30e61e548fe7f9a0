import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { store } from "../../live/store";
import { Broken, Empty, Panel, Waiting } from "../../ui";
import type { JobView } from "../../wire";
import { counted, TERMINAL } from "../jobs/words";
import { whyNotAllowed } from "./access";
import { useOutput } from "./data";
import { matching, speaker, type TailLine } from "./output";

const NEAR_END_PX = 24;

/** What the job printed: the newest lines, followed until somebody scrolls up. */
export function OutputPanel({ job }: { job: JobView }) {
  const me = store.me.value;
  const refused = me === null ? "" : whyNotAllowed(job, me);
  const { tail, isKnown, problem, again } = useOutput(job, me !== null && !refused);
  const [search, setSearch] = useState("");
  const [isWrapped, setIsWrapped] = useState(true);
  const lines = useMemo(() => matching(tail, search), [tail, search]);
  const found = search ? `${counted(lines.length, "line")} of ${tail.lines.length}` : "";
  const note = tail.lines.length ? found || counted(tail.lines.length, "line") : undefined;
  return (
    <Panel
      title="Output"
      note={note}
      flush
      actions={
        tail.lines.length > 0 && (
          <>
            <input
              type="search"
              placeholder="Find in it"
              aria-label="Find in the output"
              value={search}
              onInput={(event) => setSearch(event.currentTarget.value)}
            />
            <label class="check">
              <input
                type="checkbox"
                checked={isWrapped}
                onChange={(event) => setIsWrapped(event.currentTarget.checked)}
              />
              Wrap
            </label>
          </>
        )
      }
    >
      {tail.lines.length ? (
        <Lines lines={lines} dropped={tail.dropped} isWrapped={isWrapped} isSeveral={job.replicas > 1} />
      ) : refused ? (
        <Empty title="Only the team can read the output">{refused}</Empty>
      ) : problem ? (
        <Broken problem={problem} retry={again} />
      ) : !isKnown ? (
        <Waiting what="Loading the output" />
      ) : (
        <Empty title={TERMINAL.has(job.phase) ? "No output is stored" : "No output yet"}>
          {TERMINAL.has(job.phase)
            ? "The job printed nothing, or its output is no longer stored."
            : "Lines appear when the job prints them."}
        </Empty>
      )}
    </Panel>
  );
}

interface LinesProps {
  lines: readonly TailLine[];
  dropped: number;
  isWrapped: boolean;
  isSeveral: boolean;
}

function Lines({ lines, dropped, isWrapped, isSeveral }: LinesProps) {
  const box = useRef<HTMLDivElement>(null);
  const [isFollowing, setIsFollowing] = useState(true);
  const seen = useRef(0);
  const hasGroups = lines.some((line) => line.group > 0);
  const newest = lines[lines.length - 1]?.number ?? 0;
  useLayoutEffect(() => {
    if (isFollowing && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [newest, isFollowing]);
  useEffect(() => {
    if (isFollowing) seen.current = newest;
  }, [newest, isFollowing]);
  const follow = () => {
    const at = box.current;
    if (at) setIsFollowing(at.scrollHeight - at.scrollTop - at.clientHeight < NEAR_END_PX);
  };
  return (
    <div class="lines-whole">
      <div
        class={`lines ${isWrapped ? "lines-wrapped" : ""}`}
        ref={box}
        onScroll={follow}
        role="log"
        aria-label="Output"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        tabIndex={0}
      >
        {dropped > 0 && <p class="muted">{counted(dropped, "earlier line")} left out</p>}
        {lines.map((line) => (
          <Line key={line.number} line={line} who={isSeveral || line.attempt > 1 ? speaker(line, hasGroups) : ""} />
        ))}
      </div>
      {!isFollowing && (
        <button type="button" class="button lines-follow" onClick={() => setIsFollowing(true)}>
          {newest > seen.current ? `${counted(newest - seen.current, "newer line")} ↓` : "To the end ↓"}
        </button>
      )}
    </div>
  );
}

const Line = memo(({ line, who }: { line: TailLine; who: string }) => (
  <div class="line" title={new Date(line.at / 1e6).toISOString()}>
    <span class="line-number">{line.number}</span>
    {who && <span class="line-who">{who}</span>}
    <span class="line-text">{line.text || " "}</span>
  </div>
));
