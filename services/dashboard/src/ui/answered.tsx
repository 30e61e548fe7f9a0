import type { ComponentChildren } from "preact";
import type { Fetched } from "./fetched";
import { Panel } from "./page";
import { Broken, Waiting } from "./states";

interface AnsweredProps<T> {
  of: Fetched<T>;
  /** While the first answer is on its way: "Loading the health of the fleet". */
  what: string;
  children: (value: T) => ComponentChildren;
}

/** What an answer says; before it came that it is awaited or why it does not come, and when the next fails, that too. */
export function Answered<T>({ of: { value, problem, again }, what, children }: AnsweredProps<T>) {
  if (value === undefined) {
    return problem ? (
      <Panel>
        <Broken problem={problem} retry={again} />
      </Panel>
    ) : (
      <Waiting what={what} />
    );
  }
  return (
    <>
      {problem && <p class="note note-warn">This is as it was told last: {problem.message}.</p>}
      {children(value)}
    </>
  );
}
